import { JSON_TYPE, NDJSON_TYPE, type Answer, type Transport } from './post.js';

/**
 * How many exchanges of a client are under way at most. With one, each call would wait for all of the exchange before it,
 * and a connection that hangs would hold up every call. With more, fewer calls share one.
 */
const MAX_UNDER_WAY = 4;
/** Calls in an exchange. It costs as much as one call, so with 64 it is already a small part of each. */
const MAX_LINES = 64;
/** Characters of an exchange: with three bytes each, far below the service's limit, and their answers below the client's. */
const MAX_CHARACTERS = 256 * 1024;
/** A larger call goes alone: it would gain little, and hold up the others. */
const MAX_LINE_CHARACTERS = 64 * 1024;
/** So long a client asks one by one, after a service did not take several calls. */
const ALONE_MS = 60_000;

/** Of a whole exchange: it has more lines or bytes than this service takes, and nothing in it was judged. */
const TOO_LARGE = 413;

/**
 * The time that a call may take: one timer, and one function that is told. An `AbortSignal` for each call would cost as
 * much as its share of an exchange.
 */
export class Deadline {
  /** Called when the time is over. Owner: whoever the call waits for. */
  onOver: () => void = () => undefined;
  #isOver = false;
  readonly #timer: ReturnType<typeof setTimeout>;

  /** @param ms milliseconds from now */
  constructor(ms: number) {
    // A longer timer would ring at once.
    this.#timer = setTimeout(
      () => {
        this.#isOver = true;
        this.onOver();
      },
      Math.min(ms, MAX_TIMER_MS),
    );
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Stops the timer: the call is answered. */
  clear(): void {
    clearTimeout(this.#timer);
  }
}

/** Why a call was given up. */
export const timeIsOver = (): DOMException => new DOMException('the time is over', 'TimeoutError');

const MAX_TIMER_MS = 2 ** 31 - 1;

/** Sends JSON texts, each with an answer of its own. */
export interface Poster {
  /** @returns the answer; rejects if there is none, or when `deadline` is over */
  post(json: string, deadline: Deadline): Promise<Answer>;
  /** Lets what is under way finish, then closes the connections. */
  close(): Promise<void>;
}

/** Sends each text in an exchange of its own. */
export function postOneByOne(transport: Transport): Poster {
  return {
    post: (json, deadline) => {
      const abort = new AbortController();
      deadline.onOver = () => abort.abort(timeIsOver());
      return transport.post([json], JSON_TYPE, abort.signal);
    },
    close: () => transport.close(),
  };
}

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
export class SharedExchanges implements Poster {
  readonly #transport: Transport;
  readonly #single: Poster;
  readonly #maxUnderWay: number;
  /** In the order in which they came. */
  readonly #waiting: Call[] = [];
  #underWay = 0;
  #willSend = false;
  /** On the clock of `performance.now()`. */
  #aloneUntil = -Infinity;
  #onIdle: () => void = () => undefined;

  constructor(transport: Transport, connections: number) {
    this.#transport = transport;
    this.#single = postOneByOne(transport);
    // With 0, undici opens as many as it needs.
    this.#maxUnderWay = Math.min(MAX_UNDER_WAY, connections || MAX_UNDER_WAY);
  }

  post(json: string, deadline: Deadline): Promise<Answer> {
    if (json.length > MAX_LINE_CHARACTERS || performance.now() < this.#aloneUntil)
      return this.#single.post(json, deadline);
    return new Promise((resolve, reject) => {
      const call = { json, deadline, resolve, reject };
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

  async close(): Promise<void> {
    if (this.#underWay + this.#waiting.length > 0)
      await new Promise<void>((resolve) => (this.#onIdle = resolve));
    await this.#transport.close();
  }

  #send(): void {
    this.#willSend = false;
    while (this.#underWay < this.#maxUnderWay && this.#waiting.length > 0) {
      this.#underWay++;
      void this.#exchange(this.#take()).then(this.#ended);
    }
    if (this.#underWay === 0) this.#onIdle();
  }

  readonly #ended = (): void => {
    this.#underWay--;
    this.#send();
  };

  #take(): readonly Call[] {
    let [lines, characters] = [0, 0];
    for (const { json } of this.#waiting) {
      characters += json.length;
      if (lines === MAX_LINES || characters > MAX_CHARACTERS) break;
      lines++;
    }
    return this.#waiting.splice(0, lines);
  }

  /** Gives each call its answer, or its error. Never rejects. */
  #exchange(calls: readonly Call[]): Promise<void> {
    const [first] = calls;
    if (calls.length > 1 || first === undefined) return this.#share(calls);
    return this.#single.post(first.json, first.deadline).then(first.resolve, first.reject);
  }

  async #share(calls: readonly Call[]): Promise<void> {
    const abort = new AbortController();
    const left = new Set(calls);
    for (const call of calls)
      call.deadline.onOver = () => {
        left.delete(call);
        call.reject(timeIsOver());
        if (left.size === 0) abort.abort(timeIsOver());
      };
    try {
      const lines = calls.map(({ json }) => toLine(json));
      const answer = await this.#transport.post(lines, NDJSON_TYPE, abort.signal);
      if (answer.status === TOO_LARGE) {
        this.#aloneUntil = performance.now() + ALONE_MS;
        for (const call of left) call.resolve(this.#single.post(call.json, call.deadline));
        return;
      }
      const answers = split(answer, calls.length);
      for (const [at, call] of calls.entries()) call.resolve(answers?.[at] ?? NO_VERDICT);
    } catch (error) {
      for (const call of left) call.reject(error);
    }
  }
}

/** In JSON, a line feed can only be white space. A body that was given as text may have some. */
function toLine(json: string): string {
  return json.includes('\n') ? json.replaceAll('\n', ' ') : json;
}

const NO_VERDICT: Answer = { status: 200, retryAfter: null, text: '' };

/**
 * Takes the answer to several calls apart.
 *
 * @returns `null` if it has more or fewer lines than there are calls: it is then unclear which is whose
 */
function split(answer: Answer, count: number): readonly Answer[] | null {
  if (answer.status !== 200) return Array.from({ length: count }, () => answer);
  const lines = answer.text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.length === count ? lines.map(readLine) : null;
}

/** Reads a line of the answer to several calls (docs/spec/http.md, "Batches"). */
function readLine(text: string): Answer {
  const verdict = { status: 200, retryAfter: null, text };
  if (text.startsWith('{"valid":')) return verdict;
  try {
    const { status, retry_after: retryAfter } = JSON.parse(text) as Partial<Record<string, unknown>>;
    if (typeof status === 'number' && status !== 200)
      return { status, retryAfter: typeof retryAfter === 'number' ? `${retryAfter}` : null, text };
  } catch {
    // Whoever reads the verdict says so.
  }
  return verdict;
}
