import type { Logger } from 'pino';
import type { Body } from '../verify/binding.js';
import { judge, type Call, type Judgement } from '../verify/judge.js';
import type { JudgeParts } from '../verify/parts.js';
import type { GateContext } from '../gate/context.js';
import {
  bodyTimedOut,
  decide,
  verifierUnavailable,
  type Allowance,
  type GateParts,
  type GateRules,
  provedChainOf,
  type ProvedChain,
} from '../gate/decide.js';
import type { Protocol } from '../gate/codes.js';
import { openRequest, type OpeningRules } from '../gate/open.js';
import type { CallBody, Denial, GateRequest } from '../gate/request.js';
import { responseTo, type GateResponse } from '../gate/response.js';
import { useInvocation, type ReplayRules, type ReplayStore } from '../usage/index.js';
import { WorkDropped } from '../signatures/signature-verifier.js';
import type { Configuration } from './configuration/configuration.js';
import type { RouteContext } from './core.js';
import type { LoggedRequest } from './http/incoming.js';
import type { VerdictLogs } from './observe/logs/verdict-logs.js';
import { ContextSigner } from './routes/context-token.js';
import type { GateEndpoint, Metrics, Rejection } from './observe/metrics/metrics.js';
import { ServedRoutes } from './routes/served-routes.js';
import { openReplays } from '../verifier/create-verifier.js';
import { printableUrl } from '../revocation/printable-url.js';

/** The place where the gate uses invocations. */
export const GATE_SCOPE = 'gate';

/** A protocol request, as a transport passes it in. */
export interface GateCall {
  readonly protocol: Protocol;
  /** Where it was asked, for the metrics. */
  readonly endpoint: GateEndpoint;
  readonly request: GateRequest;
  /** What logs say of who asks. */
  readonly asked: LoggedRequest;
  /** Called before queued work starts: whether somebody still waits for the decision. If left out: always. */
  readonly isWanted?: () => boolean;
  /** Called before it waits for a status list: whether it may. If left out: always. */
  readonly mayWait?: () => boolean;
  /** A further check of the transport, before the invocation counts as used. */
  readonly findFault?: GateParts<ProvedChain>['findFault'];
}

/** What the transport must do with the request. */
export type GateDecision =
  /** Nothing to check. */
  | { readonly kind: 'pass' }
  /** See {@link wholeContextOf}. */
  | Allowance<ProvedChain>
  | { readonly kind: 'deny'; readonly code: string; readonly response: GateResponse };

/** The verdict on a call, and its bundle; `null` if there is none. */
interface Judged {
  outcome: Judgement | null;
  bundle: unknown;
}

/** What the decider needs. */
export interface GateDeciderContext {
  /** Judges a call without rules of binding and replay: the gate has its own. */
  readonly judge: (call: Call) => Promise<Judgement>;
  /** Gives the time in Unix seconds: the same clock for the verdict and for what the gate checks itself. */
  readonly clock: () => number;
  readonly configuration: Configuration;
  readonly log: Logger;
  readonly verdicts: Pick<VerdictLogs, 'record'>;
  /** The record of used invocations; `null` only if the operator has turned it off. Whoever opened it closes it. */
  readonly replays: ReplayStore | null;
  /** `null` if contexts are not signed. */
  readonly signer: ContextSigner | null;
  readonly metrics: Pick<Metrics, 'gate' | 'countDecision' | 'countOutcome' | 'countRejection'>;
  readonly routes: Pick<ServedRoutes, 'current'>;
}

/**
 * Decides on protocol requests for every transport of the service: verdict, the gate's rules, replay, signed context and
 * metrics. A transport only translates requests and decisions.
 *
 * @example
 * const decision = await decider.decide({ protocol: 'mcp', endpoint: 'gate', request });
 * if (decision.kind === 'deny') send(decision.response);
 */
