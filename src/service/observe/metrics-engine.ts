import type { Registry } from 'prom-client';
import type { Engine, EngineObserver } from '../../verifier/engine.js';
import type { ReplayStore } from '../../replay/index.js';
import { ReplayMetrics } from './metrics-replay.js';
import { Distribution, SECONDS, showHistogram } from './distribution.js';
import { showCounter, showGauge, showGauges } from './metrics-show.js';

const BATCH_SIZES = [1, 2, 4, 8, 16, 24, 32];

/** The metrics of the parts of a verifier. */
export class EngineMetrics {
  readonly observer: EngineObserver;
  readonly #registry: Registry;
  readonly #waited = new Distribution(SECONDS);
  readonly #batchSizes = new Distribution(BATCH_SIZES);
  readonly #batchSeconds = new Distribution(SECONDS);
  readonly #replays = new ReplayMetrics('drs_', '');
  #deaths = 0;

  constructor(registry: Registry) {
    this.#registry = registry;
    this.observer = {
      waited: (milliseconds) => this.#waited.observe(milliseconds / 1000),
      batchSent: (checks) => this.#batchSizes.observe(checks),
      batchReturned: (milliseconds) => this.#batchSeconds.observe(milliseconds / 1000),
      workerDied: () => this.#deaths++,
      replayChecked: this.#replays.replayChecked,
    };
  }

  /**
   * @param gateReplays the gate's record of used invocations, if it has one
   * @param isListFetched whether the last fetch of the status list succeeded; `null` if none is configured
   */
  show(engine: Engine, gateReplays: ReplayStore | null, isListFetched: (() => boolean) | null): void {
    this.#showCache(engine);
    this.#showSignatures(engine);
    this.#showRevocation(engine);
    if (engine.replays !== null) this.#replays.show(this.#registry, engine.replays);
    showGauges(
      this.#registry,
      'drs_dependency_up',
      '1 if the dependency answered when it was last asked',
      ['dependency'],
      (set) => {
        if (isListFetched !== null) set(isListFetched() ? 1 : 0, 'status_list');
        // Redis has three uses. It is down if one of them fails.
        const uses = [
          engine.replays?.isAvailable,
          gateReplays?.isAvailable,
          isStoreInRedis(engine) ? engine.revocation.isStoreCurrent : undefined,
        ];
        const known = uses.filter((isUp) => isUp !== undefined);
        if (known.length > 0) set(known.every(Boolean) ? 1 : 0, 'redis');
      },
    );
  }

  #showCache({ cache }: Engine): void {
    const registry = this.#registry;
    showCounter(
      registry,
      'drs_receipt_cache_lookups_total',
      'Receipts looked up in the cache',
      ['result'],
      (set) => {
        set(cache.stats.hits, 'hit');
        set(cache.stats.misses, 'miss');
      },
    );
    showCounter(
      registry,
      'drs_receipt_cache_evictions_total',
      'Receipts removed from the cache to make room for others',
      [],
      (set) => set(cache.stats.evictions),
    );
    showGauge(
      registry,
      'drs_receipt_cache_bytes',
      'Estimated size of the receipt cache',
      () => cache.stats.bytes,
    );
    showGauge(registry, 'drs_receipt_cache_receipts', 'Receipts in the cache', () => cache.stats.receipts);
  }

  #showSignatures({ signatures }: Engine): void {
    const registry = this.#registry;
    showCounter(registry, 'drs_signatures_total', 'Signatures verified, by where', ['thread'], (set) => {
      set(signatures.stats.inThread, 'main');
      set(signatures.stats.pooled, 'worker');
    });
    showCounter(registry, 'drs_signature_batches_total', 'Batches handed to workers', [], (set) =>
      set(signatures.stats.batches),
    );
    showCounter(registry, 'drs_signature_batches_repeated_total', 'Batches whose worker died', [], (set) =>
      set(signatures.stats.repeated),
    );
    showGauge(
      registry,
      'drs_signatures_pending',
      'Signatures waiting for a thread',
      () => signatures.stats.pending,
    );
    showGauge(
      registry,
      'drs_signature_workers',
      'Worker threads that take signatures',
      () => signatures.stats.workers,
    );
    showCounter(
      registry,
      'drs_signature_worker_deaths_total',
      'Worker threads that ended on their own, or did not come back',
      [],
      (set) => set(this.#deaths),
    );
    const show = (name: string, help: string, distribution: Distribution) =>
      showHistogram(registry, name, help, [{ labels: {}, distribution }]);
    show('drs_signature_batch_checks', 'Signatures in a batch for a worker', this.#batchSizes);
    show(
      'drs_signature_queue_duration_seconds',
      'How long the signatures of a bundle waited for a thread, without those that were verified at once',
      this.#waited,
    );
    show(
      'drs_signature_batch_duration_seconds',
      'Time from handing a batch to a worker until its results are back',
      this.#batchSeconds,
    );
  }

  #showRevocation({ revocation }: Engine): void {
    const registry = this.#registry;
    if (!Number.isNaN(revocation.storeAgeSecs))
      showGauge(
        registry,
        'drs_revocation_copy_age_seconds',
        'Time since the copy of the revocations in Redis was last known to be complete',
        () => revocation.storeAgeSecs,
      );
    showGauge(registry, 'drs_revocation_entries', 'Indices in the local store', () => revocation.entries);
    showGauge(
      registry,
      'drs_status_list_entries',
      'Entries of the status list in memory',
      () => revocation.listEntries,
    );
    // NaN if there is no list: Prometheus then shows no value, while 0 would look like a fresh list.
    showGauge(
      registry,
      'drs_status_list_age_seconds',
      'Time since the status list was fetched',
      () => revocation.listAgeSecs,
    );
  }
}

function isStoreInRedis({ revocation }: Engine): boolean {
  return !Number.isNaN(revocation.storeAgeSecs);
}
