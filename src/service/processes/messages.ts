/** What is logged about a process that listens. */
export interface ListeningFacts {
  readonly url: string;
  readonly [fact: string]: unknown;
}

/** A message from the supervisor to a process. */
export type Order =
  /** Stop: `/readyz` fails for a while, then open requests are answered. */
  | { readonly kind: 'stop' }
  /** Another process has taken its place: leave the port, serve the open connections, end. */
  | { readonly kind: 'retire' }
  | { readonly kind: 'toggleLogLevel' }
  /** Answer with `pong`, to show that the event loop still runs. */
  | { readonly kind: 'ping' }
  /** Answer with the metrics of this process. */
  | { readonly kind: 'tellMetrics'; readonly id: number }
  /** The metrics of all processes, which this one has asked for; `null` if they could not be gathered. */
  | { readonly kind: 'allMetrics'; readonly text: string | null };

/** A message from a process to its supervisor. */
export type Report =
  | { readonly kind: 'listening'; readonly facts: ListeningFacts }
  | { readonly kind: 'metrics'; readonly id: number; readonly text: string }
  | { readonly kind: 'askAllMetrics' }
  | { readonly kind: 'pong' };
