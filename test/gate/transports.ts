import { once } from 'node:events';
import { request, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { bodyOfBytes } from '../../src/gate/carriers.js';
import type { Protocol } from '../../src/gate/codes.js';
import { readHeaders } from '../../src/gate/request.js';
import { drsA2a } from '../../src/middleware/a2a/index.js';
import {
  createMemoryReplayStore,
  drsContext,
  drsMiddleware,
  findDrsContext,
  type CallVerifier,
  type RpcError,
} from '../../src/middleware/index.js';
import type { ServerOptions } from '../../src/middleware/options.js';
import { drsMcp } from '../../src/middleware/mcp/index.js';
import { OPEN } from '../middleware/call.js';
import { listen } from '../middleware/http.js';
import type { RunningService } from '../support/service.js';
import type { Attempt } from './attacks.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { askMcp } from '../support/mcp-message.js';
import { newGate, verifier } from './decide.js';

/** What a gate says, whichever way it was asked. */
export interface Said {
  readonly decision: 'pass' | 'allow' | 'deny';
  readonly status: number;
  readonly code: string;
  /** What the caller gets of a denial. */
  readonly body: unknown;
}

/** One way to a gate. */
export type Ask = (protocol: Protocol, attempt: Attempt) => Promise<Said>;

const valuesOf = (headers: Attempt['headers'] = []) => {
  const map: Record<string, string[]> = {};
  for (const [name, value] of headers) (map[name] ??= []).push(value);
  return map;
};

/** Without the times that a refusal names of its clock: a second may begin between two of them. */
export const untimed = <T>(said: T): T =>
  JSON.parse(JSON.stringify(said).replaceAll(/\d{10} \(\d{4}-[^)]*Z\)/g, 'a time')) as T;

const codeIn = (body: unknown): string => {
  const { error } = (body ?? {}) as { error?: { code?: unknown; data?: { code?: unknown } } };
  const code = error?.data?.code ?? error?.code;
  return typeof code === 'string' ? code : '';
};

/** The pure gate with an engine in this process. */
export function askPure(...rules: Parameters<typeof newGate>): Ask {
  const gate = newGate(...rules);
  return async (protocol, { method, at = '/a2a', headers, body = '' }) => {
    const map = valuesOf(headers);
    const said = await gate(protocol, {
      method: method ?? 'POST',
      path: at === '' ? null : at,
      headers: map,
      read: bodyOfBytes(Buffer.from(body), readHeaders(map)),
    });
    if (said.decision !== 'deny') return { decision: said.decision, status: 200, code: '', body: '' };
    const { status, body: answered } = said.response;
    return { decision: 'deny', status, code: said.code, body: answered };
  };
}

/** What a middleware is told besides; by default it trusts everybody. */
interface OtherRules extends Partial<ServerOptions> {
  readonly verifier?: CallVerifier;
}

/** The middleware in front of a tool, in this process. */
export async function askMiddleware({
  tool = 'any',
  ...options
}: OtherRules & { readonly tool?: string } = {}): Promise<{ ask: Ask; close: () => Promise<void> }> {
  const drs = { ...OPEN, verifier, maxBodyBytes: 1024 * 1024, ...options };
  const http = drsMiddleware({ ...drs, tool, replayStore: createMemoryReplayStore() });
  const a2a = drsA2a({ ...drs, replayStore: createMemoryReplayStore() });
  const behind = (middleware: typeof http) =>
    listen((req, res) => middleware(req, res, () => answer(req, res)));
  const answer = (req: IncomingMessage, res: ServerResponse) => {
    let hasContext = true;
    try {
      drsContext(req);
    } catch {
      hasContext = false;
    }
    res.setHeader('x-decision', hasContext ? 'allow' : 'pass').end();
  };
  const servers = { http: await behind(http), a2a: await behind(a2a) };
  return {
    close: async () => {
      await Promise.all([servers.http.close(), servers.a2a.close()]);
    },
    ask: async (protocol, attempt) => {
      const { url } = servers[protocol === 'a2a' ? 'a2a' : 'http'];
      const { status, headers, body } = await exchange(url, attempt, attempt.at ?? '/a2a');
      const decision = headers['x-decision'];
      if (decision === 'allow' || decision === 'pass') return { decision, status: 200, code: '', body: '' };
      return { decision: 'deny', status, code: codeIn(body), body };
    },
  };
}

