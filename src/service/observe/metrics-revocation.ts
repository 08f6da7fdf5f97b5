import { Counter, Histogram, type Registry } from 'prom-client';
import type { RevocationObserver } from '../../revocation/index.js';
import { showCounter } from './metrics-show.js';

/** The metrics of revocation. */
export class RevocationMetrics {
  readonly observer: RevocationObserver;
  readonly #lookups = { remote: [0, 0], local: [0, 0] };
  #isListFetched = false;

  constructor(registry: Registry) {
    showCounter(
      registry,
      'drs_revocation_lookups_total',
      'Indices looked up',
      ['source', 'revoked'],
      (set) => {
        for (const source of ['remote', 'local'] as const) {
          for (const revoked of [0, 1])
            set(this.#lookups[source][revoked] ?? 0, source, revoked ? 'true' : 'false');
        }
      },
    );
    this.observer = this.#observe(registry);
  }

  /** Whether the last fetch of the status list succeeded; `false` before the first. */
  get isListFetched(): boolean {
    return this.#isListFetched;
  }

  #observe(registry: Registry): RevocationObserver {
    const fetches = new Counter({
      name: 'drs_status_list_fetches_total',
      help: 'Fetches of the status list',
      labelNames: ['outcome'],
      registers: [registry],
    });
    const fetchSeconds = new Histogram({
      name: 'drs_status_list_fetch_duration_seconds',
      help: 'Time a fetch of the status list took',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers: [registry],
    });
    const syncSeconds = new Histogram({
      name: 'drs_revocation_fsync_duration_seconds',
      help: 'Time a flush of the revocation store to disk took',
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1],
      registers: [registry],
    });
    const propagation = new Histogram({
      name: 'drs_revocation_propagation_seconds',
      help: 'Time from recording a revocation in Redis until this process applies it',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10],
      registers: [registry],
    });
    const damaged = new Counter({
      name: 'drs_revocation_damaged_lines_total',
      help: 'Lines of the revocation store that were skipped',
      registers: [registry],
    });
    return {
      lookedUp: (source, revoked) => {
        const counts = this.#lookups[source];
        counts[revoked ? 1 : 0] = (counts[revoked ? 1 : 0] ?? 0) + 1;
      },
      statusListFetched: (outcome, milliseconds) => {
        this.#isListFetched = outcome === 'updated' || outcome === 'not_modified';
        fetches.inc({ outcome });
        fetchSeconds.observe(milliseconds / 1000);
      },
      storeSynced: (milliseconds) => syncSeconds.observe(milliseconds / 1000),
      revocationPropagated: (milliseconds) => propagation.observe(milliseconds / 1000),
      storeLineDamaged: () => damaged.inc(),
    };
  }
}
