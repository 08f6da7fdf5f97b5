import { collectDefaultMetrics, Registry } from 'prom-client';
import type { ApprovalEvent } from '../../../approval/events.js';
import { GATE_CATALOGUE } from '../../../gate/codes.js';
import type { Protocol } from '../../../gate/codes.js';
import type { RevocationObserver } from '../../../revocation/index.js';
import type { EngineObserver } from '../../../verifier/engine.js';
import { REFUND_CODES, type ReplayObserver } from '../../../usage/index.js';
import type { Judgement } from '../../../verify/judge.js';
import type { Binding } from '../../../verify/binding.js';
import { CATALOGUE, type Code } from '../../../verify/codes.js';
import { sayerOf } from '../../../verify/tools.js';

/** The endpoints; `other` stands for all unknown paths. */
// prettier-ignore
const ENDPOINTS = ['verify', 'gate', 'revoke', 'usage', 'healthz', 'readyz', 'metrics', 'jwks', 'openapi', 'approve', 'other'] as const;

export type Endpoint = (typeof ENDPOINTS)[number];

/** The outcomes of calls of `/admin` endpoints. */
// prettier-ignore
const ADMIN_OUTCOMES = [
  'listed', 'done', 'not_configured', 'unauthorized', 'rate_limited', 'malformed', 'too_large', 'timeout', 'overloaded', 'failed',
] as const;

export type AdminOutcome = (typeof ADMIN_OUTCOMES)[number];

/** Why a request that asked for a verdict or a decision was answered without one. */
// prettier-ignore
const REJECTIONS = [
  'malformed', 'too_large', 'timeout', 'overloaded', 'rate_limited', 'foreign_origin', 'shutting_down', 'internal',
] as const;

export type Rejection = (typeof REJECTIONS)[number];

/** The methods of gRPC: the name of each in metrics, by its path. */
export const GRPC_METHODS = {
  '/envoy.service.auth.v3.Authorization/Check': 'check',
  '/grpc.health.v1.Health/Check': 'health',
} as const;

export type GrpcMethod = keyof typeof GRPC_METHODS;

/** The ways to the gate: `/v1/gate` and `/gate/*` over HTTP, and gRPC. */
export type GateEndpoint = 'gate' | 'grpc';

const APPROVAL_EVENTS = ['asked', 'approved', 'denied', 'expired', 'used'] as const;

/** Numbers of receipts by buckets; `unknown` where a bundle is refused before they are read. */
const DEPTHS = ['unknown', '1', '2-4', '2-4', '2-4', '5-8', '5-8', '5-8', '5-8', '9+'] as const;

const GATE_CODES: ReadonlySet<string> = new Set([...GATE_CATALOGUE, ...CATALOGUE].map(({ code }) => code));
/** Buckets for durations. A verification takes about 0.1 ms; prom-client's default buckets start at 5 ms. */
export const SECONDS = [
  0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
  0.5, 1, 2.5, 5, 10,
];
const FETCH_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const SYNC_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const PROPAGATION_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10];
/** Persons take longer than machines: up to a day. */
const ANSWER_SECONDS = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 43_200, 86_400];
const BATCH_SIZES = [1, 2, 4, 8, 16, 24, 32];

/**
 * Counts observations in buckets. prom-client's own histogram builds and looks up two strings for each observation,
 * which takes a hundredth of the time of a warm request.
 */
export class Distribution {
  readonly buckets: readonly number[];
  /** Observations in each bucket (not cumulative). The last bucket counts those above all bounds. */
  readonly counts: number[];
  sum = 0;

  /** @param buckets upper bounds, ascending */
  constructor(buckets: readonly number[]) {
    this.buckets = buckets;
    this.counts = new Array<number>(buckets.length + 1).fill(0);
  }

  observe(value: number): void {
    const { buckets, counts } = this;
    let bucket = 0;
    while (bucket < buckets.length && value > (buckets[bucket] as number)) bucket++;
    counts[bucket] = (counts[bucket] as number) + 1;
    this.sum += value;
  }

  observeMs(milliseconds: number): void {
    this.observe(milliseconds / 1000);
  }
}