/** The middleware inside a server of MCP. It gets messages that an SDK has read. */
export function askDrsMcp(options: OtherRules = {}): Ask {
  const protection = drsMcp({ ...OPEN, verifier, replayStore: createMemoryReplayStore(), ...options });
  return async (_protocol, { headers, body = '' }) => {
    const extra = { request: { headers: new Headers(headers?.map(([name, value]) => [name, value])) } };
    const message = JSON.parse(String(body)) as object;
    try {
      const context = await askMcp(protection, message, findDrsContext, extra);
      return { decision: context === null ? 'pass' : 'allow', status: 200, code: '', body: '' };
    } catch (error) {
      const { code, data, message } = error as RpcError;
      return {
        ...{ decision: 'deny', status: data.status, code: data.code },
        body: { error: { code, message, data } },
      };
    }
  };
}

/** `POST /v1/gate` of a service. */
export function askV1(service: RunningService): Ask {
  return async (protocol, { method = 'POST', at, headers, body = '', isChunked }) => {
    const asked = { protocol, method, path: at, headers: valuesOf(headers), body_text: String(body) };
    const answer =
      isChunked === true
        ? await exchange(`${service.url}/v1/gate`, { body: JSON.stringify(asked), isChunked })
        : await service
            .post('/v1/gate', asked)
            .then(async (response) => ({ status: response.status, body: await response.json() }));
    const said = answer.body as { allow: boolean; gated: boolean; status: number; response?: unknown };
    if (answer.status !== 200) return { decision: 'deny', status: answer.status, code: '', body: said };
    if (said.allow)
      return { decision: said.gated ? 'allow' : 'pass', status: said.status, code: '', body: '' };
    return { decision: 'deny', status: said.status, code: codeIn(said.response), body: said.response };
  };
}

/** `/gate/*` of a service, as a proxy asks it. */
export function askProxy(service: RunningService): Ask {
  return async (protocol, attempt) => {
    const own = `/gate/${protocol}${attempt.at ?? '/a2a'}`;
    const path = attempt.path?.startsWith('!') === true ? attempt.path.slice(1) : own;
    const { status, headers, body } = await exchange(service.url, attempt, path);
    if (status !== 200) return { decision: 'deny', status, code: codeIn(body), body };
    const removed = String(headers['x-envoy-auth-headers-to-remove']).split(',');
    // What the gate does not say itself, nobody says.
    for (const name of CONTEXT) {
      if ((headers[name] === undefined) !== removed.includes(name)) throw new Error(`${name} is left open`);
    }
    return { decision: headers['x-drs-agent'] === undefined ? 'pass' : 'allow', status, code: '', body };
  };
}

/**
 * A proxy in front of a tool server that takes any request.
 *
 * @param arrived the headers of the requests that got to the tool server, in their order
 */
export function askThrough(url: string, arrived: () => readonly IncomingHttpHeaders[]): Ask {
  return async (protocol, attempt) => {
    const before = arrived().length;
    const { status, body } = await exchange(`${url}/${protocol}`, attempt);
    const headers = arrived()[before];
    if (headers === undefined) return { decision: 'deny', status, code: codeIn(body), body };
    // Some proxies send an empty header where there is none to send.
    return { decision: headers['x-drs-agent'] ? 'allow' : 'pass', status: 200, code: '', body: '' };
  };
}

