import type { Registry } from 'prom-client';
import type { ReplayResult } from '../../replay/index.js';
import type { ReplayStore } from '../../replay/index.js';
import { Distribution, SECONDS, showHistogram } from './distribution.js';
import { showCounter, showGauge } from './metrics-show.js';

/** The metrics of replay protection in one place: `/verify`, or the gate. */
export class ReplayMetrics {
  readonly #prefix: string;
  readonly #of: string;
  readonly #seconds = new Distribution(SECONDS);
  readonly #results: Record<ReplayResult, number> = { accepted: 0, replayed: 0, stale: 0, unavailable: 0 };

  /**
   * @param prefix begins the name of each metric
   * @param of names the place in help texts
   */
  constructor(prefix: 'drs_' | 'drs_gate_', of: '' | ' by the gate') {
    this.#prefix = prefix;
    this.#of = of;
  }

  readonly replayChecked = (result: ReplayResult, milliseconds: number): void => {
    this.#results[result]++;
    this.#seconds.observe(milliseconds / 1000);
  };

  show(registry: Registry, replays: ReplayStore): void {
    const name = (rest: string) => this.#prefix + rest;
    showCounter(
      registry,
      name('nonce_checks_total'),
      `Invocations that were checked for replay${this.#of}`,
      ['result'],
      (set) => {
        for (const [result, count] of Object.entries(this.#results)) set(count, result);
      },
    );
    showHistogram(
      registry,
      name('nonce_check_duration_seconds'),
      `How long the replay store took${this.#of}`,
      [{ labels: {}, distribution: this.#seconds }],
    );
    const { capacity } = replays;
    if (capacity === undefined) return;
    showGauge(
      registry,
      name('replay_entries'),
      `Used invocations recorded in this process${this.#of}`,
      () => replays.size ?? 0,
    );
    showGauge(
      registry,
      name('replay_capacity'),
      `Maximum number of invocations that this process can record${this.#of}`,
      () => capacity,
    );
  }
}
