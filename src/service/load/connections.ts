import { readFileSync, readdirSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Configuration } from '../configuration/configuration.js';

// Kept free for files, sockets to Redis and to the status list, and the pipes of threads.
const RESERVED_DESCRIPTORS = 32;
const LOG_PAUSE_MS = 10_000;
/** Connections on `METRICS_ADDR`: enough for several Prometheus servers, balancers and probes. */
const MAX_OPERATOR_CONNECTIONS = 64;

/**
 * Counts the connections of one listener, and refuses those above its limit, whoever opens them. A process without a free
 * file descriptor cannot even refuse a connection: its event loop then spins and uses a whole core until a connection closes.
 */
export class Connections {
  readonly limit: number;
  /** Number of open connections, and of all so far. Only the methods write it. */
  open = 0;
  accepted = 0;
  /** Number of connections that were closed at once because there were too many. */
  refused = 0;
  readonly #log: Logger;
  #loggedAt = -Infinity;

  constructor(limit: number, log: Logger) {
    this.limit = limit;
    this.#log = log;
  }

  /** Counts a new connection. @returns false if it must be closed */
  opened(): boolean {
    this.accepted++;
    if (this.open++ < this.limit) return true;
    this.refused++;
    const now = performance.now();
    if (now - this.#loggedAt < LOG_PAUSE_MS) return false;
    this.#loggedAt = now;
    this.#log.warn(
      { open: this.open, limit: this.limit, refused: this.refused },
      'too many connections: further ones are closed at once; raise MAX_CONNECTIONS, or the limit of open files',
    );
    return false;
  }

  /** Counts the end of a connection. */
  closed(): void {
    this.open--;
  }
}

/** The connections of each listener, as metrics name them. Each has a limit of its own. */
export type ListenerConnections = ReturnType<typeof divideConnections>;

/**
 * Divides the connections among the listeners, so that none can take another's. With gRPC, it has a quarter of
 * `MAX_CONNECTIONS` and HTTP the rest. Those on `METRICS_ADDR` do not count towards `MAX_CONNECTIONS`.
 *
 * @returns `null` for a listener that there is not
 */
export function divideConnections(
  {
    maxConnections,
    grpcPort,
    metricsAddr,
  }: Pick<Configuration, 'maxConnections' | 'grpcPort' | 'metricsAddr'>,
  log: Logger,
) {
  const descriptors = freeDescriptors();
  const operators =
    metricsAddr === undefined ? 0 : Math.min(MAX_OPERATOR_CONNECTIONS, Math.ceil(descriptors / 4));
  const all = within(Math.max(1, descriptors - operators), maxConnections, log);
  const connectionsOf = (limit: number) => new Connections(limit, log);
  return {
    http: connectionsOf(grpcPort === undefined ? all : Math.ceil((all * 3) / 4)),
    grpc: grpcPort === undefined ? null : connectionsOf(Math.max(1, Math.floor(all / 4))),
    metrics: operators === 0 ? null : connectionsOf(operators),
  };
}

/**
 * Divides the descriptors of a guard: each request of a client may need a connection to the tool server, for as long as an event
 * stream lasts.
 *
 * @returns `upstream`: the most connections to the tool server
 */
export function divideForGuard(
  { maxConnections }: Pick<Configuration, 'maxConnections'>,
  log: Logger,
): { readonly http: Connections; readonly upstream: number } {
  const half = Math.max(1, Math.floor(freeDescriptors() / 2));
  return { http: new Connections(within(half, maxConnections, log), log), upstream: half };
}

function within(possible: number, maxConnections: number | undefined, log: Logger): number {
  if (maxConnections !== undefined && maxConnections > possible)
    log.warn(
      { maxConnections, possible },
      'the limit of open files allows fewer connections than MAX_CONNECTIONS; raise it (ulimit -n, LimitNOFILE)',
    );
  return Math.min(maxConnections ?? Infinity, possible);
}

/**
 * The number of connections that this process can hold open: its limit of open files, less those open already. Infinity
 * if the system does not tell the limit.
 */
function freeDescriptors(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'latin1');
    const [, soft] = /^Max open files +(\d+)/m.exec(limits) ?? [];
    if (soft === undefined) return Infinity;
    return Math.max(1, Number(soft) - readdirSync('/proc/self/fd').length - RESERVED_DESCRIPTORS);
  } catch {
    return Infinity;
  }
}
