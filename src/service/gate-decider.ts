import type { Body } from '../verify/binding.js';
import { judge, type Judgement } from '../verify/judge.js';
import type { JudgeParts } from '../verify/parts.js';
import {
  bodyTimedOut,
  decide,
  denied,
  verifierUnavailable,
  type Allowance,
  type GateParts,
  type TransportCheck,
} from '../gate/decide.js';
import { approvalsAt } from '../approval/approvals.js';
import type { ApprovalEvent } from '../approval/events.js';
import { Questions } from '../approval/questions.js';
import { RedisQuestions } from '../approval/redis-questions.js';
import { webhookTo } from '../approval/webhook.js';
import { passesOnTrial, type Protocol } from '../gate/codes.js';
import { openRequest, type OpeningRules } from '../gate/open.js';
import { type CallBody, type Denial, type GateRequest, type PendingCall } from '../gate/request.js';
import { responseTo, type GateResponse } from '../gate/response.js';
import { useInvocation, type ReplayRules } from '../usage/index.js';
import { WorkDropped } from '../signatures/signature-verifier.js';
import { OBSERVES, type Configuration } from './configuration/configuration.js';
import type { LoggedRequest } from './http/logged-request.js';
import { noteFor } from './http/logged-request.js';
import { contextSignerOf } from './routes/context-token.js';
import type { VerdictLogs } from './observe/logs/verdict-logs.js';
import type { GateEndpoint, Metrics } from './observe/metrics/metrics.js';
import { readRoutes } from './routes/served-routes.js';
import { openReplays } from '../verifier/create-verifier.js';
import type { Engine } from '../verifier/engine.js';
import { printableUrl } from '../revocation/printable-url.js';
import type { Logger } from 'pino';

/** The place where the gate uses invocations. */
export const GATE_SCOPE = 'gate';

const HOUR_MS = 3_600_000;

/** A protocol request, as a transport passes it in. */
export interface GateCall {
  readonly protocol: Protocol;
  /** Where it was asked, for the metrics. */
  readonly endpoint: GateEndpoint;
  readonly request: GateRequest;
  readonly asked: LoggedRequest;
  /** Called before queued work starts: whether somebody still waits for the decision. If left out: always. */
  readonly isWanted?: () => boolean;
  /** Called before it waits for a status list: whether it may. If left out: always. */
  readonly mayWait?: () => boolean;
  /** A further check of the transport, before the invocation counts as used. */
  readonly checkTransport?: TransportCheck;
  /** As of {@link responseTo}. */
  readonly mayAsk?: boolean;
  /** Called before and while it waits for a person who reads the question: whether it may. If left out: it may not. */
  readonly mayHold?: (() => boolean) | undefined;
}

export type GateDecision =
  /** Nothing to check. */
  | {
      readonly kind: 'pass';
      /** The code for which it would have been denied, if the gate were not on trial. */
      readonly observed?: string;
    }
  | Allowance
  | { readonly kind: 'deny'; readonly code: string; readonly response: GateResponse };

interface GateDeps {
  readonly engine: Engine;
  readonly configuration: Configuration;
  readonly metrics: Metrics;
  readonly verdicts: VerdictLogs;
  readonly log: Logger;
}

export type Gate = Awaited<ReturnType<typeof openGate>>;
export type GateDecider = Gate['decider'];

/**
 * Opens the gate: its own record of used invocations, the key that signs contexts, and what decides on protocol requests for every
 * transport of the service, by verdict, the gate's rules, replay, signed context and metrics. A transport only translates
 * requests and decisions.
 *
 * @param open opens the record
 * @throws Error if the file with the routes cannot be used
 * @throws ReplayStoreError if `GATE_REPLAY=redis` and Redis cannot be used
 */
