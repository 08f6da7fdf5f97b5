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

/** Counts calls over gRPC. */
export class GrpcMetrics {
  /** By method. */
  readonly calls: Readonly<Record<string, Calls>> = Object.fromEntries(
    [...METHODS.values()].map((method) => [
      method,
      { seconds: new Distribution(SECONDS), statuses: new Map([['ok', 0]]) },
    ]),
  );
  /** Where the open calls are counted. */
  openCalls: { readonly open: number } = { open: 0 };

  /**
   * Counts a call that has ended.
   *
   * @param status `null` if the caller went away before there was one
   * @returns whether it was a question to the gate
   */
  countCall(path: string, status: number | null, milliseconds: number): boolean {
    const method = METHODS.get(path) ?? '';
    const calls = this.calls[method];
    if (calls === undefined) return false;
    calls.seconds.observeMs(milliseconds);
    const name = STATUSES[status ?? CANCELLED] ?? 'unknown';
    calls.statuses.set(name, (calls.statuses.get(name) ?? 0) + 1);
    return QUESTIONS.has(method);
  }
}

interface Calls {
  readonly seconds: Distribution;
  /** How many calls ended with each status. */
  readonly statuses: Map<string, number>;
}
