import type { Registry } from 'prom-client';
import { Distribution, SECONDS, showHistogram } from '../observe/distribution.js';
import { showCounter, showGauge } from '../observe/metrics-show.js';

/** The name of each method in metrics, by its path. */
const METHODS: ReadonlyMap<string, string> = new Map([
  ['/envoy.service.auth.v3.Authorization/Check', 'check'],
  ['/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest', 'mcp_request'],
  ['/agentgateway.dev.ext_mcp.ExtMcp/CheckResponse', 'mcp_response'],
  ['/grpc.health.v1.Health/Check', 'health'],
]);

/** The methods that ask the gate about a call. */
const QUESTIONS: ReadonlySet<string> = new Set(['check', 'mcp_request']);

/** The statuses of gRPC, by number. */
const STATUSES = [
  'ok',
  'cancelled',
  'unknown',
  'invalid_argument',
  'deadline_exceeded',
  'not_found',
  'already_exists',
  'permission_denied',
  'resource_exhausted',
  'failed_precondition',
  'aborted',
  'out_of_range',
  'unimplemented',
  'internal',
  'unavailable',
  'data_loss',
  'unauthenticated',
] as const;
const CANCELLED = 1;

interface Calls {
  readonly method: string;
  readonly seconds: Distribution;
  /** How many calls ended with each status, by its number. */
  readonly statuses: number[];
}

/** The metrics of the gRPC front end. They exist only if it is on. */
export class GrpcMetrics {
  readonly #registry: Registry;
  readonly #calls: ReadonlyMap<string, Calls>;

  constructor(registry: Registry) {
    this.#registry = registry;
    const methods = [...METHODS];
    const calls = methods.map(([path, method]) => ({
      path,
      method,
      seconds: new Distribution(SECONDS),
      statuses: STATUSES.map(() => 0),
    }));
    this.#calls = new Map(calls.map((row) => [row.path, row]));
    showHistogram(
      registry,
      'drs_grpc_call_duration_seconds',
      'From the headers of a call to its end',
      calls.map(({ method, seconds }) => ({ labels: { method }, distribution: seconds })),
    );
    showCounter(registry, 'drs_grpc_calls_total', 'Calls over gRPC', ['method', 'status'], (set) => {
      for (const { method, statuses } of calls) {
        for (const [number, count] of statuses.entries()) {
          if (count > 0 || number === 0) set(count, method, STATUSES[number] as string);
        }
      }
    });
  }

  /**
   * Counts a call that has ended.
   *
   * @param status `null` if the caller went away before there was one
   * @returns whether it was a question to the gate
   */
  countCall(path: string, status: number | null, milliseconds: number): boolean {
    const calls = this.#calls.get(path);
    if (calls === undefined) return false;
    calls.seconds.observe(milliseconds / 1000);
    const number = status ?? CANCELLED;
    calls.statuses[number] = (calls.statuses[number] ?? 0) + 1;
    return QUESTIONS.has(calls.method);
  }

  /** Adds the number of open calls, which is kept elsewhere. */
  watchCalls(calls: { readonly open: number }): void {
    showGauge(this.#registry, 'drs_grpc_open_calls', 'Open calls over gRPC', () => calls.open);
  }
}
