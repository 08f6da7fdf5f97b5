import type { Histogram } from 'hdr-histogram-js';
import { newLatencies } from '../measure/latencies.js';
import type { Exchange } from '../workload/chains.js';

/** What the core needs of a connection, which has at most one request at a time. */
export interface Line {
  send(body: string, underway: Underway): void;
  close(): void;
}

/** A request that was sent and has no answer yet. */
export interface Underway {
  /** µs after the start. */
  readonly intendedAt: number;
  /** Whether it only warms up and does not count. */
  readonly isWarmUp: boolean;
  readonly answer: string;
  readonly line: Line;
  isOver: boolean;
}

/**
 * A request that shows whether a service is back to normal: its intended send time (µs after the start of the
 * recovery), and how long its answer took since then (µs; `null` if it was refused or timed out).
 */
export type Recovered = readonly [intendedAt: number, micros: number | null];

/** What an open loop measured, without the warm-up. Latencies count from the intended send time. */
export interface Tally {
  /** Latencies of correct answers. */
  readonly latencies: Histogram;
  /** Latencies of refusals (503 and 429), if these are expected. */
  readonly refusals: Histogram;
  /** The outcome of each request whose intended send time is after {@link OpenLoopRules.recoveryFromMicros}. */
  readonly recovery: Recovered[];
  /** How late the generator was: the time from when a request was due and a connection free. */
  readonly sendDelays: Histogram;
  /** How long due requests waited for a free connection. */
  readonly connectionWaits: Histogram;
  /** When the last answer came, in µs after the start. */
  lastAnswerAt: number;
  answered: number;
  refused: number;
  /** Requests without an answer within the client's patience, whether sent or not. */
  timedOut: number;
  wrong: number;
  firstWrong: string;
}

/** How an open loop is run. */
export interface OpenLoopRules {
  /** The intended send times of all requests, in µs after the start, ascending. */
  readonly intended: Float64Array;
  /** Requests with an earlier intended send time do not count. */
  readonly warmUpMicros: number;
  /** A client gives up this long after the intended send time; `null`: never. */
  readonly patienceMicros: number | null;
  /** Whether 503 and 429 count as refusals instead of wrong answers. */
  readonly mayRefuse: boolean;
  /** Requests with a later intended send time count only in {@link Tally.recovery}. */
  readonly recoveryFromMicros: number;
  /** A text that each answer must contain if the whole answer is not known. */
  readonly marker: string;
}

/** What the core uses. Tests pass their own clock. */
export interface OpenLoopDeps {
  /** µs since the start. */
  readonly now: () => number;
  readonly next: () => Exchange;
  /** Called for each connection that can no longer be used. */
  readonly replace: () => void;
}

/**
 * The bookkeeping of an open loop, without sockets, clocks and threads: which request is due, on which connection it is
 * sent, and how its answer counts.
 */
export class OpenLoopCore {
  readonly tally: Tally = {
    ...{ latencies: newLatencies(), refusals: newLatencies() },
    recovery: [],
    ...{ sendDelays: newLatencies(), connectionWaits: newLatencies() },
    ...{ lastAnswerAt: 0, answered: 0, refused: 0, timedOut: 0, wrong: 0, firstWrong: '' },
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
    return this.#next >= this.#rules.intended.length && this.#pending === 0;
  }

  /** Whether a request is still to be sent. */
  get hasMore(): boolean {
    return this.#next < this.#rules.intended.length;
  }

  /** Adds a connection that is ready. */
  add(line: Line): void {
    this.#free.push({ line, since: this.#deps.now() });
  }

  /** Sends the requests that are due, and times out those that have waited too long. */
  tick(): void {
    this.#giveUp();
    const { intended, warmUpMicros } = this.#rules;
    while (this.#next < intended.length) {
      const intendedAt = intended[this.#next] ?? 0;
      const now = this.#deps.now();
      if (intendedAt > now) return;
      const free = this.#free.shift();
      if (free === undefined) return;
      const { body, answer } = this.#deps.next();
      this.#next++;
      this.#pending++;
      const isWarmUp = intendedAt < warmUpMicros;
      if (!isWarmUp && intendedAt < this.#rules.recoveryFromMicros) {
        const couldLeaveAt = Math.max(intendedAt, free.since);
        record(this.tally.sendDelays, now - couldLeaveAt);
        record(this.tally.connectionWaits, couldLeaveAt - intendedAt);
      }
      const underway: Underway = {
        ...{ intendedAt, isWarmUp, answer, line: free.line },
        isOver: false,
      };
      if (this.#rules.patienceMicros !== null) this.#underway.push(underway);
      free.line.send(body, underway);
    }
  }

  /** An answer came. */
  answered(underway: Underway, status: number, body: string): void {
    if (underway.isOver) return;
    this.#close(underway);
    this.add(underway.line);
    this.tally.lastAnswerAt = this.#deps.now();
    const latency = this.tally.lastAnswerAt - underway.intendedAt;
    if (this.#rules.mayRefuse && (status === 503 || status === 429)) {
      if (underway.isWarmUp || this.#isRecovery(underway.intendedAt, null)) return;
      this.tally.refused++;
      record(this.tally.refusals, latency);
      return;
    }
    const { answer } = underway;
    const isRight = status === 200 && (answer === '' ? body.includes(this.#rules.marker) : body === answer);
    if (!isRight) this.#blame(`${status} ${body.slice(0, 300)}`);
    if (underway.isWarmUp || this.#isRecovery(underway.intendedAt, latency)) return;
    this.tally.answered++;
    record(this.tally.latencies, latency);
  }

  /** A connection broke, with or without an open request. */
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
    const left = this.#pending + this.#rules.intended.length - this.#next;
    for (let at = 0; at < left; at++) this.#blame('no answer within the time');
    this.#next = this.#rules.intended.length;
    this.#pending = 0;
  }

  #close(underway: Underway): void {
    underway.isOver = true;
    this.#pending--;
  }

  #giveUp(): void {
    const { patienceMicros, intended } = this.#rules;
    if (patienceMicros === null) return;
    const limit = this.#deps.now() - patienceMicros;
    for (; this.#oldest < this.#underway.length; this.#oldest++) {
      const underway = this.#underway[this.#oldest] as Underway;
      if (underway.isOver) continue;
      if (underway.intendedAt > limit) break;
      this.#close(underway);
      this.#timedOut(underway.intendedAt);
      underway.line.close();
      this.#deps.replace();
    }
    if (this.#oldest > 1024 && 2 * this.#oldest > this.#underway.length) {
      this.#underway = this.#underway.slice(this.#oldest);
      this.#oldest = 0;
    }
    // These found no free connection in time.
    while (this.#next < intended.length && (intended[this.#next] ?? 0) <= limit) {
      this.#timedOut(intended[this.#next] ?? 0);
      this.#next++;
    }
  }

  #timedOut(intendedAt: number): void {
    if (intendedAt < this.#rules.warmUpMicros || this.#isRecovery(intendedAt, null)) return;
    this.tally.timedOut++;
  }

  /** Records the outcome of a request, if it belongs to the recovery. @returns whether it does */
  #isRecovery(intendedAt: number, micros: number | null): boolean {
    const from = this.#rules.recoveryFromMicros;
    if (intendedAt < from) return false;
    this.tally.recovery.push([Math.round(intendedAt - from), micros === null ? null : Math.round(micros)]);
    return true;
  }

  #blame(reason: string): void {
    this.tally.wrong++;
    this.tally.firstWrong ||= reason;
  }
}

const record = (histogram: Histogram, micros: number) =>
  histogram.recordValue(Math.max(1, Math.round(micros)));
