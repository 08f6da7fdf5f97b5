import { Counter, Gauge, type Registry } from 'prom-client';
import type { Outcome } from '../engine/engine.js';
import { GATE_CATALOGUE, GATE_PROTOCOLS, type GateProtocol } from '../gate/index.js';
import type { ReplayStore } from '../replay/index.js';
import { CATALOGUE } from '../verify/codes.js';

/** Receives the events of the gate. */
export interface GateObserver {
  /** @param code the code of a denial; empty for other decisions */
  decided(protocol: GateProtocol, decision: 'pass' | 'allow' | 'deny', code: string): void;
  countOutcome(outcome: Outcome): void;
}

const CODES: ReadonlySet<string> = new Set([...GATE_CATALOGUE, ...CATALOGUE].map(({ code }) => code));

/** Counts the gate's decisions. All labels come from fixed sets. */
export class GateMetrics implements GateObserver {
  readonly countOutcome: (outcome: Outcome) => void;
  readonly #registry: Registry;
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

  /** Adds metrics for the gate's replay store, if that is in this process. */
  watch(replays: ReplayStore | null): void {
    const capacity = replays?.capacity;
    if (replays === null || capacity === undefined) return;
    const registers = [this.#registry];
    new Gauge({
      name: 'drs_gate_replay_entries',
      help: 'Used invocations that the gate has recorded in this process',
      registers,
      collect() {
        this.set(replays.size ?? 0);
      },
    });
    new Gauge({
      name: 'drs_gate_replay_capacity',
      help: 'Maximum number of invocations that the gate can record in this process',
      registers,
      collect() {
        this.set(capacity);
      },
    });
  }

  decided(protocol: GateProtocol, decision: 'pass' | 'allow' | 'deny', code: string): void {
    const byCode = this.#decisions.get(protocol)?.get(decision);
    const known = CODES.has(code) ? code : '';
    byCode?.set(known, (byCode.get(known) ?? 0) + 1);
  }
}
