import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ListeningFacts, Order, Report } from './messages.js';

const ENTRY = fileURLToPath(new URL('./child.js', import.meta.url));

/** How a process ended. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A process did not begin to listen. */
export class StartError extends Error {
  override readonly name = 'StartError';
  readonly code: number;

  /** @param code that the process ended with */
  constructor(message: string, code: number) {
    super(message);
    this.code = code;
  }
}

/** For which a process may take before it listens. */
const START_MS = 60_000;
/** For which a scrape waits for a process; one that stands still must not keep the others from being seen. */
const METRICS_MS = 2_000;

const PING_MS = 5_000;
/** A process that leaves so many in a row unanswered stands still. */
const MAX_UNANSWERED = 4;

/** One process of a service, as its supervisor sees it. */
export class ServiceProcess {
  readonly startedAt = performance.now();
  /** Resolves once it listens. @throws {@link StartError} where it ends before */
  readonly listening: Promise<ListeningFacts>;
  /** Resolves when it has ended. */
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  /** Who waits for its metrics, by the id of the question. */
  readonly #asked = new Map<number, (text: string | null) => void>();
  #lastId = 0;
  #unanswered = 0;

  /**
   * @param onAskAllMetrics called where it wants to show the metrics of all processes
   * @param onStuck called where it does not answer any more; it is killed then
   */
  constructor(
    name: string,
    env: NodeJS.ProcessEnv,
    onAskAllMetrics: () => Promise<string>,
    onStuck: () => void,
  ) {
    this.#child = fork(ENTRY, [name], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => resolve({ code, signal }));
      // Where it could not even be started, there is no exit.
      this.#child.once('error', () => {
        if (this.#child.pid === undefined) resolve({ code: 1, signal: null });
      });
    });
    const listening = new Promise<ListeningFacts>((resolve) => {
      this.#child.on('message', (report: Report) => {
        this.#unanswered = 0;
        if (report.kind === 'listening') resolve(report.facts);
        else if (report.kind === 'metrics') this.#asked.get(report.id)?.(report.text);
        else if (report.kind === 'askAllMetrics')
          void onAskAllMetrics().then(
            (text) => this.#send({ kind: 'allMetrics', text }),
            () => this.#send({ kind: 'allMetrics', text: null }),
          );
      });
    });
    const failed = this.ended.then(({ code, signal }) => {
      throw new StartError(`it ended with ${signal ?? code} before it listened`, code ?? 1);
    });
    const timer = setTimeout(() => this.kill(), START_MS);
    this.listening = Promise.race([listening, failed]).finally(() => clearTimeout(timer));
    // Whoever starts it may be no longer there to hear of it.
    this.listening.then(() => this.#watch(onStuck)).catch(() => undefined);
  }

  /**
   * The kernel deals connections to a process that stands still, too, and nobody answers them. Questions are counted, not
   * time: where it is this process that stood still, the answers are there.
   */
  #watch(onStuck: () => void): void {
    const timer = setInterval(() => {
      if (this.#unanswered < MAX_UNANSWERED) {
        this.#unanswered++;
        this.#send({ kind: 'ping' });
        return;
      }
      clearInterval(timer);
      onStuck();
      this.kill();
    }, PING_MS);
    void this.ended.then(() => clearInterval(timer));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Asks it to stop. */
  stop(): void {
    this.#send({ kind: 'stop' });
  }

  /** Asks it to leave its place to another. */
  retire(): void {
    this.#send({ kind: 'retire' });
  }

  toggleLogLevel(): void {
    this.#send({ kind: 'toggleLogLevel' });
  }

  /** Ends it at once. */
  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Its metrics; `null` where it does not answer in time. */
  async metrics(): Promise<string | null> {
    const id = ++this.#lastId;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<string | null>((resolve) => {
        timer = setTimeout(() => resolve(null), METRICS_MS);
        this.#asked.set(id, resolve);
        void this.ended.then(() => resolve(null));
        this.#send({ kind: 'tellMetrics', id });
      });
    } finally {
      clearTimeout(timer);
      this.#asked.delete(id);
    }
  }

  /** What cannot be sent is for a process that is about to end, which `ended` tells. */
  #send(order: Order): void {
    if (this.#child.connected) this.#child.send(order, () => undefined);
  }
}
