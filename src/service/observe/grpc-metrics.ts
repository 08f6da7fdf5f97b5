import { Distribution, SECONDS } from './distribution.js';

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
// prettier-ignore
const STATUSES = [
  'ok', 'cancelled', 'unknown', 'invalid_argument', 'deadline_exceeded', 'not_found', 'already_exists', 'permission_denied',
  'resource_exhausted', 'failed_precondition', 'aborted', 'out_of_range', 'unimplemented', 'internal', 'unavailable',
  'data_loss', 'unauthenticated',
] as const;
const CANCELLED = 1;

class Calls {
  readonly seconds = new Distribution(SECONDS);
  /** How many calls ended with each status, by its number. */
  readonly statuses = STATUSES.map(() => 0);
}

/** Counts calls over gRPC. */
export class GrpcMetrics {
  readonly #calls = new Map([...METHODS.keys()].map((path) => [path, new Calls()]));
  #watched: { readonly open: number } | null = null;

  /** Number of open calls. */
  get open(): number {
    return this.#watched?.open ?? 0;
  }

  /** How long calls took, by method. */
  get seconds(): [string, Distribution][] {
    return [...this.#calls].map(([path, { seconds }]) => [METHODS.get(path) ?? '', seconds]);
  }

  /** Ended calls by method and status; only the statuses that there were, and `ok`. */
  get ended(): [string, [string, number][]][] {
    return [...this.#calls].map(([path, { statuses }]) => [
      METHODS.get(path) ?? '',
      STATUSES.map((status, at): [string, number] => [status, statuses[at] ?? 0]).filter(
        ([status, count]) => count > 0 || status === 'ok',
      ),
    ]);
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
    calls.seconds.observeMs(milliseconds);
    const number = status ?? CANCELLED;
    calls.statuses[number] = (calls.statuses[number] ?? 0) + 1;
    return QUESTIONS.has(METHODS.get(path) ?? '');
  }

  /** Sets where the number of open calls is kept. */
  watchCalls(calls: { readonly open: number }): void {
    this.#watched = calls;
  }
}