export async function openGate(
  { engine, configuration, metrics, verdicts, log }: GateDeps,
  open = () => openReplays(configuration.gateReplay, configuration, log, GATE_SCOPE),
) {
  const { gateReplay, gateRoutes, gateSigningKey, statusListBaseUrl } = configuration;
  const { replayWindowSecs: windowSecs, clockSkewSecs, gatePassMethods } = configuration;
  const isOnTrial = configuration.gateMode === 'observe';
  const warnings = isOnTrial ? setInterval(() => log.warn(OBSERVES), HOUR_MS).unref() : undefined;
  let routes = readRoutes(gateRoutes);
  /** Used invocations; `null` if `GATE_REPLAY=off`. */
  const replays = await open();
  if (gateReplay === 'off')
    log.warn('GATE_REPLAY is off: a call that the gate allowed can be repeated while its delegation lives');
  const { list } = engine.revocation;
  const lists = statusListBaseUrl === undefined ? [] : [printableUrl(statusListBaseUrl)];
  const revocation = () => ({
    // Since the status list was fetched.
    list_age_secs: list === null ? null : Math.max(0, Math.floor(list.ageSecs)),
    lists,
  });
  /** Signs contexts; `null` if they are not signed. */
  const signer = gateSigningKey === undefined ? null : contextSignerOf(gateSigningKey, revocation);
  const approvals = await openApprovals({ engine, configuration, metrics, verdicts, log }, signer).catch(
    async (error: unknown) => {
      await replays?.close();
      throw error;
    },
  );
  // Without rules of binding and replay: the gate has its own.
  const judgeParts: JudgeParts = {
    ...engine.parts,
    requiresBinding: false,
    use: null,
  };
  const replayRules: ReplayRules = { scope: GATE_SCOPE, windowSecs, clockSkewSecs };
  const openingRules: OpeningRules = {
    passMethods: new Set(gatePassMethods),
    // Those at the time of a request: they can be reloaded.
    get routes() {
      return routes;
    },
  };
  const parts: GateParts = {
    // The same clock for the verdict and for what the gate checks itself.
    now: judgeParts.clock,
    // No roots and no server name: the engine has already checked the configured ones.
    rules: {
      trustedRoots: null,
      serverIdentity: configuration.serverIdentity === undefined ? undefined : null,
    },
    use:
      replays &&
      ((claims, limits, now, cost) =>
        useInvocation(claims, limits, replays, now, replayRules, metrics.gate, cost)),
    ask: approvals?.ask,
    sign: signer?.sign,
  };
  /**
   * Denies a request that is not checked, and has no line in the logs, also on trial: it cannot be sent on.
   *
   * @param reason `timeout`: its body did not come whole
   */
  const refuse = (
    { protocol, endpoint }: Pick<GateCall, 'protocol' | 'endpoint'>,
    reason: 'overloaded' | 'shutting_down' | 'timeout' | null,
  ): GateDecision => {
    if (reason !== null) metrics.countRejection(endpoint, reason);
    const failure = (reason === 'timeout' ? bodyTimedOut : verifierUnavailable)({ protocol });
    metrics.countDecision(protocol, 'deny', failure.code);
    return toDecision(denied({ protocol, id: null, requested: null }, failure));
  };

  /** Denies, or lets pass on trial. What cannot be read whole could hold what only a gate may say. */
  const carryOut = (denial: Denial, { request: { body }, mayAsk }: GateCall): GateDecision => {
    const isRead =
      denial.protocol === 'http' || body.kind === 'text' || body.kind === 'value' || body.kind === 'none';
    const observes = isOnTrial && isRead && passesOnTrial(denial.failure);
    return observes ? { kind: 'pass', observed: denial.failure.code } : toDecision(denial, mayAsk);
  };

  /**
   * Judges a call and decides on it; anew, if its client has shown the link of its question and a person has answered meanwhile.
   *
   * @param seen gets what was judged, also if this rejects
   */
  const check = async (opened: PendingCall, call: GateCall, seen: Seen): Promise<Allowance | Denial> => {
    const { isWanted, mayWait, mayHold, checkTransport } = call;
    const { bundle } = opened;
    const body = boundBodyOf(opened.body);
    for (let wasHeld = false; ; wasHeld = true) {
      const startedAt = performance.now();
      // One that was held may wait for what it needs.
      const waiting = wasHeld ? undefined : mayWait;
      const outcome = await judge({ bundle, body, isWanted, mayWait: waiting, asks: true }, judgeParts);
      metrics.countOutcome(outcome, startedAt);
      seen.judged = { outcome, bundle };
      const decided = await decide(opened, outcome, parts, checkTransport);
      if (decided.kind === 'allow' || wasHeld || decided.elicits?.wasTold !== true) return decided;
      if ((await approvals?.answered(decided, mayHold)) !== true) return decided;
    }
  };

  /**
   * Decides on a request, and logs the decision, unless it passes: when it is known, since a valid bundle may have been used before,
   * or be for another call. If the check fails, the request is denied.
   */
  const decideOn = async (call: GateCall): Promise<GateDecision> => {
    const { protocol, endpoint, request } = call;
    const seen: Seen = {};
    let decided: GateDecided;
    try {
      if (request.body.kind === 'too large') metrics.countRejection(endpoint, 'too_large');
      const opened = openRequest(protocol, request, openingRules);
      noteFor(call.asked, request, opened.message);
      decided = opened.kind === 'check' ? await check(opened, call, seen) : opened;
    } catch (error) {
      // Nobody gets this answer.
      if (error instanceof WorkDropped) return refuse(call, null);
      log.error({ err: error }, 'a request failed inside the gate');
      metrics.countRejection(endpoint, 'internal');
      decided = denied({ protocol, id: null, requested: null }, verifierUnavailable({ protocol }));
    }
    const { judged } = seen;
    const denial = decided.kind === 'deny' ? decided : null;
    const decision = decided.kind === 'deny' ? carryOut(decided, call) : decided;
    const observed = decision.kind === 'pass' ? decision.observed : undefined;
    const code = decision.kind === 'deny' ? decision.code : observed;
    metrics.countDecision(protocol, observed === undefined ? decision.kind : 'observe', code ?? '');
    if (judged !== undefined || denial !== null)
      verdicts.record(
        call.asked,
        judged?.outcome ?? null,
        judged?.bundle,
        denial,
        observed !== undefined,
        decided.kind === 'allow' ? decided.context.approval : undefined,
      );
    return decision;
  };
  return {
    decider: {
      decide: decideOn,
      unread: refuse,
    },
    replays,
    signer,
    approvals,
    /** Reads the file with the routes again. If that throws, the old table stays. @returns what to log; `null` if there is no file */
    reloadRoutes: () => {
      routes = readRoutes(gateRoutes);
      return routes === null || routes === 'any' ? null : { file: gateRoutes };
    },
    close: async () => {
      clearInterval(warnings);
      approvals?.close();
      await replays?.close();
    },
  };
}

