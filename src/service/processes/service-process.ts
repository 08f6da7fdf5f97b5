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

  /** @param code the exit code of the process */
  constructor(message: string, code: number) {
    super(message);
    this.code = code;
  }
}

/** A process must listen within this time. */
const START_MS = 60_000;
/** How long a scrape waits for a process. One that does not answer must not block the metrics of the others. */
const METRICS_MS = 2_000;

const PING_MS = 5_000;
/** A process that leaves this many pings in a row unanswered is stuck. */
const MAX_UNANSWERED = 4;

/** One process of a service, as its supervisor sees it. */
export class ServiceProcess {
  readonly startedAt = performance.now();
  /** Resolves when the process listens; rejects with {@link StartError} if it ends before. */
  readonly listening: Promise<ListeningFacts>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  /** The callers that wait for its metrics, by the id of the question. */
  readonly #asked = new Map<number, (text: string | null) => void>();
  #lastId = 0;
  #unanswered = 0;

  /**
   * @param onAskAllMetrics called when the process asks for the metrics of all processes
   * @param onStuck called when the process does not answer any more, before it is killed
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
      // A process that could not be started emits no exit event.
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
    // The caller may not wait for `listening`. Its rejection must not become an unhandled one.
    this.listening.then(() => this.#watch(onStuck)).catch(() => undefined);
  }

  /**
   * Kills the process if it is stuck: the kernel would go on giving it connections, which nobody answers. Unanswered
   * pings are counted instead of time: if the supervisor itself was suspended, the answers have arrived meanwhile.
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

  /** Asks it to end, since another process has taken its place. */
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

  /** Its metrics; `null` if it does not answer in time. */
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

  /** Errors are ignored: a process that cannot receive is about to end, and `ended` reports that. */
  #send(order: Order): void {
    if (this.#child.connected) this.#child.send(order, () => undefined);
  }
}
