import { EXIT, type ExitCode } from './command-error.js';

const INTERVAL_MS = 250;

/** Shows how far a stream of verdicts is, on standard error, if that alone is a terminal. */
export class Progress {
  readonly #stream: NodeJS.WriteStream | null;
  readonly #counts = { [EXIT.ok]: 0, [EXIT.no]: 0, [EXIT.failed]: 0 };
  readonly #start = performance.now();
  #shownAt = this.#start;

  /** @param outcomes where the verdicts go: on a terminal, they show themselves how far it is */
  constructor(stream: NodeJS.WriteStream = process.stderr, outcomes: NodeJS.WriteStream = process.stdout) {
    this.#stream = stream.isTTY && !outcomes.isTTY ? stream : null;
  }

  /** Counts a verdict. */
  count(outcome: ExitCode): void {
    this.#counts[outcome]++;
    if (this.#stream === null) return;
    const now = performance.now();
    if (now - this.#shownAt < INTERVAL_MS) return;
    this.#shownAt = now;
    this.#stream.write(`\r\u001b[K${this.#text(now)}`);
  }

  /** Shows all, and goes to the next line. */
  end(): void {
    this.#stream?.write(`\r\u001b[K${this.#text(performance.now())}\n`);
  }

  #text(now: number): string {
    const { [EXIT.ok]: yes, [EXIT.no]: no, [EXIT.failed]: failed } = this.#counts;
    const all = yes + no + failed;
    const rate = Math.round(all / Math.max(0.001, (now - this.#start) / 1000));
    const unknown = failed === 0 ? '' : `, ${failed} without a verdict`;
    return `${all} lines: ${yes} valid, ${no} not valid${unknown}; ${rate} a second`;
  }
}