/** Asks persons; `null` if nobody is asked, as on trial, where every call passes. */
async function openApprovals(
  { engine, configuration, metrics, verdicts, log }: GateDeps,
  signer: ReturnType<typeof contextSignerOf> | null,
) {
  const { approvalsUrl, approvalsOpenSecs: openSecs, approvalsWebhook, gateMode, gateReplay } = configuration;
  if (approvalsUrl === undefined || gateMode === 'observe') return null;
  const tell =
    approvalsWebhook === undefined ? null : webhookTo(approvalsWebhook, signer?.signBody ?? null, log);
  const onEvent = (event: ApprovalEvent): void => {
    verdicts.recordApproval(event);
    metrics.countApproval(event);
    if (event.kind === 'asked' && tell !== null) void tell(() => approvals.noticeOf(event.handle));
  };
  const { redisUrl: url, redisTimeoutMs: timeoutMs, redisMayForget: mayForget } = configuration;
  const questions =
    gateReplay === 'redis'
      ? await RedisQuestions.open({ url, timeoutMs, mayForget, log, openSecs, onEvent })
      : new Questions(undefined, { openSecs, onEvent });
  metrics.openApprovals = () => questions.open;
  const report = (err: unknown): void =>
    log.error({ err }, 'the store of questions cannot tell: calls that need a yes are refused');
  const approvals = approvalsAt(approvalsUrl, questions, () => engine.parts.rules.trustedRoots, report);
  return approvals;
}

/** What was judged of a request. */
interface Seen {
  judged?: { readonly outcome: Judgement; readonly bundle: unknown };
}

/** A decision before it is carried out. */
type GateDecided = Exclude<GateDecision, { kind: 'deny' }> | Denial;

function toDecision(denial: Denial, mayAsk = false): GateDecision {
  return { kind: 'deny', code: denial.failure.code, response: responseTo(denial, mayAsk) };
}

/** The body that the engine compares with the signed arguments. A `body` member of the bundle is never used. */
function boundBodyOf(body: CallBody): Body | null {
  return body.kind === 'text' || body.kind === 'value' ? body : null;
}
