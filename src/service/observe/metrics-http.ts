import type { Registry } from 'prom-client';
import type { Admission } from '../load/admission.js';
import type { Connections, ListenerConnections } from '../load/connections.js';
import { Distribution, SECONDS, showHistogram } from './distribution.js';
import { showCounter, showGauge, showGauges } from './metrics-show.js';

interface Requests {
  readonly seconds: Distribution;
  /** By status. */
  readonly answers: Map<number, number>;
  aborted: number;
}

/** The metrics of HTTP requests and connections. */
export class HttpMetrics<Endpoint extends string> {
  readonly #registry: Registry;
  readonly #requests: Readonly<Record<Endpoint, Requests>>;

  constructor(endpoints: readonly Endpoint[], registry: Registry) {
    this.#registry = registry;
    const requests = endpoints.map((endpoint): [Endpoint, Requests] => [
      endpoint,
      { seconds: new Distribution(SECONDS), answers: new Map(), aborted: 0 },
    ]);
    this.#requests = Object.fromEntries(requests) as Record<Endpoint, Requests>;
    showHistogram(
      registry,
      'drs_http_request_duration_seconds',
      'Time from the request line to the answer',
      requests.map(([endpoint, { seconds }]) => ({ labels: { endpoint }, distribution: seconds })),
    );
    showCounter(
      registry,
      'drs_http_requests_total',
      'Requests that were answered',
      ['endpoint', 'status'],
      (set) => {
        for (const [endpoint, { answers }] of requests)
          for (const [status, count] of answers) set(count, endpoint, String(status));
      },
    );
    showCounter(
      registry,
      'drs_http_requests_aborted_total',
      'Requests whose client went away before the answer',
      ['endpoint'],
      (set) => {
        for (const [endpoint, { aborted }] of requests) set(aborted, endpoint);
      },
    );
  }

  /**
   * Counts a finished request.
   *
   * @param status status of the answer; 0 if the client disconnected first. Only the service's own answers are counted,
   *   so the set of statuses is fixed.
   */
  countRequest(endpoint: Endpoint, status: number, milliseconds: number): void {
    const requests = this.#requests[endpoint];
    requests.seconds.observe(milliseconds / 1000);
    if (status === 0) requests.aborted++;
    else requests.answers.set(status, (requests.answers.get(status) ?? 0) + 1);
  }

  show(routes: { readonly open: number }, admission: Admission, connections: ListenerConnections): void {
    const registry = this.#registry;
    showGauge(registry, 'drs_http_open_requests', 'Requests without an answer yet', () => routes.open);
    const listeners = Object.entries(connections) as [string, Connections | null][];
    const ofEach =
      (read: (one: Connections) => number) => (set: (value: number, listener: string) => void) => {
        for (const [listener, one] of listeners) if (one !== null) set(read(one), listener);
      };
    const labels = ['listener'];
    showGauges(
      registry,
      'drs_http_connections',
      'Connections that are open',
      labels,
      ofEach(({ open }) => open),
    );
    showGauges(
      registry,
      'drs_http_max_connections',
      'Connections that may be open',
      labels,
      ofEach(({ limit }) => limit),
    );
    showCounter(
      registry,
      'drs_http_connections_total',
      'Connections that have come',
      labels,
      ofEach(({ accepted }) => accepted),
    );
    showCounter(
      registry,
      'drs_http_connections_refused_total',
      'Connections closed at once: too many, or too many of one client',
      labels,
      ofEach(({ refused }) => refused),
    );
    showGauge(registry, 'drs_verify_pending', 'Requests waiting for a verdict', () => admission.pending);
    showGauge(
      registry,
      'drs_http_body_bytes',
      'Memory counted for bodies that are read, parsed or waiting',
      () => admission.memory.bytes,
    );
  }
}
