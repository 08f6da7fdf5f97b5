import {
  Client,
  credentials,
  status as Status,
  type ClientUnaryCall,
  type ServiceError,
} from '@grpc/grpc-js';
import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { AUTHORIZATION, DEFINITIONS } from '../../test/support/grpc.js';
import { CHECK } from '../workload/workload.js';
import type { Answers } from './connection.js';
import type { Line, Underway } from './open-loop-core.js';

/** Envoy has a few connections to a gate, each with many calls at once. */
const CHANNELS = 2;

interface CheckAnswer {
  readonly status?: { readonly code?: number };
  readonly denied_response?: { readonly status?: { readonly code?: string } };
  readonly ok_response?: {
    readonly headers?: readonly { readonly header?: { readonly key: string; readonly value: string } }[];
  };
}

/** Envoy's own definitions, not those that the service is written by. */
const service = DEFINITIONS[AUTHORIZATION] as ServiceDefinition;
const check = service['Check'] as MethodDefinition<object, CheckAnswer>;

export function toCheck(message: string, bundle: string): Buffer {
  const http = {
    ...{ id: '1', method: 'POST', path: '/mcp', host: 'tools.example', protocol: 'HTTP/1.1' },
    headers: { ':method': 'POST', 'content-type': 'application/json', 'x-drs-bundle': bundle },
    raw_body: Buffer.from(message),
  };
  return check.requestSerialize({ attributes: { request: { http } } });
}

const clients = new Map<string, Client>();
let made = 0;

/** One of the calls that are under way at once. Its answers look like those of the gate over HTTP. */
export class GrpcCaller implements Line {
  readonly isClosed = false;
  readonly #client: Client;
  #call: ClientUnaryCall | undefined;
  answers: Answers;

  constructor(port: number, answers: Answers) {
    const channel = made++ % CHANNELS;
    const key = `${port} ${channel}`;
    const options = { 'bench.channel': channel };
    this.#client = clients.get(key) ?? new Client(`127.0.0.1:${port}`, credentials.createInsecure(), options);
    clients.set(key, this.#client);
    this.answers = answers;
  }

  send(bytes: Buffer, underway: Underway): void {
    const onAnswer = (error: ServiceError | null, answer: CheckAnswer = {}) => {
      const code = answer.status?.code ?? 0;
      const headers = (answer.ok_response?.headers ?? []).flatMap(({ header }) => header ?? []);
      const head = headers.map(({ key, value }) => `\r\n${key}: ${value}`).join('');
      // With this status of HTTP, a gate denies what it refuses because of overload. Node itself resets a call where those before
      // it, which their callers have cancelled, still count among the streams of a connection.
      const isShed =
        answer.denied_response?.status?.code === 'ServiceUnavailable' ||
        error?.code === Status.RESOURCE_EXHAUSTED;
      const status = isShed ? 503 : error === null && code === 0 ? 200 : 500;
      this.answers.answered(underway, status, error?.message ?? `status ${code}`, head);
    };
    this.#call = this.#client.makeUnaryRequest(
      CHECK,
      (request: Buffer) => request,
      check.responseDeserialize,
      bytes,
      onAnswer,
    );
  }

  /** Calls share their connections, which stay open: what is given up is cancelled, as Envoy does at its time limit. */
  close(): void {
    this.#call?.cancel();
  }
}
