import { collectDefaultMetrics, Registry } from 'prom-client';
import type { RevocationObserver } from '../../revocation/index.js';
import type { Engine, EngineObserver } from '../../verifier/engine.js';
import type { Outcome } from '../../verify/judge.js';
import type { Binding } from '../../verify/binding.js';
import { CATALOGUE, type Code } from '../../verify/codes.js';
import type { Admission } from '../load/admission.js';
import type { Configuration } from '../configuration/configuration.js';
import type { ListenerConnections } from '../load/connections.js';
import { GateMetrics } from './gate-metrics.js';
import { noRejections, type Rejection } from './rejections.js';
import { EngineMetrics } from './metrics-engine.js';
import { HttpMetrics } from './metrics-http.js';
import { showInfo } from './metrics-info.js';
import { RevocationMetrics } from './metrics-revocation.js';
import { showCounter, showGauge } from './metrics-show.js';

/** The endpoints, as metrics name them; `other` stands for all unknown paths. */
export const ENDPOINTS = [
  'verify',
  'gate',
  'revoke',
  'healthz',
  'readyz',
  'metrics',
  'jwks',
  'openapi',
  'other',
] as const;

/** A label of {@link ENDPOINTS}. */
export type Endpoint = (typeof ENDPOINTS)[number];

/** The outcomes of calls of `/admin` endpoints. */
export const ADMIN_OUTCOMES = [
  'done',
  'not_configured',
  'unauthorized',
  'rate_limited',
  'malformed',
  'too_large',
  'timeout',
  'overloaded',
  'failed',
] as const;

/** A label of {@link ADMIN_OUTCOMES}. */
export type AdminOutcome = (typeof ADMIN_OUTCOMES)[number];

const BINDINGS = ['match', 'mismatch', 'invalid_body'] as const satisfies readonly Binding[];

/**
 * The metrics of the service. Labels come from fixed sets. What is counted for every request is kept in plain numbers
 * and passed to prom-client at each scrape.
 */
export class Metrics {
  readonly registry = new Registry();
  /** Receives the events of the verifier and its parts. */
  readonly observer: RevocationObserver & EngineObserver;
  readonly gate: GateMetrics;
  readonly http: HttpMetrics<Endpoint>;
  readonly #engine: EngineMetrics;
  readonly #revocation: RevocationMetrics;
  readonly #failures = new Map<Code, number>(CATALOGUE.map(({ code }) => [code, 0]));
  readonly #bindings: Record<Binding, number> = { match: 0, mismatch: 0, invalid_body: 0 };
  readonly #rejections = noRejections();
  readonly #adminCalls = new Map<AdminOutcome, number>(ADMIN_OUTCOMES.map((outcome) => [outcome, 0]));
  #valid = 0;
  #invalid = 0;

  constructor() {
    const { registry } = this;
    collectDefaultMetrics({ register: registry });
    showCounter(registry, 'drs_verify_verifications_total', 'Verdicts', ['result'], (set) => {
      set(this.#valid, 'valid');
      set(this.#invalid, 'invalid');
    });
    showCounter(
      registry,
      'drs_verify_errors_total',
      'Verdicts that were not valid, by code',
      ['block', 'code'],
      (set) => {
        for (const { block, code } of CATALOGUE) set(this.#failures.get(code) ?? 0, block, code);
      },
    );
    showCounter(
      registry,
      'drs_binding_checks_total',
      'Bodies compared with signed arguments',
      ['result'],
      (set) => {
        for (const binding of BINDINGS) set(this.#bindings[binding], binding);
      },
    );
    showCounter(
      registry,
      'drs_verify_rejections_total',
      'Requests to /verify without a verdict',
      ['reason'],
      (set) => {
        for (const [reason, count] of Object.entries(this.#rejections)) set(count, reason);
      },
    );
    showCounter(registry, 'drs_admin_calls_total', 'Calls of /admin endpoints', ['outcome'], (set) => {
      for (const [outcome, count] of this.#adminCalls) set(count, outcome);
    });
    this.http = new HttpMetrics(ENDPOINTS, registry);
    this.#revocation = new RevocationMetrics(registry);
    this.#engine = new EngineMetrics(registry);
    this.observer = { ...this.#revocation.observer, ...this.#engine.observer };
    this.gate = new GateMetrics(registry, (outcome) => this.countOutcome(outcome));
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

  countAdminCall(outcome: AdminOutcome): void {
    this.#adminCalls.set(outcome, (this.#adminCalls.get(outcome) ?? 0) + 1);
  }

  /** Adds the metrics of the decision log. */
  watchDecisions({
    lines,
  }: {
    readonly lines: { readonly written: number; readonly dropped: number };
  }): void {
    showCounter(
      this.registry,
      'drs_decision_log_lines_total',
      'Lines of the decision log',
      ['outcome'],
      (set) => {
        set(lines.written, 'written');
        set(lines.dropped, 'dropped');
      },
    );
  }

  /** Adds the end of the certificate's validity. */
  watchCertificate(certificate: { readonly current: { readonly expiresAt: number } }): void {
    showGauge(
      this.registry,
      'drs_tls_certificate_expiry_timestamp_seconds',
      'When the certificate that is served expires, in Unix seconds',
      () => certificate.current.expiresAt,
    );
  }

  /** Adds the metrics that other parts of the service count themselves. */
  watch(
    engine: Engine,
    configuration: Configuration,
    routes: { readonly open: number },
    admission: Admission,
    connections: ListenerConnections,
  ): void {
    const { statusListBaseUrl } = configuration;
    const isListFetched = statusListBaseUrl === undefined ? null : () => this.#revocation.isListFetched;
    this.#engine.show(engine, this.gate.replays, isListFetched);
    this.http.show(routes, admission, connections);
    showInfo(this.registry, configuration);
  }
}