export function deciderOf(context: GateDeciderContext) {
  const { judge, clock, configuration, log, verdicts, replays, signer, metrics, routes } = context;
  const { replayWindowSecs: windowSecs, clockSkewSecs, gatePassMethods, gateMethods } = configuration;
  const { trustedRoots, trustedRootsFile } = configuration;
  const replayRules: ReplayRules = { scope: GATE_SCOPE, windowSecs, clockSkewSecs };
  const use: GateParts<ProvedChain>['use'] =
    replays === null
      ? null
      : (claims, limits, now) => useInvocation(claims, limits, replays, now, replayRules, metrics.gate);
  const sign: GateParts<ProvedChain>['sign'] =
    signer === null ? undefined : (allowed) => signer.sign(allowed);
  const openingRules: OpeningRules = {
    passMethods: new Set(gatePassMethods),
    methods: gateMethods,
    // Those at the time of a request: they can be reloaded.
    get routes() {
      return routes.current;
    },
  };
  // No roots and no server name: the engine has already checked the configured ones.
  const serverIdentity = configuration.serverIdentity === undefined ? undefined : null;
  const rules: GateRules = { trustedRoots: null, serverIdentity, bindingMode: 'enforced' };
  // Whether the operator knows that any root is trusted.
  let isAnyRootKnown = trustedRoots !== undefined || trustedRootsFile !== undefined;

  const partsFor = ({ isWanted, mayWait, findFault }: GateCall, judged: Judged): GateParts<ProvedChain> => ({
    ...{ now: clock, rules, findFault, use, sign },
    judge: async ({ bundle, body }) => {
      const outcome = await judge({ bundle, body: bodyOf(body), isWanted, mayWait });
      metrics.countOutcome(outcome);
      const chain = provedChainOf(outcome);
      judged.outcome = outcome;
      judged.bundle = bundle;
      return chain;
    },
  });
  const denyUnread = (protocol: Protocol, fail: typeof verifierUnavailable): GateDecision => {
    const failure = fail({ protocol });
    metrics.countDecision(protocol, 'deny', failure.code);
    return toDecision({ kind: 'deny', protocol, id: null, requested: null, failure });
  };

  /** Counts a question that a transport answers itself, without a decision. */
  const rejected = (endpoint: GateEndpoint, reason: Rejection): void =>
    metrics.countRejection(endpoint, reason);

  /** The denial for a request that is not checked. `timeout`: its body did not come whole. */
  const unread = (
    { protocol, endpoint }: Pick<GateCall, 'protocol' | 'endpoint'>,
    reason: 'overloaded' | 'shutting_down' | 'internal' | 'timeout',
  ): GateDecision => {
    rejected(endpoint, reason);
    return denyUnread(protocol, reason === 'timeout' ? bodyTimedOut : verifierUnavailable);
  };

  /**
   * Decides on a request, and logs the verdict on its bundle, if there is one: when the decision is known, since a valid bundle may
   * have been used before, or be for another call. If the check fails, the request is denied.
   */
  const decideOn = async (call: GateCall): Promise<GateDecision> => {
    const judged: Judged = { outcome: null, bundle: null };
    let decision: GateDecision;
    try {
      if (call.request.body.kind === 'too large') rejected(call.endpoint, 'too_large');
      const opened = openRequest(call.protocol, call.request, openingRules);
      const decided = opened.kind === 'check' ? await decide(opened, partsFor(call, judged)) : opened;
      decision = decided.kind === 'deny' ? toDecision(decided) : decided;
      if (decision.kind === 'allow' && !isAnyRootKnown) {
        isAnyRootKnown = true;
        log.warn(
          'the gate allowed a call, and neither TRUSTED_ROOTS nor TRUSTED_ROOTS_FILE is set: calls under a delegation by anyone are allowed, ' +
            'unless the tool server checks X-DRS-Root-Principal; name the principals whose delegations count',
        );
      }
      metrics.countDecision(call.protocol, decision.kind, decision.kind === 'deny' ? decision.code : '');
    } catch (error) {
      // Nobody waits for the decision any more.
      if (error instanceof WorkDropped) decision = denyUnread(call.protocol, verifierUnavailable);
      else {
        log.error({ err: error }, 'a request failed inside the gate');
        decision = unread(call, 'internal');
      }
    }
    const { outcome, bundle } = judged;
    if (outcome !== null) {
      const denial = outcome.failure === null && decision.kind === 'deny' ? decision.code : undefined;
      verdicts.record(call.asked, outcome, bundle, denial);
    }
    return decision;
  };
  return { decide: decideOn, unread, rejected };
}
export type GateDecider = ReturnType<typeof deciderOf>;

function toDecision(denial: Denial): GateDecision {
  return { kind: 'deny', code: denial.failure.code, response: responseTo(denial) };
}

/** The body that the engine compares with the signed arguments. A `body` member of the bundle is never used. */
function bodyOf(body: CallBody): Body | null {
  return body.kind === 'text' || body.kind === 'value' ? body : null;
}

/** The context of an allowed call with its policy. */
export function wholeContextOf({ context, chain }: Allowance<ProvedChain>): GateContext {
  return { ...context, leaf_policy: chain.leafPolicy() };
}

/** The gate of a service, shared by all transports. */
export interface Gate {
  readonly decider: GateDecider;
  /** Its record of used invocations; `null` if `GATE_REPLAY=off`. */
  readonly replays: ReplayStore | null;
  readonly routes: ServedRoutes;
  /** Signs contexts; `null` if they are not signed. */
  readonly signer: ContextSigner | null;
  close(): Promise<void>;
}

/**
 * Opens what the gate needs besides the engine: its own replay store, and the key that signs contexts.
 *
 * @throws Error if the file with the routes cannot be used
 * @throws ReplayStoreError if `GATE_REPLAY=redis` and Redis cannot be used
 */
export async function openGate(
  deps: Pick<RouteContext, 'engine' | 'configuration' | 'metrics' | 'verdicts' | 'log'>,
  open = () => openReplays(deps.configuration.gateReplay, deps.configuration, deps.log),
): Promise<Gate> {
  const { engine, configuration, metrics, verdicts, log } = deps;
  const { gateReplay, gateRoutes, gateSigningKey, statusListBaseUrl } = configuration;
  const routes = new ServedRoutes(gateRoutes);
  const replays = await open();
  if (gateReplay === 'off')
    log.warn('GATE_REPLAY is off: a call that the gate allowed can be repeated while its delegation lives');
  const { list } = engine.revocation;
  const lists = statusListBaseUrl === undefined ? [] : [printableUrl(statusListBaseUrl)];
  const revocation = () => ({
    list_age_secs: list === null ? null : Math.max(0, Math.floor(list.ageSecs)),
    lists,
  });
  const signer = gateSigningKey === undefined ? null : new ContextSigner(gateSigningKey, revocation);
  const parts: JudgeParts = { ...engine.parts, requiresBinding: false, use: null };
  const decider = deciderOf({
    judge: (call) => judge(call, parts),
    ...{ clock: parts.clock, configuration, log, verdicts, replays, signer, metrics, routes },
  });
  const close = async () => {
    await replays?.close();
  };
  return { decider, routes, replays, signer, close };
}
