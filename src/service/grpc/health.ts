import {
  status as Status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import { Places } from '../load/places.js';
import { clientOfPeer } from './intake.js';
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

interface Watching {
  /** Noted here: of a connection that has ended, nothing tells whose it was. */
  readonly client: string;
  /** What it was sent last. */
  status: number;
}

/** `grpc.health.v1.Health`: serving while `/readyz` says that the service is ready. */
export class Health {
  readonly #isReady: () => boolean;
  readonly #services: ReadonlySet<string>;
  readonly #watchers = new Map<Watcher, Watching>();
  /** A gateway that nobody tells of the health may send no calls. */
  readonly #places = new Places(MAX_WATCHERS);
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
    const client = clientOfPeer(watcher.getPeer());
    if (!this.#places.take(client)) {
      watcher.emit('error', {
        code: Status.RESOURCE_EXHAUSTED,
        details: 'there are too many watchers already; ask with Check',
      });
      return;
    }
    const watching = { client, status: 0 };
    this.#watchers.set(watcher, watching);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    watcher.once('cancelled', () => this.#forget(watcher));
    this.#tell(watcher, watching);
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
    for (const [watcher, watching] of this.#watchers) this.#tell(watcher, watching);
  }

  #tell(watcher: Watcher, watching: Watching): void {
    const status = this.#statusOf(watcher.request.service);
    if (watching.status === status) return;
    watching.status = status;
    watcher.write(writeHealthResponse({ status }));
  }

  #forget(watcher: Watcher): void {
    const watching = this.#watchers.get(watcher);
    if (watching === undefined) return;
    this.#watchers.delete(watcher);
    this.#places.give(watching.client);
    if (this.#watchers.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #statusOf(service: string): number {
    if (!this.#services.has(service)) return SERVICE_UNKNOWN;
    return this.#isReady() ? SERVING : NOT_SERVING;
  }
}
