/** What the log says about a process that listens. */
export interface ListeningFacts {
  readonly url: string;
  readonly [fact: string]: unknown;
}

/** What a supervisor tells a process. */
export type Order =
  /** Stop: `/readyz` fails for a while, then what is in flight is answered. */
  | { readonly kind: 'stop' }
  /** Another process has taken its place: leave the port, serve what is connected, end. */
  | { readonly kind: 'retire' }
  | { readonly kind: 'toggleLogLevel' }
  /** Say that it still works. */
  | { readonly kind: 'ping' }
  /** Tell its metrics. */
  | { readonly kind: 'tellMetrics'; readonly id: number }
  /** The metrics of all, which it has asked for; `null` where there are none. */
  | { readonly kind: 'allMetrics'; readonly text: string | null };

/** What a process tells its supervisor. */
export type Report =
  | { readonly kind: 'listening'; readonly facts: ListeningFacts }
  | { readonly kind: 'metrics'; readonly id: number; readonly text: string }
  | { readonly kind: 'askAllMetrics' }
  | { readonly kind: 'pong' };
