import { createRequire } from 'node:module';
import path from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { newLatencies, recordLatency } from '../measure/statistics.js';
import type { GateCall } from '../workload/workload.js';
import type { Fared, Target } from './open-loop.js';

const CHECK = '/envoy.service.auth.v3.Authorization/Check';
/** The status of a call that is refused because of overload. */
const UNAVAILABLE = 14;
/** Envoy has a few connections to a gate, each with many calls at once. */
const CHANNELS = 2;

interface CheckAnswer {
  readonly status?: { readonly code?: number };
  readonly ok_response?: {
    readonly headers?: readonly { readonly header?: { readonly key: string; readonly value: string } }[];
  };
}

/** Envoy's own definitions, not those that the service is written by. */
function envoyCheck() {
  const xds = createRequire(import.meta.url).resolve('@grpc/grpc-js-xds/package.json');
  const definitions = loadSync('envoy/service/auth/v3/external_auth.proto', {
    includeDirs: ['envoy-api', 'googleapis', 'protoc-gen-validate', 'xds'].map((name) =>
      path.join(path.dirname(xds), 'deps', name),
    ),
    ...{ keepCase: true, arrays: true },
  });
  const service = definitions['envoy.service.auth.v3.Authorization'] as
    | Record<string, { requestSerialize(value: object): Buffer; responseDeserialize(bytes: Buffer): object }>
    | undefined;
  const check = service?.['Check'];
  if (check === undefined) throw new Error('the definitions of Envoy have no Authorization/Check');
  return check;
}

/** What Envoy asks about a call. */
const question = ({ bundle, message }: GateCall) => ({
  attributes: {
    request: {
      http: {
        ...{ id: '1', method: 'POST', path: '/mcp', host: 'tools.example', protocol: 'HTTP/1.1' },
        headers: { ':method': 'POST', 'content-type': 'application/json', 'x-drs-bundle': bundle },
        raw_body: Buffer.from(message),
      },
    },
  },
});

/**
 * Closed loop over gRPC: as many calls under way as `connections` says, each followed by the next. The generator is
 * this process, which the processor time of the service leaves out. Every answer is read and checked.
 *
 * @param depth what the answer must say of the chain
 * @param target.isBurst ends after one call each; otherwise refusals count as wrong answers
 */
export async function runGrpc(
  calls: readonly GateCall[],
  depth: number,
  { port, connections, seconds, isBurst = false }: Target & { readonly isBurst?: boolean },
): Promise<Fared> {
  const check = envoyCheck();
  const questions = calls.map((call) => check.requestSerialize(question(call)));
  const clients = Array.from(
    { length: CHANNELS },
    (_, at) => new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { 'bench.channel': at }),
  );
  const latencies = newLatencies();
  const tally = { answered: 0, refused: 0, timedOut: 0, wrong: 0, firstWrong: '' };
  let next = 0;
  const startedAt = performance.now();
  const ask = (client: Client) =>
    new Promise<void>((resolve) => {
      const sentAt = performance.now();
      const onAnswer = (error: Error | null, answer: CheckAnswer = {}) => {
        resolve();
        if (isBurst && answer.status?.code === UNAVAILABLE) {
          tally.refused++;
          return;
        }
        tally.answered++;
        recordLatency(latencies, (performance.now() - sentAt) * 1000);
        const fault = error === null ? faultIn(answer, depth) : error.message;
        if (fault !== null && tally.wrong++ === 0) tally.firstWrong = fault;
      };
      client.makeUnaryRequest(
        CHECK,
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => check.responseDeserialize(bytes) as CheckAnswer,
        questions[next++ % questions.length] as Buffer,
        onAnswer,
      );
    });
  const loop = async (_: unknown, at: number) => {
    do await ask(clients[at % CHANNELS] as Client);
    while (!isBurst && performance.now() < startedAt + seconds * 1000);
  };
  try {
    await Promise.all(Array.from({ length: connections }, loop));
  } finally {
    for (const client of clients) client.close();
  }
  return { ...tally, latencies, seconds: (performance.now() - startedAt) / 1000 };
}

/** Why an answer is not the allowance of a chain of this depth; `null` if it is. */
function faultIn({ status, ok_response: allowed }: CheckAnswer, depth: number): string | null {
  const said = allowed?.headers?.find(({ header }) => header?.key === 'x-drs-chain-depth')?.header?.value;
  const code = status?.code ?? 0;
  return code === 0 && said === String(depth)
    ? null
    : `status ${code}, x-drs-chain-depth ${String(said)}, expected 0 and ${depth}`;
}