/** The headers of docs/spec/gate.md that only a gate may set, in lower case. */
export const CONTEXT = [
  ...['x-drs-root-principal', 'x-drs-root-name', 'x-drs-agent', 'x-drs-chain-depth', 'x-drs-command'],
  ...['x-drs-tool', 'x-drs-invocation', 'x-drs-binding', 'x-drs-context'],
  ...['x-drs-root-type', 'x-drs-session-id', 'x-drs-correlation-id', 'x-drs-approved-by'],
  'x-drs-observed',
];

interface Closable {
  readonly ask: Ask;
  close(): void;
}

/** Headers as Envoy joins them: one value for each name. */
const joined = (headers: Attempt['headers'] = []) => {
  const map: Record<string, string> = {};
  for (const [name, value] of headers) {
    const lower = name.toLowerCase();
    map[lower] = map[lower] === undefined ? value : `${map[lower]},${value}`;
  }
  return map;
};

interface CheckAnswer {
  readonly status: { readonly code: number };
  readonly ok_response?: {
    readonly headers: { readonly header: { readonly key: string }; readonly append_action: string }[];
    readonly headers_to_remove: string[];
  };
  readonly denied_response?: {
    readonly status: { readonly code: string };
    readonly body: string;
  };
}

/** Envoy's numbers have names. */
const STATUS: Readonly<Record<string, number>> = {
  BadRequest: 400,
  Unauthorized: 401,
  Forbidden: 403,
  NotFound: 404,
  MethodNotAllowed: 405,
  Conflict: 409,
  PayloadTooLarge: 413,
  ServiceUnavailable: 503,
};

/** `Authorization/Check` of a service, as Envoy asks it. */
export function askGrpc(service: RunningService): Closable {
  const client = clientOf(AUTHORIZATION, grpcPortOf(service));
  return {
    close: () => client.close(),
    ask: async (protocol, { method = 'POST', at = '/a2a', headers, body = '' }) => {
      const said = (await callOnce(client, 'Check', {
        attributes: {
          request: {
            http: { method, headers: joined(headers), raw_body: Buffer.from(body), path: at, size: -1 },
          },
          context_extensions: { drs_protocol: protocol },
        },
      })) as unknown as CheckAnswer;
      const { ok_response: ok, denied_response: denied } = said;
      if (denied !== undefined) {
        const answered = JSON.parse(denied.body) as unknown;
        const status = STATUS[denied.status.code] ?? 0;
        if (said.status.code === 0) throw new Error('denied with the status OK');
        return { decision: 'deny', status, code: codeIn(answered), body: answered };
      }
      if (ok === undefined || said.status.code !== 0) throw new Error('neither allowed nor denied');
      const set = ok.headers.map(({ header }) => header.key);
      for (const name of CONTEXT) {
        if (set.includes(name) === ok.headers_to_remove.includes(name))
          throw new Error(`${name} is left open`);
      }
      return { decision: set.includes('x-drs-agent') ? 'allow' : 'pass', status: 200, code: '', body: '' };
    },
  };
}

/** Sends a request to the letter: paths stay as they are, headers can repeat. */
async function exchange(
  url: string,
  { method = 'POST', headers, body = '', isChunked }: Attempt,
  path?: string,
) {
  const req = request(url, { method, agent: false, ...(path === undefined ? {} : { path }) });
  const inOneSpelling = headers?.map(([name, value]) => [name.toLowerCase(), value] as const);
  for (const [name, values] of Object.entries(valuesOf(inOneSpelling))) {
    req.setHeader(name, values.length === 1 ? (values[0] as string) : values);
  }
  if (isChunked === true) req.write(body.slice(0, 40));
  else if (body.length > 0) req.setHeader('Content-Length', Buffer.byteLength(body));
  req.end(isChunked === true ? body.slice(40) : body);
  const [res] = (await once(req, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of res.setEncoding('utf8')) text += chunk as string;
  let parsed: unknown = text;
  try {
    parsed = JSON.parse(text);
  } catch {
    // Left as text.
  }
  return { status: res.statusCode ?? 0, headers: res.headers, body: parsed };
}
