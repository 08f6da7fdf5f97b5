import {
  status as Status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import { writeHealthResponse } from './messages.js';

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

const MAX_WATCHERS = 64;
const LOOK_MS = 500;

/** A question about the health of a service. */
export interface HealthRequest {
  readonly service: string;
}

type Watcher = ServerWritableStream<HealthRequest, Buffer>;

/** `grpc.health.v1.Health`: serving while `/readyz` says that the service is ready. */
export class Health {
  readonly #isReady: () => boolean;
  readonly #services: ReadonlySet<string>;
  /** The status that each watcher was sent last. */
  readonly #watchers = new Map<Watcher, number>();
  #timer: NodeJS.Timeout | null = null;

  /** @param services full names; the empty name stands for all of them */
  constructor(isReady: () => boolean, services: readonly string[]) {
    this.#isReady = isReady;
    this.#services = new Set(['', ...services]);
  }

  readonly check = (
    { request: { service } }: ServerUnaryCall<HealthRequest, Buffer>,
    reply: sendUnaryData<Buffer>,
  ): void => {
    const status = this.#statusOf(service);
    if (status === SERVICE_UNKNOWN)
      reply({ code: Status.NOT_FOUND, details: 'there is no such service here' });
    else reply(null, writeHealthResponse({ status }));
  };

  readonly watch = (watcher: Watcher): void => {
    if (this.#watchers.size >= MAX_WATCHERS) {
      watcher.emit('error', {
        code: Status.RESOURCE_EXHAUSTED,
        details: `there are ${MAX_WATCHERS} watchers already; ask with Check`,
      });
      return;
    }
    this.#watchers.set(watcher, 0);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    watcher.once('cancelled', () => this.#forget(watcher));
    this.#tell(watcher);
  };

  /** Ends all watching. */
  close(): void {
    for (const watcher of this.#watchers.keys()) {
      this.#forget(watcher);
      watcher.end();
    }
  }

  /** Sends watchers their status, if it has changed. */
  #look(): void {
    for (const watcher of this.#watchers.keys()) this.#tell(watcher);
  }

  #tell(watcher: Watcher): void {
    const status = this.#statusOf(watcher.request.service);
    if (this.#watchers.get(watcher) === status) return;
    this.#watchers.set(watcher, status);
    watcher.write(writeHealthResponse({ status }));
  }

  #forget(watcher: Watcher): void {
    this.#watchers.delete(watcher);
    if (this.#watchers.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #statusOf(service: string): number {
    if (!this.#services.has(service)) return SERVICE_UNKNOWN;
    return this.#isReady() ? SERVING : NOT_SERVING;
  }
}
