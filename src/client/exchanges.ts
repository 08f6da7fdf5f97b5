import type { Answer, Transport } from './transport-web.js';

/** How many exchanges are under way at most. With one, a connection that hangs would hold up every call; with more, fewer share one. */
const MAX_UNDER_WAY = 4;
/** Calls in an exchange. It costs as much as one call, so with 64 it is already a small part of each. */
const MAX_LINES = 64;
/** Characters of an exchange: with three bytes each, far below the service's limit, and their answers below the client's. */
const MAX_CHARACTERS = 256 * 1024;

/** A longer timer would ring at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The time that a call may take, with one timer: an `AbortSignal` a call would cost as much as its share of an exchange. */
export class Deadline {
  /** Called when the time is over. Owner: whoever the call waits for. */
  onOver: () => void = () => undefined;
  /** Only the timer changes it. */
  isOver = false;
  readonly #timer: ReturnType<typeof setTimeout>;

  constructor(ms: number) {
    const end = () => {
      this.isOver = true;
      this.onOver();
    };
    this.#timer = setTimeout(end, Math.min(ms, MAX_TIMER_MS));
  }

  /** Stops the timer: the call is answered. */
  clear(): void {
    clearTimeout(this.#timer);
  }
}

export const timeIsOver = (): DOMException => new DOMException('the time is over', 'TimeoutError');

interface Call {
  readonly json: string;
  readonly deadline: Deadline;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends calls together, as databases commit in groups: a call goes out at once, unless {@link MAX_UNDER_WAY} exchanges are
 * under way; whatever comes meanwhile goes together into the next ones. No call waits for a timer.
 */
export class Exchanges {
  readonly #transport: Transport;
  readonly #maxUnderWay: number;
  readonly #waiting: Call[] = [];
  #underWay = 0;
  #willSend = false;
  #isShared: boolean;
  #onIdle: () => void = () => undefined;

  /** @param isShared whether calls may go together */
  constructor(transport: Transport, connections: number, isShared: boolean) {
    this.#transport = transport;
    // With 0, undici opens as many as it needs.
    this.#maxUnderWay = Math.min(MAX_UNDER_WAY, connections || MAX_UNDER_WAY);
    this.#isShared = isShared;
  }

  /**
   * Sends a JSON text.
   *
   * @returns the answer; rejects if there is none, or when `deadline` is over
   */
  post(json: string, deadline: Deadline): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const call = { json, deadline, resolve, reject };
      if (!this.#isShared) {
        void this.#exchange([call]);
        return;
      }
      deadline.onOver = () => {
        this.#waiting.splice(this.#waiting.indexOf(call), 1);
        reject(timeIsOver());
      };
      this.#waiting.push(call);
      if (this.#willSend || this.#underWay >= this.#maxUnderWay) return;
      this.#willSend = true;
      // Not now: what is asked in the same turn (`Promise.all`) goes together.
      queueMicrotask(() => this.#send());
    });
  }

  /** Lets what is under way finish, then closes the connections. */
  async close(): Promise<void> {
    if (this.#underWay + this.#waiting.length > 0)
      await new Promise<void>((resolve) => (this.#onIdle = resolve));
    await this.#transport.close();
  }

  #send(): void {
    this.#willSend = false;
    while (this.#underWay < this.#maxUnderWay && this.#waiting.length > 0) {
      let [lines, characters] = [0, 0];
      for (const { json } of this.#waiting) {
        characters += json.length;
        if (lines === MAX_LINES || (lines > 0 && characters > MAX_CHARACTERS)) break;
        lines++;
      }
      this.#underWay++;
      void this.#exchange(this.#waiting.splice(0, lines)).then(() => {
        this.#underWay--;
        this.#send();
      });
    }
    if (this.#underWay === 0) this.#onIdle();
  }

  /** Gives each call its answer, or its error. Never rejects. */
  async #exchange(calls: readonly Call[]): Promise<void> {
    const abort = new AbortController();
    const left = new Set(calls);
    for (const call of calls)
      call.deadline.onOver = () => {
        left.delete(call);
        call.reject(timeIsOver());
        if (left.size === 0) abort.abort(timeIsOver());
      };
    const isShared = calls.length > 1;
    // In JSON, a line feed can only be white space. A body that was given as text may have some.
    const lines = calls.map(({ json }) => (isShared ? json.replaceAll('\n', ' ') : json));
    const type = isShared ? 'application/x-ndjson' : 'application/json';
    try {
      const answer = await this.#transport.post(lines.join('\n'), type, abort.signal);
      if (isShared && answer.status === 413) {
        // The service takes fewer lines or bytes, and judged none of them. From now on it is asked one by one.
        this.#isShared = false;
        for (const call of left) call.resolve(this.post(call.json, call.deadline));
        return;
      }
      const answers = isShared && answer.status === 200 ? readLines(answer.text) : calls.map(() => answer);
      // With more or fewer lines than calls, it is unclear which is whose.
      const isWhole = answers.length === calls.length;
      for (const [at, call] of calls.entries()) call.resolve((isWhole && answers[at]) || NO_VERDICT);
    } catch (error) {
      for (const call of left) call.reject(error);
    }
  }
}

const NO_VERDICT: Answer = { status: 200, retryAfter: null, text: '' };

/** Takes the answer to several calls apart (docs/spec/http.md, "Batches"). */
function readLines(answer: string): readonly Answer[] {
  const lines = answer.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((text) => {
    if (text.startsWith('{"valid":')) return { ...NO_VERDICT, text };
    try {
      const { status, retry_after: after } = JSON.parse(text) as Partial<Record<string, unknown>>;
      const retryAfter = typeof after === 'number' ? `${after}` : null;
      if (typeof status === 'number') return { status, retryAfter, text };
    } catch {
      // Whoever reads the verdict says so.
    }
    return { ...NO_VERDICT, text };
  });
}
