import type { Logger } from 'pino';
import type { ReplayStore } from '../../usage/index.js';
import type { Engine } from '../../verifier/engine.js';
import type { Configuration } from '../configuration/configuration.js';
import type { Gatekeeper } from '../load/gatekeeper.js';
import type { Metrics } from '../observe/metrics/metrics.js';
import type { Tracing } from '../observe/tracing.js';
import type { VerdictLogs } from '../observe/logs/verdict-logs.js';
import type { ContextSigner } from './context-token.js';
import type { GateDecider } from '../gate-decider.js';
import type { Readiness } from './readiness.js';

/** What the routes need. */
export interface RouteContext {
  readonly engine: Engine;
  readonly configuration: Configuration;
  readonly gatekeeper: Gatekeeper;
  readonly readiness: Pick<Readiness, 'reasons'>;
  readonly gate: GateDecider;
  /** The gate's own record of used invocations; `null` if there is none. */
  readonly gateReplays: ReplayStore | null;
  /** The gate's key; `null` if it does not sign. */
  readonly gateSigner: Pick<ContextSigner, 'jwk' | 'read'> | null;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly verdicts: VerdictLogs;
  /** `null` if no OpenTelemetry SDK is registered. */
  readonly tracing: Tracing | null;
  /** The text of `/metrics`. */
  readonly scrape: () => Promise<string>;
}
