import type { Logger } from 'pino';
import type { Configuration } from '../configuration/configuration.js';
import type { Core } from '../core.js';
import type { Tracing } from '../observe/tracing.js';
import type { UnreadyReason } from './readiness.js';

/** What the routes need, over HTTP and gRPC. */
export interface RouteContext extends Core {
  readonly configuration: Configuration;
  readonly log: Logger;
  /** `null` if no OpenTelemetry SDK is registered. */
  readonly tracing: Tracing | null;
  /** Every reason why the service is not ready; empty if it is ready. */
  readonly unreadyReasons: () => readonly UnreadyReason[];
}
