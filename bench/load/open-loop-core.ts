import { newLatencies, recordLatency } from '../measure/statistics.js';

/** How requests arrive: at equal distances, or independently of each other like those of many clients. */
export type Arrivals = 'even' | 'poisson';

/** Numbers between 0 and 1, the same for the same seed (Park and Miller's generator). */
export function uniform(seed: number): () => number {
  let state = (Math.abs(Math.trunc(seed)) % 2_147_483_646) + 1;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/**
 * The time at which each request should leave, in µs after the start, in ascending order.
 *
 * @param rate mean number of requests per second
 * @param count number of requests; with `poisson` the last one leaves after about `count / rate` seconds
 */
export function intendedTimes(arrivals: Arrivals, rate: number, count: number, seed = 1): Float64Array {
  const times = new Float64Array(count);
  const random = uniform(seed);
  let at = 0;
  for (let n = 0; n < count; n++) {
    times[n] = arrivals === 'even' ? (n / rate) * 1e6 : at;
    // The gaps of a Poisson process are exponentially distributed.
    at += (-Math.log(random()) / rate) * 1e6;
  }
  return times;
}

/** A request as the generator sends it, and what its answer must be. */
export interface Prepared {
  readonly bytes: Buffer;
  /** The exact answer; empty if only the marker is known. */
  readonly answer: string;
}

/** What the core needs of a connection, which has at most one request at a time. */
export interface Line {
  send(bytes: Buffer, underway: Underway): void;
  close(): void;
}

/** A request that was sent and has no answer yet. */
export interface Underway {
  /** µs after the start. */
  readonly intendedAt: number;
  /** Whether it only warms up and does not count. */
  readonly sentAt: number;
  readonly isWarmUp: boolean;
  readonly answer: string;
  readonly line: Line;
  isOver: boolean;
}

/** What a loop measured. */
export type Tally = OpenLoopCore['tally'];

export interface OpenLoopRules {
  /**
   * An open loop: the intended send times of all requests, in µs after the start, ascending. A closed loop: how many
   * requests it sends at most, each as soon as a connection is free, and when it stops.
   */
  readonly intended: Float64Array | { readonly requests: number; readonly untilMicros: number };
  /** Requests whose intended send time is earlier do not count, so that the generator's own code is compiled. */
  readonly warmUpSeconds: number;
  /** Milliseconds after which a client gives up; `null`: never. */
  readonly patienceMs: number | null;
  /** Whether it then closes its connection, and comes back on a new one; else the connection is free when the answer has come. */
  readonly closesGivenUp: boolean;
  /** Whether 503 and 429 count as refusals instead of wrong answers. */
  readonly mayRefuse: boolean;
  /** A text that each answer must contain if the whole answer is not known; `Name: value` stands for a header. */
  readonly marker: string;
}

/** What the core uses. Tests pass their own clock. */
export interface OpenLoopDeps {
  readonly now: () => number;
  readonly next: () => Prepared;
  /** Called for each connection that can no longer be used. */
  readonly replace: () => void;
}

/**
 * The bookkeeping of a load generator, without sockets, clocks and threads: which request is due, on which connection it
 * is sent, and how its answer counts.
 */
export class OpenLoopCore {
  /** Without the warm-up. Latencies count from the intended send time. */
  readonly tally = {
    latencies: newLatencies(),
    /** From when a request was sent until its answer: without the time that it waited for a connection. */
    serviceTimes: newLatencies(),
    /** How late the generator was: the time from when a request was due and a connection free. */
    sendDelays: newLatencies(),
    /** How long due requests waited for a free connection. */
    connectionWaits: newLatencies(),
    /** When the last answer came, in µs after the start. */
    lastAnswerAt: 0,
    ...{ answered: 0, warmedUp: 0 },
    /** Answered with 503 or 429, if that is expected. */
    refused: 0,
    /** Requests without an answer within the client's patience, whether sent or not. */
    timedOut: 0,
    /** Number of wrong answers, broken connections and requests without an answer. */
    wrong: 0,
    firstWrong: '',
  };
  readonly #rules: OpenLoopRules;
  readonly #deps: OpenLoopDeps;
  /** Free connections. They are used in turn, because a service closes a connection that is idle for some seconds. */
  readonly #free: { line: Line; since: number }[] = [];
  /** Requests without an answer, in the order of sending, so the first one times out first. */
  #underway: Underway[] = [];
  #oldest = 0;
  #next = 0;
  #pending = 0;

  constructor(rules: OpenLoopRules, deps: OpenLoopDeps) {
    this.#rules = rules;
    this.#deps = deps;
  }

  /** Whether every request has been sent, and is answered or timed out. */
  get isDone(): boolean {
    return !this.hasMore && this.#pending === 0;
  }

  get hasMore(): boolean {
    const { intended } = this.#rules;
    if (intended instanceof Float64Array) return this.#next < intended.length;
    return this.#next < intended.requests && this.#deps.now() < intended.untilMicros;
  }

  add(line: Line): void {
    this.#free.push({ line, since: this.#deps.now() });
  }

  /** Sends the requests that are due, and times out those that have waited too long. */
  tick(): void {
    this.#giveUp();
    const { intended, warmUpSeconds } = this.#rules;
    while (this.hasMore) {
      const now = this.#deps.now();
      const intendedAt = intended instanceof Float64Array ? (intended[this.#next] ?? 0) : now;
      if (intendedAt > now) return;
      const free = this.#free.shift();
      if (free === undefined) return;
      const { bytes, answer } = this.#deps.next();
      this.#next++;
      this.#pending++;
      const isWarmUp = intendedAt < warmUpSeconds * 1e6;
      if (!isWarmUp) {
        const couldLeaveAt = Math.max(intendedAt, free.since);
        recordLatency(this.tally.sendDelays, now - couldLeaveAt);
        recordLatency(this.tally.connectionWaits, couldLeaveAt - intendedAt);
      }
      const { line } = free;
      const underway: Underway = { intendedAt, sentAt: now, isWarmUp, answer, line, isOver: false };
      if (this.#rules.patienceMs !== null) this.#underway.push(underway);
      line.send(bytes, underway);
    }
  }

  answered(underway: Underway, status: number, body: string, head = ''): void {
    if (underway.isOver) {
      if (!this.#rules.closesGivenUp) this.add(underway.line);
      return;
    }
    this.#close(underway);
    this.add(underway.line);
    this.tally.lastAnswerAt = this.#deps.now();
    if (this.#rules.mayRefuse && (status === 503 || status === 429)) {
      if (!underway.isWarmUp) this.tally.refused++;
      return;
    }
    const { answer } = underway;
    const isRight = status === 200 && (answer === '' ? this.#isMarked(head, body) : body === answer);
    if (!isRight) this.#blame(`${status} ${body.slice(0, 300)}`);
    if (underway.isWarmUp) {
      this.tally.warmedUp++;
      return;
    }
    this.tally.answered++;
    recordLatency(this.tally.latencies, this.tally.lastAnswerAt - underway.intendedAt);
    recordLatency(this.tally.serviceTimes, this.tally.lastAnswerAt - underway.sentAt);
  }

  broken(underway: Underway | null, reason: string): void {
    if (underway !== null) {
      if (underway.isOver) return;
      this.#close(underway);
    }
    this.#blame(reason);
    this.#deps.replace();
  }

  /** Ends the loop. Requests without an answer count as wrong. */
  end(): void {
    const { intended } = this.#rules;
    const unsent = intended instanceof Float64Array ? intended.length - this.#next : 0;
    for (let left = this.#pending + unsent; left > 0; left--) this.#blame('no answer within the time');
    this.#next = Infinity;
    this.#pending = 0;
  }

  #isMarked(head: string, body: string): boolean {
    const { marker } = this.#rules;
    return body.includes(marker) || `${head}\r\n`.toLowerCase().includes(`\r\n${marker.toLowerCase()}\r\n`);
  }

  #close(underway: Underway): void {
    underway.isOver = true;
    this.#pending--;
  }

  #giveUp(): void {
    const { patienceMs, closesGivenUp, intended } = this.#rules;
    if (patienceMs === null) return;
    const limit = this.#deps.now() - patienceMs * 1000;
    for (; this.#oldest < this.#underway.length; this.#oldest++) {
      const underway = this.#underway[this.#oldest] as Underway;
      if (underway.isOver) continue;
      if (underway.intendedAt > limit) break;
      this.#close(underway);
      this.#timedOut(underway.intendedAt);
      if (!closesGivenUp) continue;
      underway.line.close();
      this.#deps.replace();
    }
    if (this.#oldest > 1024 && 2 * this.#oldest > this.#underway.length) {
      this.#underway = this.#underway.slice(this.#oldest);
      this.#oldest = 0;
    }
    if (!(intended instanceof Float64Array)) return;
    // These found no free connection in time.
    while (this.#next < intended.length && (intended[this.#next] ?? 0) <= limit) {
      this.#timedOut(intended[this.#next] ?? 0);
      this.#next++;
    }
  }

  #timedOut(intendedAt: number): void {
    if (intendedAt >= this.#rules.warmUpSeconds * 1e6) this.tally.timedOut++;
  }

  #blame(reason: string): void {
    this.tally.wrong++;
    this.tally.firstWrong ||= reason;
  }
}
