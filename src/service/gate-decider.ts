import type { Logger } from 'pino';
import type { Body } from '../verify/binding.js';
import { judge, type Call, type Judgement } from '../verify/judge.js';
import type { JudgeParts } from '../verify/parts.js';
import type { Engine } from '../verifier/engine.js';
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
import { ContextSigner } from './routes/context-token.js';
import type { GateEndpoint, GateObserver, Metrics, Rejection } from './observe/metrics/metrics.js';
import { openingRulesOf, ServedRoutes } from './routes/served-routes.js';
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
  /** Called before queued work starts: whether somebody still waits for the decision. If left out: always. */
  readonly isWanted?: () => boolean;
  /** Called before it waits for a status list: whether it may. If left out: always. */
  readonly mayWait?: () => boolean;
  /** Called with the verdict on the bundle, if there is one. */
  readonly onVerdict?: (outcome: Judgement, bundle: unknown) => void;
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

/** What the decider needs. */
export interface GateDeciderContext {
  /** Judges a call without rules of binding and replay: the gate has its own. */
  readonly judge: (call: Call) => Promise<Judgement>;
  readonly configuration: Pick<
    Configuration,
    | 'replayWindowSecs'
    | 'clockSkewSecs'
    | 'trustedRoots'
    | 'trustedRootsFile'
    | 'gatePassMethods'
    | 'serverIdentity'
    | 'gateMethods'
  >;
  readonly log: Logger;
  /** The record of used invocations; `null` only if the operator has turned it off. Whoever opened it closes it. */
  readonly replays: ReplayStore | null;
  /** `null` if contexts are not signed. */
  readonly signer: ContextSigner | null;
  readonly observer: GateObserver;
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
export class GateDecider {
  readonly #context: GateDeciderContext;
  readonly #use: GateParts<ProvedChain>['use'];
  readonly #sign: GateParts<ProvedChain>['sign'];
  readonly #openingRules: OpeningRules;
  readonly #rules: GateRules;
  #hasWarned = false;

  constructor(context: GateDeciderContext) {
    this.#context = context;
    const { replayWindowSecs: windowSecs, clockSkewSecs, serverIdentity } = context.configuration;
    const { replays, signer, observer } = context;
    const replayRules: ReplayRules = { scope: GATE_SCOPE, windowSecs, clockSkewSecs };
    this.#use =
      replays === null
        ? null
        : (claims, limits, now) => useInvocation(claims, limits, replays, now, replayRules, observer);
    this.#sign = signer === null ? undefined : (allowed) => signer.sign(allowed);
    this.#openingRules = openingRulesOf(context.configuration, context.routes);
    // No roots and no server name: the engine has already checked the configured ones.
    this.#rules = {
      ...{ trustedRoots: null, serverIdentity: serverIdentity === undefined ? undefined : null },
      bindingMode: 'enforced',
    };
  }

  /** Decides on a request. Never rejects: if the check fails, the request is denied. */
  async decide(call: GateCall): Promise<GateDecision> {
    const { observer, log } = this.#context;
    try {
      if (call.request.body.kind === 'too large') observer.rejected(call.endpoint, 'too_large');
      const opened = openRequest(call.protocol, call.request, this.#openingRules);
      const decided = opened.kind === 'check' ? await decide(opened, this.#partsFor(call)) : opened;
      const decision = decided.kind === 'deny' ? toDecision(decided) : decided;
      if (decision.kind === 'allow') this.#warnOfAnyRoot();
      observer.decided(call.protocol, decision.kind, decision.kind === 'deny' ? decision.code : '');
      return decision;
    } catch (error) {
      // Nobody waits for the decision any more.
      if (error instanceof WorkDropped) return this.#unread(call.protocol, verifierUnavailable);
      log.error({ err: error }, 'a request failed inside the gate');
      return this.unavailable(call, 'internal');
    }
  }

  /** The denial for a request that cannot be checked. */
  unavailable(
    { protocol, endpoint }: Pick<GateCall, 'protocol' | 'endpoint'>,
    reason: 'overloaded' | 'shutting_down' | 'internal',
  ): GateDecision {
    this.rejected(endpoint, reason);
    return this.#unread(protocol, verifierUnavailable);
  }

  /** The decision on a request whose body did not come whole. */
  timedOut({ protocol, endpoint }: Pick<GateCall, 'protocol' | 'endpoint'>): GateDecision {
    this.rejected(endpoint, 'timeout');
    return this.#unread(protocol, bodyTimedOut);
  }

  /** Counts a question that a transport answers itself, without a decision. */
  rejected(endpoint: GateEndpoint, reason: Rejection): void {
    this.#context.observer.rejected(endpoint, reason);
  }

  #unread(protocol: Protocol, fail: typeof verifierUnavailable): GateDecision {
    const failure = fail({ protocol });
    const decision = toDecision({ kind: 'deny', protocol, id: null, requested: null, failure });
    this.#context.observer.decided(protocol, 'deny', failure.code);
    return decision;
  }

  #partsFor({ isWanted, mayWait, onVerdict, findFault }: GateCall): GateParts<ProvedChain> {
    const { judge, observer } = this.#context;
    return {
      now: clock,
      rules: this.#rules,
      judge: async ({ bundle, body }) => {
        const outcome = await judge({ bundle, body: bodyOf(body), isWanted, mayWait });
        observer.countOutcome(outcome);
        onVerdict?.(outcome, bundle);
        return provedChainOf(outcome);
      },
      findFault,
      use: this.#use,
      sign: this.#sign,
    };
  }

  /** Warns once if any root is trusted, so that the operator knows. */
  #warnOfAnyRoot(): void {
    const { trustedRoots, trustedRootsFile } = this.#context.configuration;
    if (this.#hasWarned || trustedRoots !== undefined || trustedRootsFile !== undefined) return;
    this.#hasWarned = true;
    this.#context.log.warn(
      'the gate allowed a call, and neither TRUSTED_ROOTS nor TRUSTED_ROOTS_FILE is set: calls under a delegation by anyone are allowed, ' +
        'unless the tool server checks X-DRS-Root-Principal; name the principals whose delegations count',
    );
  }
}

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

function clock(): number {
  return Math.floor(Date.now() / 1000);
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
export async function openGate(deps: {
  readonly engine: Engine;
  readonly configuration: Configuration;
  readonly metrics: Metrics;
  readonly log: Logger;
}): Promise<Gate> {
  const { engine, configuration, metrics, log } = deps;
  const { gateReplay, gateRoutes, gateSigningKey, statusListBaseUrl } = configuration;
  const routes = new ServedRoutes(gateRoutes);
  const replays = await openReplays(gateReplay, configuration, log);
  if (gateReplay === 'off')
    log.warn('GATE_REPLAY is off: a call that the gate allowed can be repeated while its delegation lives');
  const { list } = engine.revocation;
  const lists = statusListBaseUrl === undefined ? [] : [printableUrl(statusListBaseUrl)];
  const signer =
    gateSigningKey === undefined
      ? null
      : new ContextSigner(gateSigningKey, () => ({
          list_age_secs: list === null ? null : Math.max(0, Math.floor(list.ageSecs)),
          lists,
        }));
  // One clock for the verdict and for what the gate checks itself.
  const parts: JudgeParts = { ...engine.parts, clock, requiresBinding: false, use: null };
  const decider = new GateDecider({
    judge: (call) => judge(call, parts),
    configuration,
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
    signer,
    close: async () => {
      await replays?.close();
    },
  };
}
