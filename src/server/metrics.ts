import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RevocationObserver } from '../revocation/index.js';
import type { Engine, Outcome } from '../engine/engine.js';
import type { Binding } from '../verify/binding.js';
import { CATALOGUE, type Code } from '../verify/codes.js';
import type { Admission } from './admission.js';
import type { Connections } from './front-end/connections.js';
import { DurationHistogram } from './duration-histogram.js';

/** The endpoints as metrics name them; `other` is every unknown path. */
export const ENDPOINTS = ['verify', 'revoke', 'healthz', 'readyz', 'metrics', 'openapi', 'other'] as const;

/** A label of {@link ENDPOINTS}. */
export type Endpoint = (typeof ENDPOINTS)[number];

/** Why `/verify` turned a request away without a verdict. */
export type Rejection =
  | 'malformed'
  | 'too_large'
  | 'timeout'
  | 'overloaded'
  | 'rate_limited'
  | 'foreign_origin'
  | 'shutting_down'
  | 'internal';

const BINDINGS = ['match', 'mismatch', 'invalid_body'] as const satisfies readonly Binding[];

/**
 * What the service tells Prometheus. Labels come from closed sets. What happens on every request is counted in plain
 * numbers and handed to prom-client when it is asked for.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly observer: RevocationObserver;
  readonly #failures = new Map<Code, number>(CATALOGUE.map(({ code }) => [code, 0]));
  readonly #bindings: Record<Binding, number> = { match: 0, mismatch: 0, invalid_body: 0 };
  readonly #rejections: Record<Rejection, number> = {
    malformed: 0,
    too_large: 0,
    timeout: 0,
    overloaded: 0,
    rate_limited: 0,
    foreign_origin: 0,
    shutting_down: 0,
    internal: 0,
  };
  readonly #lookups = { remote: [0, 0], local: [0, 0] };
  readonly #durations: DurationHistogram<Endpoint>;
  #valid = 0;
  #invalid = 0;

  constructor() {
    const { registry } = this;
    collectDefaultMetrics({ register: registry });
    this.#count('drs_verify_verifications_total', 'Verdicts', ['result'], (set) => {
      set(this.#valid, 'valid');
      set(this.#invalid, 'invalid');
    });
    this.#count(
      'drs_verify_errors_total',
      'Verdicts that were not valid, by code',
      ['block', 'code'],
      (set) => {
        for (const { block, code } of CATALOGUE) set(this.#failures.get(code) ?? 0, block, code);
      },
    );
    this.#count('drs_binding_checks_total', 'Bodies compared with signed arguments', ['result'], (set) => {
      for (const binding of BINDINGS) set(this.#bindings[binding], binding);
    });
    this.#count('drs_verify_rejections_total', 'Requests to /verify without a verdict', ['reason'], (set) => {
      for (const [reason, count] of Object.entries(this.#rejections)) set(count, reason);
    });
    this.#count('drs_revocation_lookups_total', 'Indices looked up', ['source', 'revoked'], (set) => {
      for (const source of ['remote', 'local'] as const) {
        for (const revoked of [0, 1])
          set(this.#lookups[source][revoked] ?? 0, source, revoked ? 'true' : 'false');
      }
    });
    this.#durations = new DurationHistogram(
      'drs_http_request_duration_seconds',
      'From the request line to the answer',
      ENDPOINTS,
      registry,
    );
    this.observer = this.#observeRevocation();
  }

  /** Counts a verdict. */
  countOutcome(outcome: Outcome): void {
    if (outcome.failure === null) {
      this.#valid++;
      if (outcome.binding !== null) this.#bindings[outcome.binding]++;
      return;
    }
    this.#invalid++;
    this.#failures.set(outcome.failure.code, (this.#failures.get(outcome.failure.code) ?? 0) + 1);
  }

  countRejection(reason: Rejection): void {
    this.#rejections[reason]++;
  }

  observeDuration(endpoint: Endpoint, milliseconds: number): void {
    this.#durations.observe(endpoint, milliseconds / 1000);
  }

  /** Adds the figures that the parts of a verifier keep themselves. */
  watch({ cache, signatures, revocation, replays }: Engine): void {
    this.#count('drs_receipt_cache_lookups_total', 'Receipts looked up in the cache', ['result'], (set) => {
      set(cache.figures.hits, 'hit');
      set(cache.figures.misses, 'miss');
    });
    this.#count('drs_receipt_cache_evictions_total', 'Receipts that made room for others', [], (set) => {
      set(cache.figures.evictions);
    });
    this.#gauge('drs_receipt_cache_bytes', 'Estimated size of the receipt cache', () => cache.figures.bytes);
    this.#gauge('drs_receipt_cache_receipts', 'Receipts in the cache', () => cache.figures.receipts);
    this.#count('drs_signatures_total', 'Signatures verified, by where', ['thread'], (set) => {
      set(signatures.figures.inThread, 'main');
      set(signatures.figures.pooled, 'worker');
    });
    this.#count('drs_signature_batches_total', 'Batches handed to workers', [], (set) => {
      set(signatures.figures.batches);
    });
    this.#count('drs_signature_batches_repeated_total', 'Batches whose worker died', [], (set) => {
      set(signatures.figures.repeated);
    });
    this.#gauge(
      'drs_signatures_pending',
      'Signatures waiting for a thread',
      () => signatures.figures.pending,
    );
    if (!Number.isNaN(revocation.storeAgeSecs))
      this.#gauge(
        'drs_revocation_copy_age_seconds',
        'Since the copy of the revocations in Redis was last known to be complete',
        () => revocation.storeAgeSecs,
      );
    this.#gauge('drs_revocation_entries', 'Indices in the local store', () => revocation.entries);
    this.#gauge(
      'drs_status_list_entries',
      'Entries of the status list at hand',
      () => revocation.listEntries,
    );
    // NaN without a list: Prometheus then draws nothing, where 0 would look like a fresh one.
    this.#gauge(
      'drs_status_list_age_seconds',
      'Since the status list was fetched',
      () => revocation.listAgeSecs,
    );
    const capacity = replays?.capacity;
    if (capacity === undefined) return;
    this.#gauge('drs_replay_entries', 'Invocations on record in this process', () => replays?.size ?? 0);
    this.#gauge('drs_replay_capacity', 'The most invocations on record in this process', () => capacity);
  }

  /** Adds the figures that the HTTP side keeps itself. */
  watchHttp(routes: { readonly open: number }, admission: Admission, connections: Connections): void {
    this.#gauge('drs_http_open_requests', 'Requests without an answer yet', () => routes.open);
    this.#gauge('drs_http_connections', 'Connections that are open', () => connections.open);
    this.#gauge('drs_http_max_connections', 'Connections that may be open', () => connections.limit);
    this.#count('drs_http_connections_refused_total', 'Connections closed at once: too many', [], (set) => {
      set(connections.refused);
    });
    this.#gauge('drs_verify_pending', 'Requests waiting for a verdict', () => admission.pending);
    this.#gauge(
      'drs_http_body_bytes',
      'Memory counted for bodies that are read, parsed or waiting',
      () => admission.bodyBytes,
    );
  }

  #observeRevocation(): RevocationObserver {
    const { registry } = this;
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
      help: 'From the moment at which Redis recorded a revocation until it was in force here',
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
        fetches.inc({ outcome });
        fetchSeconds.observe(milliseconds / 1000);
      },
      storeSynced: (milliseconds) => syncSeconds.observe(milliseconds / 1000),
      revocationPropagated: (milliseconds) => propagation.observe(milliseconds / 1000),
      storeLineDamaged: () => damaged.inc(),
    };
  }

  /** A counter whose values are read when Prometheus asks. */
  #count(
    name: string,
    help: string,
    labelNames: string[],
    read: (set: (value: number, ...labels: string[]) => void) => void,
  ): void {
    new Counter({
      name,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        this.reset();
        read((value, ...labels) => this.labels(...labels).inc(value));
      },
    });
  }

  #gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      collect() {
        this.set(read());
      },
    });
  }
}
