import { createRequire } from 'node:module';
import path from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { newLatencies } from '../measure/statistics.js';
import type { GateCall } from '../workload/workload.js';
import type { LoadResult, Target } from './open-loop.js';

const CHECK = '/envoy.service.auth.v3.Authorization/Check';
/** The status of a call that is refused because of overload. */
const UNAVAILABLE = 14;
/** Envoy has a few connections to a gate, each with many calls at once. */
const CHANNELS = 2;

/** What a crowd met over gRPC. */
export interface GrpcResult extends LoadResult {
  /** Calls that were refused because of overload; they are not in {@link LoadResult.requests}. */
  readonly refused: number;
}

interface CheckAnswer {
  readonly status?: { readonly code?: number };
  readonly ok_response?: {
    readonly headers?: readonly { readonly header?: { readonly key: string; readonly value: string } }[];
  };
}

/** Envoy's own definitions, not those that the service is written by. */
function envoyCheck() {
  const folder = path.join(
    path.dirname(createRequire(import.meta.url).resolve('@grpc/grpc-js-xds/package.json')),
    'deps',
  );
  const definitions = loadSync('envoy/service/auth/v3/external_auth.proto', {
    includeDirs: ['envoy-api', 'googleapis', 'protoc-gen-validate', 'xds'].map((name) =>
      path.join(folder, name),
    ),
    keepCase: true,
    arrays: true,
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
 * @param requestsEach ends after so many calls each; 1 is a burst
 */
export async function runGrpc(
  calls: readonly GateCall[],
  depth: number,
  { port, connections, seconds, requestsEach = Infinity }: Target & { readonly requestsEach?: number },
): Promise<GrpcResult> {
  const check = envoyCheck();
  const questions = calls.map((call) => check.requestSerialize(question(call)));
  const clients = Array.from(
    { length: CHANNELS },
    (_, at) => new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { 'bench.channel': at }),
  );
  const latencies = newLatencies();
  let requests = 0;
  let refused = 0;
  let wrong = 0;
  let firstWrong = '';
  let next = 0;
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1000;
  const ask = (client: Client) =>
    new Promise<void>((resolve) => {
      const sentAt = performance.now();
      client.makeUnaryRequest(
        CHECK,
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => check.responseDeserialize(bytes) as CheckAnswer,
        questions[next++ % questions.length] as Buffer,
        (error, answer) => {
          if (answer?.status?.code === UNAVAILABLE) {
            refused++;
            resolve();
            return;
          }
          const fault = error === null ? faultIn(answer ?? {}, depth) : error.message;
          const took = performance.now() - sentAt;
          requests++;
          latencies.recordValue(Math.max(1, Math.round(took * 1000)));
          if (fault !== null && wrong++ === 0) firstWrong = fault;
          resolve();
        },
      );
    });
  const loop = async (client: Client) => {
    for (let at = 0; at < requestsEach && performance.now() < endsAt; at++) await ask(client);
  };
  try {
    await Promise.all(Array.from({ length: connections }, (_, at) => loop(clients[at % CHANNELS] as Client)));
  } finally {
    for (const client of clients) client.close();
  }
  return {
    seconds: (performance.now() - startedAt) / 1000,
    ...{ requests, refused, latencies, wrong, firstWrong },
  };
}

/** Why an answer is not the allowance of a chain of this depth; `null` if it is. */
function faultIn({ status, ok_response: allowed }: CheckAnswer, depth: number): string | null {
  const said = allowed?.headers?.find(({ header }) => header?.key === 'x-drs-chain-depth')?.header?.value;
  const code = status?.code ?? 0;
  return code === 0 && said === String(depth)
    ? null
    : `status ${code}, x-drs-chain-depth ${String(said)}, expected 0 and ${depth}`;
}
