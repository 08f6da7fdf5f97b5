import type { Logger } from 'pino';
import type { UnreadyReason as RevocationUnreadyReason } from '../revocation/index.js';
import type { ReplayStore, ReplayUnreadyReason } from '../usage/index.js';
import { openEngine } from '../verifier/create-verifier.js';
import type { Engine } from '../verifier/engine.js';
import type { Closers } from './closers.js';
import type { Configuration } from './configuration/configuration.js';
import { Backlog } from './load/backlog.js';
import { Gatekeeper } from './load/gatekeeper.js';
import { noteKeyOf } from '../log/checkpoint.js';
import { openLineFile } from '../log/line-file.js';
import { BUILD } from './observe/build-info.js';
import { Metrics } from './observe/metrics/metrics.js';
import type { Tracing } from './observe/tracing.js';
import { verdictLogsOf, type VerdictLogs } from './observe/logs/verdict-logs.js';
import { openGate, type Gate } from './gate-decider.js';

/** What decides in a process, whatever asks it: HTTP, gRPC, a proxy in this process. */
export interface Core {
  readonly verdicts: VerdictLogs;
  readonly metrics: Metrics;
  readonly engine: Engine;
  readonly gatekeeper: Gatekeeper;
  readonly gate: Gate;
}

/**
 * Opens logs, verifier, gatekeeper and gate.
 *
 * @param opened gets what must be closed, also if this rejects
 * @param openReplays opens the gate's record of used invocations, in place of what `GATE_REPLAY` says
 * @throws Error if a store, a log or the routes cannot be opened
 */
export async function openCore(
  configuration: Configuration,
  log: Logger,
  opened: Closers,
  openReplays?: () => Promise<ReplayStore | null>,
): Promise<Core> {
  const { decisionLog, decisionLogKey } = configuration;
  const key = decisionLogKey === undefined ? null : noteKeyOf(decisionLogKey);
  const decisions = decisionLog === undefined ? null : await openLineFile(decisionLog, log, key);
  const nameOf = (did: string) => engine.parts.rules.trustedRoots?.get(did)?.name ?? undefined;
  const stateOf = () => {
    if (key === null) return undefined;
    const { rootsFile, revocation } = engine;
    return {
      version: BUILD.version,
      roots: rootsFile?.digest,
      listAgeSecs: revocation.list === null ? undefined : Math.floor(revocation.list.ageSecs),
    };
  };
  const verdicts = opened.add(verdictLogsOf(configuration, log, decisions, nameOf, stateOf));
  const metrics = new Metrics();
  // The gatekeeper parks as many.
  const maxWaiting = configuration.maxPending / 2;
  const engine = opened.add(await openEngine(configuration, { log, observer: metrics.observer, maxWaiting }));
  const gatekeeper = new Gatekeeper(configuration, new Backlog(configuration, engine.signatures));
  const gate = opened.add(await openGate({ engine, configuration, metrics, verdicts, log }, openReplays));
  return { verdicts, metrics, engine, gatekeeper, gate };
}

export interface RouteContext extends Core {
  readonly configuration: Configuration;
  readonly log: Logger;
  /** `null` if no OpenTelemetry SDK is registered. */
  readonly tracing: Tracing | null;
  readonly readiness: () => Readiness;
}

/** Why the service cannot allow some calls, or any. `gate_` is about the gate's own record of used invocations. */
type UnreadyReason =
  'shutting_down' | RevocationUnreadyReason | ReplayUnreadyReason | `gate_${ReplayUnreadyReason}`;

/** For `/readyz`, and for gRPC's health service. */
interface Readiness {
  readonly reasons: readonly UnreadyReason[];
  /** The first reason that counts; `null` if the service is ready. */
  readonly reason: UnreadyReason | null;
}

export function readinessOf(
  { gatekeeper, engine: { revocation, replays }, gate }: Core,
  { readyWithout }: Pick<Configuration, 'readyWithout'>,
): Readiness {
  const reasons: UnreadyReason[] = gatekeeper.isLeaving ? ['shutting_down'] : [];
  reasons.push(...revocation.unreadyReasons());
  const ofVerify = replays?.unreadyReason ?? null;
  if (ofVerify !== null) reasons.push(ofVerify);
  const ofGate = gate.replays?.unreadyReason ?? null;
  if (ofGate !== null) reasons.push(`gate_${ofGate}`);
  const counts = (reason: UnreadyReason) => !EXCUSES[reason].some((excuse) => readyWithout.includes(excuse));
  return { reasons, reason: reasons.find(counts) ?? null };
}

/** What `READY_WITHOUT` may name so that a reason does not count: any one of these. */
const EXCUSES: Record<UnreadyReason, Configuration['readyWithout']> = {
  shutting_down: [],
  status_list_not_fetched: ['list'],
  status_list_stale: ['stale_list', 'list'],
  revocation_store_unreachable: ['revocations'],
  replay_store_unreachable: ['replay'],
  replay_store_evicts: ['replay'],
  replay_store_full: ['replay'],
  replay_store_clock: ['replay'],
  gate_replay_store_unreachable: ['replay'],
  gate_replay_store_evicts: ['replay'],
  gate_replay_store_full: ['replay'],
  gate_replay_store_clock: ['replay'],
};
