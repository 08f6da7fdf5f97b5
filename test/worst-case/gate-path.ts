import type { PendingCall } from '../../src/gate/request.js';
import { timed, type Call } from './verify-path.js';

const { createVerifier } = await import('../../src/verifier/create-verifier.js');
const { judgeBehind } = await import('../../src/verifier/call-options.js');
const { bodyOfBytes } = await import('../../src/gate/carriers.js');
const { bindOptionsOf, decide } = await import('../../src/gate/decide.js');
const { openRequest } = await import('../../src/gate/open.js');
const { forwardMcp } = await import('../../src/gate/mcp-forward.js');
const { readHeaders } = await import('../../src/gate/request.js');
const { responseTo } = await import('../../src/gate/response.js');
const { RouteTable } = await import('../../src/gate/routes.js');
const { readGateRequest } = await import('../../src/service/routes/gate-api-route.js');
const { CHECK } = await import('../../src/service/grpc/check.js');

type Protocol = Parameters<typeof openRequest>[0];
type GateRequest = Parameters<typeof openRequest>[1];

/** As many routes as there may be; the first one takes envelopes, the last one has as many arguments as fit. */
const ROUTES = RouteTable.parse(
  JSON.stringify({
    routes: Array.from({ length: 1000 }, (_, at) => ({
      ...{ method: 'POST', path: `/x${at}/{p}`, tool: 'any' },
      body: at === 0 ? 'envelope' : 'json',
      query: at < 999 ? [] : Array.from({ length: 20_000 }, (__, index) => `q${index}`),
    })),
  }),
);

/** The bytes of a gate request: protocol, method and path, headers and body, each on a line. */
export function gateRequest(
  protocol: Protocol,
  bundle: string,
  body: string,
  target = 'POST /',
  headers: Readonly<Record<string, string>> = {},
): string {
  const all = bundle === '' ? headers : { 'x-drs-bundle': bundle, ...headers };
  return `${protocol} ${target}\n${JSON.stringify(all)}\n${body}`;
}

/**
 * Opens a gate with an empty cache that handles a request like the service and the middleware: headers, body, the
 * adapter of the protocol, the chain, the decision, and the answer to a refused one. Replay is left out.
 */
export function openGatePath(): Promise<(bytes: Buffer) => Promise<Call>> {
  const decide = openGate();
  return Promise.resolve(
    timed((bytes) => {
      const first = bytes.indexOf(10);
      const second = bytes.indexOf(10, first + 1);
      const [protocol, method = '', path = ''] = bytes.toString('latin1', 0, first).split(' ');
      return decide(protocol as Protocol, {
        method,
        target: path,
        headers: readHeaders(
          JSON.parse(bytes.toString('latin1', first + 1, second)) as Record<string, string>,
        ),
        body: bodyOfBytes(bytes.subarray(second + 1), readHeaders({ 'content-type': 'application/json' })),
      });
    }),
  );
}

/** The same for the body of a request to `/v1/gate`. */
export function openDescribedPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  const decide = openGate();
  return Promise.resolve(
    timed((bytes) => {
      const read = readGateRequest(bytes);
      if ('error' in read) return Promise.resolve({ answer: read.error, answerBytes: read.detail.length });
      return decide(read.protocol, read.request);
    }),
  );
}

/** The same for a question of Envoy over gRPC, from its bytes to those of the answer. */
export function openGrpcPath(): Promise<(bytes: Buffer) => Promise<Call>> {
  const decide = openGate();
  const run = timed(async (wire) => {
    let query: ReturnType<typeof CHECK.read>;
    try {
      query = CHECK.read(wire, 'http', MAX_BODY_BYTES);
    } catch (error) {
      return { answer: 'not understood', answerBytes: (error as Error).message.length };
    }
    return decide(query.protocol, query.request);
  });
  // Each character is a byte.
  return Promise.resolve((bytes) => run(Buffer.from(bytes.toString(), 'latin1')));
}

const MAX_BODY_BYTES = 1024 * 1024;

/** The text of a field of protobuf, of bytes or a message; each character is a byte. */
export function field(id: number, content: string): string {
  const varint = (value: number): string =>
    value < 0x80
      ? String.fromCharCode(value)
      : String.fromCharCode((value & 0x7f) | 0x80) + varint(value >>> 7);
  return `${varint((id << 3) | 2)}${varint(content.length)}${content}`;
}

function openGate() {
  const judgeBundle = judgeBehind(createVerifier({ workerThreads: 0 }));
  if (judgeBundle === undefined) throw new Error('the verifier of this process gives no proved chain');
  const now = () => Math.floor(Date.now() / 1000);
  const rules = { trustedRoots: null, serverIdentity: null } as const;
  const judge = (call: PendingCall) =>
    judgeBundle(call.bundle, { ...bindOptionsOf(call.body), details: true });
  return async (protocol: Protocol, request: GateRequest): Promise<Omit<Call, 'ms'>> => {
    const opened = openRequest(protocol, request, {
      routes: request.target === null || request.target === '/' ? 'any' : ROUTES,
    });
    if (opened.kind === 'pass') {
      // A guard sends it on.
      const sent = protocol === 'mcp' && request.body.kind === 'text' && forwardMcp(request.body.text, null);
      return { answer: 'pass', answerBytes: sent ? 0 : 1 };
    }
    const decided =
      opened.kind === 'deny' ? opened : await decide(opened, await judge(opened), { now, rules, use: null });
    if (decided.kind !== 'deny') return { answer: 'allow', answerBytes: 0 };
    const { body } = responseTo(decided);
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return { answer: decided.failure.code, answerBytes: Buffer.byteLength(text) };
  };
}
