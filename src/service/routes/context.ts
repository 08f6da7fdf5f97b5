import type { Logger } from 'pino';
import type { UnreadyReason as RevocationUnreadyReason } from '../../revocation/index.js';
import type { ReplayUnreadyReason } from '../../usage/index.js';
import type { Configuration } from '../configuration/configuration.js';
import type { Core } from '../core.js';
import type { Tracing } from '../observe/tracing.js';

/** What the routes need, over HTTP and gRPC. */
export interface RouteContext extends Core {
  readonly configuration: Configuration;
  readonly log: Logger;
  /** `null` if no OpenTelemetry SDK is registered. */
  readonly tracing: Tracing | null;
  /** Every reason why the service is not ready; empty if it is ready. */
  readonly unreadyReasons: () => readonly UnreadyReason[];
}

/** Why the service is not ready. `gate_` is about the gate's own record of used invocations. */
type UnreadyReason =
  'shutting_down' | RevocationUnreadyReason | ReplayUnreadyReason | `gate_${ReplayUnreadyReason}`;

/** Every reason why the service cannot allow a call, for `/readyz` and for gRPC's health service. */
export function unreadyReasonsOf(
  { gatekeeper, engine: { revocation, replays }, gate }: Core,
  { readyWithout }: Pick<Configuration, 'readyWithout'>,
): readonly UnreadyReason[] {
  const reasons: UnreadyReason[] = gatekeeper.isLeaving ? ['shutting_down'] : [];
  reasons.push(...revocation.unreadyReasons());
  if (readyWithout?.includes('replay') === true) return reasons;
  const ofVerify = replays?.unreadyReason ?? null;
  if (ofVerify !== null) reasons.push(ofVerify);
  const ofGate = gate.replays?.unreadyReason ?? null;
  if (ofGate !== null) reasons.push(`gate_${ofGate}`);
  return reasons;
}
