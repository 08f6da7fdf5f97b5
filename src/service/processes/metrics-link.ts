import type { Order, Report } from './messages.js';

/** Longer than the supervisor waits for a process that does not answer. */
const ANSWER_MS = 5_000;

/** Exchanges metrics with the supervisor: sends those of this process, and asks for those of all processes. */
export class MetricsLink {
  readonly #tell: (report: Report) => void;
  #scrape: (() => Promise<string>) | null = null;
  #asking: Promise<string> | null = null;
  #answer: ((text: string | null) => void) | null = null;

  constructor(tell: (report: Report) => void) {
    this.#tell = tell;
  }

  /** @param scrape returns the metrics of this process */
  serve(scrape: () => Promise<string>): void {
    this.#scrape = scrape;
  }

  /** The metrics of all processes. Calls share one answer while it is on its way. */
  askAll(): Promise<string> {
    this.#asking ??= this.#ask().finally(() => (this.#asking = this.#answer = null));
    return this.#asking;
  }

  take(order: Order): void {
    if (order.kind === 'allMetrics') this.#answer?.(order.text);
    else if (order.kind === 'tellMetrics')
      this.#scrape?.().then(
        (text) => this.#tell({ kind: 'metrics', id: order.id, text }),
        // The supervisor leaves this process out.
        () => undefined,
      );
  }

  async #ask(): Promise<string> {
    let timer: NodeJS.Timeout | undefined;
    const text = await new Promise<string | null>((resolve) => {
      this.#answer = resolve;
      timer = setTimeout(() => resolve(null), ANSWER_MS);
      this.#tell({ kind: 'askAllMetrics' });
    });
    clearTimeout(timer);
    if (text === null) throw new Error('the supervisor did not gather the metrics of all processes');
    return text;
  }
}
