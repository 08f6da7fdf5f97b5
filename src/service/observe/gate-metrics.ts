import { Counter, type Registry } from 'prom-client';
import type { Outcome } from '../../verify/judge.js';
import type { ReplayObserver, ReplayResult } from '../../replay/index.js';
import { GATE_CATALOGUE } from '../../gate/codes.js';
import { GATE_PROTOCOLS, type GateProtocol } from '../../gate/open.js';
import type { ReplayStore } from '../../replay/index.js';
import { CATALOGUE } from '../../verify/codes.js';
import { ReplayMetrics } from './metrics-replay.js';
import { showCounter } from './metrics-show.js';
import { noRejections, type Rejection } from './rejections.js';

/** The ways to the gate: `/v1/gate` and `/gate/*` over HTTP, and gRPC. */
export const GATE_ENDPOINTS = ['gate', 'grpc'] as const;

/** A label of {@link GATE_ENDPOINTS}. */
export type GateEndpoint = (typeof GATE_ENDPOINTS)[number];

/** Receives the events of the gate. */
export interface GateObserver extends ReplayObserver {
  /** A question was answered without a check of the call. */
  rejected(endpoint: GateEndpoint, reason: Rejection): void;
  /** @param code the code of a denial; empty for other decisions */
  decided(protocol: GateProtocol, decision: 'pass' | 'allow' | 'deny', code: string): void;
  countOutcome(outcome: Outcome): void;
}

const CODES: ReadonlySet<string> = new Set([...GATE_CATALOGUE, ...CATALOGUE].map(({ code }) => code));

/** Counts the gate's decisions. All labels come from fixed sets. */
export class GateMetrics implements GateObserver {
  readonly countOutcome: (outcome: Outcome) => void;
  /** The gate's record of used invocations; `null` if it has none. */
  replays: ReplayStore | null = null;
  readonly #registry: Registry;
  readonly #replayChecks = new ReplayMetrics('drs_gate_', ' by the gate');
  readonly #rejections: Readonly<Record<GateEndpoint, Record<Rejection, number>>> = {
    gate: noRejections(),
    grpc: noRejections(),
  };
  /** By protocol, decision and code. */
  readonly #decisions = new Map<GateProtocol, Map<string, Map<string, number>>>();

  /** @param countOutcome counts verdicts in the same metrics as those of `/verify` */
  constructor(registry: Registry, countOutcome: (outcome: Outcome) => void) {
    this.countOutcome = countOutcome;
    this.#registry = registry;
    const decisions = this.#decisions;
    for (const protocol of GATE_PROTOCOLS) {
      const none = (): Map<string, number> => new Map([['', 0]]);
      decisions.set(
        protocol,
        new Map([
          ['pass', none()],
          ['allow', none()],
          ['deny', new Map<string, number>()],
        ]),
      );
    }
    showCounter(
      registry,
      'drs_gate_rejections_total',
      'Questions to the gate that were answered without a check of the call',
      ['endpoint', 'reason'],
      (set) => {
        for (const endpoint of GATE_ENDPOINTS)
          for (const [reason, count] of Object.entries(this.#rejections[endpoint]))
            set(count, endpoint, reason);
      },
    );
    new Counter({
      name: 'drs_gate_decisions_total',
      help: 'Decisions of the gate; denials by code',
      labelNames: ['protocol', 'decision', 'code'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [protocol, byDecision] of decisions) {
          for (const [decision, byCode] of byDecision) {
            for (const [code, count] of byCode) this.labels(protocol, decision, code).inc(count);
          }
        }
      },
    });
  }

  /** Adds the metrics of the gate's replay store, if it has one. */
  watch(replays: ReplayStore | null): void {
    this.replays = replays;
    if (replays !== null) this.#replayChecks.show(this.#registry, replays);
  }

  get replayChecked(): (result: ReplayResult, milliseconds: number) => void {
    return this.#replayChecks.replayChecked;
  }

  rejected(endpoint: GateEndpoint, reason: Rejection): void {
    this.#rejections[endpoint][reason]++;
  }

  decided(protocol: GateProtocol, decision: 'pass' | 'allow' | 'deny', code: string): void {
    const byCode = this.#decisions.get(protocol)?.get(decision);
    const known = CODES.has(code) ? code : '';
    byCode?.set(known, (byCode.get(known) ?? 0) + 1);
  }
}
