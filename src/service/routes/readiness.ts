import type { Engine } from '../../verifier/engine.js';
import type { ReplayStore, ReplayUnreadyReason } from '../../usage/index.js';
import type { UnreadyReason as RevocationUnreadyReason } from '../../revocation/index.js';
import type { Gatekeeper } from '../load/gatekeeper.js';
import type { Configuration } from '../configuration/configuration.js';

/** Why the service is not ready. `gate_` is about the gate's own record of used invocations. */
export type UnreadyReason =
  'shutting_down' | RevocationUnreadyReason | ReplayUnreadyReason | `gate_${ReplayUnreadyReason}`;

/** Tells whether the service can allow a call, for `/readyz` and for gRPC's health service. */
export class Readiness {
  readonly #gatekeeper: Pick<Gatekeeper, 'isLeaving'>;
  readonly #engine: Engine;
  readonly #gateReplays: ReplayStore | null;
  readonly #isReadyWithoutReplay: boolean;

  constructor(
    gatekeeper: Pick<Gatekeeper, 'isLeaving'>,
    engine: Engine,
    gateReplays: ReplayStore | null,
    { readyWithout }: Pick<Configuration, 'readyWithout'>,
  ) {
    this.#gatekeeper = gatekeeper;
    this.#engine = engine;
    this.#gateReplays = gateReplays;
    this.#isReadyWithoutReplay = readyWithout?.includes('replay') === true;
  }

  /** Every reason why the service is not ready; empty if it is ready. */
  reasons(): readonly UnreadyReason[] {
    const { revocation, replays } = this.#engine;
    const reasons: UnreadyReason[] = this.#gatekeeper.isLeaving ? ['shutting_down'] : [];
    reasons.push(...revocation.unreadyReasons);
    if (this.#isReadyWithoutReplay) return reasons;
    const ofVerify = replays?.unreadyReason ?? null;
    if (ofVerify !== null) reasons.push(ofVerify);
    const ofGate = this.#gateReplays?.unreadyReason ?? null;
    if (ofGate !== null) reasons.push(`gate_${ofGate}`);
    return reasons;
  }
}
