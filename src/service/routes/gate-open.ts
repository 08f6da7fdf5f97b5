import type { Logger } from 'pino';
import { openReplays } from '../../verifier/create-verifier.js';
import type { Engine } from '../../verifier/engine.js';
import type { ReplayStore } from '../../replay/index.js';
import type { Admission } from '../load/admission.js';
import type { Configuration } from '../configuration/configuration.js';
import { ContextSigner } from './context-token.js';
import { GateDecider } from './gate-decider.js';
import type { Metrics } from '../observe/metrics.js';
import { printableUrl } from '../../revocation/printable-url.js';
import { ServedRoutes } from './served-routes.js';

/** The gate of a service, shared by all transports. */
export interface Gate {
  readonly decider: GateDecider;
  /** Its record of used invocations; `null` if `GATE_REPLAY=off`. */
  readonly replays: ReplayStore | null;
  readonly routes: ServedRoutes;
  /** The public key set as JSON; `null` if contexts are not signed. */
  readonly jwks: string | null;
  close(): Promise<void>;
}

/**
 * Opens what the gate needs besides the engine: its own replay store, and the key that signs contexts.
 *
 * @throws Error if the file with the routes cannot be used
 * @throws ReplayStoreError if `GATE_REPLAY=redis` and Redis cannot be used
 */
export async function openGate(deps: {
  readonly engine: Engine;
  readonly configuration: Configuration;
  readonly admission: Admission;
  readonly metrics: Metrics;
  readonly log: Logger;
}): Promise<Gate> {
  const { engine, configuration, admission, metrics, log } = deps;
  const { gateReplay, gateRoutes, gateSigningKey, statusListBaseUrl } = configuration;
  const routes = ServedRoutes.read(gateRoutes);
  const replays = await openReplays(gateReplay, configuration, log);
  if (gateReplay === 'off')
    log.warn('GATE_REPLAY is off: a call that the gate allowed can be repeated while its delegation lives');
  const lists = statusListBaseUrl === undefined ? [] : [printableUrl(statusListBaseUrl)];
  const signer =
    gateSigningKey === undefined
      ? null
      : new ContextSigner(gateSigningKey, () => ({
          list_age_secs: lists.length === 0 ? null : Math.max(0, Math.floor(engine.revocation.listAgeSecs)),
          lists,
        }));
  const decider = new GateDecider({
    engine,
    configuration,
    admission,
    log,
    replays,
    signer,
    observer: metrics.gate,
    routes,
  });
  return {
    decider,
    routes,
    replays,
    jwks: signer === null ? null : JSON.stringify({ keys: [signer.jwk] }),
    close: async () => {
      await replays?.close();
    },
  };
}