/**
 * Counts what happens, in plain numbers that `metrics-table.ts` reads for each scrape. Labels come from fixed sets. Only
 * the methods, the observers and the routes write the counts.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly verdicts = { valid: 0, invalid: 0 };
  readonly verifySeconds = forEach(DEPTHS, () => ({
    warm: new Distribution(SECONDS),
    cold: new Distribution(SECONDS),
  }));
  readonly failures = new Map<Code, number>(CATALOGUE.map(({ code }) => [code, 0]));
  readonly bindings: Record<Binding, number> = { match: 0, mismatch: 0, invalid_body: 0 };
  /** Of requests to `/verify`. */
  readonly rejections = forEach(REJECTIONS, () => 0);
  readonly gateRejections = forEach(['gate', 'grpc'] as const, () => forEach(REJECTIONS, () => 0));
  readonly adminCalls = forEach(ADMIN_OUTCOMES, () => 0);
  readonly requests = forEach(ENDPOINTS, () => ({
    seconds: new Distribution(SECONDS),
    /** By status. */
    answers: new Map<number, number>(),
    aborted: 0,
  }));
  /** By decision and code. */
  readonly decisions = forEach(['http', 'mcp', 'a2a'] as const, () => ({
    pass: new Map([['', 0]]),
    allow: new Map([['', 0]]),
    deny: new Map<string, number>(),
    observe: new Map<string, number>(),
  }));
  readonly replays = forEach(['verify', 'gate'] as const, () => ({
    results: { accepted: 0, replayed: 0, stale: 0, limit_reached: 0, lost: 0, unavailable: 0 },
    limits: { max_calls: 0, max_total_cost_usd: 0 },
    seconds: new Distribution(SECONDS),
    ahead: new Distribution([1, 2, 5, 10, 20, 30, 60, 300]),
  }));
  readonly refunds = forEach(['done', ...REFUND_CODES] as const, () => 0);
  /** By what happens to questions to persons. */
  readonly approvals = forEach(APPROVAL_EVENTS, () => 0);
  /** From a question to each yes or no. */
  readonly answerSeconds = new Distribution(ANSWER_SECONDS);
  /** Gives the number of questions that are held. The gate sets it, if it asks persons. */
  openApprovals = () => 0;
  readonly lookups = { remote: { false: 0, true: 0 }, local: { false: 0, true: 0 } };
  readonly fetches = new Map<string, number>();
  readonly rootListFetches = new Map<string, number>();
  readonly fetchSeconds = new Distribution(FETCH_SECONDS);
  readonly syncSeconds = new Distribution(SYNC_SECONDS);
  readonly propagationSeconds = new Distribution(PROPAGATION_SECONDS);
  readonly queueSeconds = new Distribution(SECONDS);
  readonly batchSizes = new Distribution(BATCH_SIZES);
  readonly batchSeconds = new Distribution(SECONDS);
  readonly grpcCalls = forEach(Object.values(GRPC_METHODS), () => ({
    seconds: new Distribution(SECONDS),
    statuses: new Map([['ok', 0]]),
  }));
  /** Number of open calls over gRPC, which its front end counts. */
  openCalls = 0;
  /** Whether the last fetch of the status list succeeded; `false` before the first. */
  isListFetched = false;
  readonly stated = { tool: 0, call: 0, nobody: 0 };
  readonly linesReads = { roots: { loaded: 0, refused: 0 }, tools: { loaded: 0, refused: 0 } };
  /** 1 for what could not be read again. */
  readonly failedReloads = { certificate: 0, routes: 0, decision_log: 0 };
  workerDeaths = 0;

  /** Receives the events of the verifier and its parts. */
  readonly observer: RevocationObserver & EngineObserver = {
    lookedUp: (source, revoked) => {
      if (revoked) this.lookups[source].true++;
      else this.lookups[source].false++;
    },
    statusListFetched: (outcome, milliseconds) => {
      this.isListFetched = outcome === 'updated' || outcome === 'not_modified';
      increment(this.fetches, outcome);
      this.fetchSeconds.observeMs(milliseconds);
    },
    rootListFetched: (outcome) => increment(this.rootListFetches, outcome),
    storeSynced: (milliseconds) => this.syncSeconds.observeMs(milliseconds),
    revocationPropagated: (milliseconds) => this.propagationSeconds.observeMs(milliseconds),
    waited: (milliseconds) => this.queueSeconds.observeMs(milliseconds),
    batchSent: (checks) => this.batchSizes.observe(checks),
    batchReturned: (milliseconds) => this.batchSeconds.observeMs(milliseconds),
    workerDied: () => this.workerDeaths++,
    linesRead: (what, outcome) => this.linesReads[what][outcome]++,
    ...this.#replayObserver('verify'),
  };

  /** Receives the events of the gate's record of used invocations. */
  readonly gate = this.#replayObserver('gate');

  constructor() {
    collectDefaultMetrics({ register: this.registry });
    // A gauge must not have the name of a counter. Those that do are the sums of others over their label `type`.
    for (const { name, type } of this.registry.getMetricsAsArray())
      // A text, although it is declared as a number.
      if (String(type) === 'gauge' && name.endsWith('_total')) this.registry.removeSingleMetric(name);
  }

  /** Counts a verdict. @param startedAt when the bundle was handed to the verifier, as `performance.now()` says */
  countOutcome(outcome: Judgement, startedAt: number): void {
    const { effort } = outcome;
    const durations = this.verifySeconds[DEPTHS[effort?.depth ?? 0] ?? '9+'];
    (effort?.isWarm ? durations.warm : durations.cold).observeMs(performance.now() - startedAt);
    if (outcome.failure === null) {
      this.verdicts.valid++;
      if (outcome.binding !== null) this.bindings[outcome.binding]++;
      this.#countStated(outcome);
      return;
    }
    this.verdicts.invalid++;
    increment(this.failures, outcome.failure.code);
  }

  /** Counts by whose word a valid call keeps to what its receipts limit. */
  #countStated({ chain, invocation, tool }: Extract<Judgement, { failure: null }>): void {
    const { args } = invocation.claims;
    for (const { limits } of chain.receipts)
      for (const { member, isOpen } of limits) {
        const { argument } = member;
        if (argument === null || argument === 'tool' || isOpen) continue;
        this.stated[sayerOf(argument, args, tool)]++;
      }
  }

  /** Counts a decision of the gate. @param code of a denial, also one that is only observed; empty for other decisions */
  countDecision(protocol: Protocol, decision: 'pass' | 'allow' | 'deny' | 'observe', code: string): void {
    increment(this.decisions[protocol][decision], GATE_CODES.has(code) ? code : '');
  }

  /** Counts what happens to a question to a person. */
  countApproval({ kind, askedAt }: ApprovalEvent): void {
    this.approvals[kind]++;
    if (kind === 'approved' || kind === 'denied')
      this.answerSeconds.observe(Math.max(0, Date.now() / 1000 - askedAt));
  }

  /** Counts a request without a verdict or a decision, where the endpoint gives one. */
  countRejection(endpoint: Endpoint | GateEndpoint, reason: Rejection): void {
    if (endpoint === 'verify') this.rejections[reason]++;
    else if (endpoint === 'gate' || endpoint === 'grpc') this.gateRejections[endpoint][reason]++;
  }

  /**
   * Counts a finished request.
   *
   * @param status status of the answer; 0 if the client disconnected first. Only the service's own answers are counted,
   *   so the set of statuses is fixed.
   */
  countRequest(endpoint: Endpoint, status: number, milliseconds: number): void {
    const requests = this.requests[endpoint];
    requests.seconds.observeMs(milliseconds);
    if (status === 0) requests.aborted++;
    else increment(requests.answers, status);
  }

  /**
   * Counts a call over gRPC that has ended.
   *
   * @param path one of {@link GRPC_METHODS}, or it is not counted
   * @param status its name, which the library knows
   */
  countCall(path: string, status: string, milliseconds: number): void {
    if (!(path in GRPC_METHODS)) return;
    const calls = this.grpcCalls[GRPC_METHODS[path as GrpcMethod]];
    calls.seconds.observeMs(milliseconds);
    increment(calls.statuses, status.toLowerCase());
  }

  #replayObserver(scope: 'verify' | 'gate'): ReplayObserver {
    const counts = this.replays[scope];
    return {
      replayChecked: (result, milliseconds) => {
        counts.results[result]++;
        counts.seconds.observeMs(milliseconds);
      },
      limitReached: (member) => counts.limits[member]++,
      cameEarly: (secs) => counts.ahead.observe(secs),
    };
  }
}

function increment<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function forEach<Label extends string, Count>(labels: readonly Label[], none: () => Count) {
  return Object.fromEntries(labels.map((label) => [label, none()])) as Record<Label, Count>;
}
