import type { Histogram } from 'hdr-histogram-js';
import { newLatencies } from '../measure/latencies.js';
import type { Exchange } from '../workload/chains.js';

/** What the core needs of a connection: it has one request under way at most. */
export interface Line {
  send(body: string, underway: Underway): void;
  close(): void;
}

/** A request that was sent and is not answered yet. */
export interface Underway {
  /** µs after the start. */
  readonly intendedAt: number;
  /** Whether it is one of those that only warm up. */
  readonly isWarmUp: boolean;
  /** When it left, in µs after the start. */
  readonly sentAt: number;
  readonly answer: string;
  readonly line: Line;
  isOver: boolean;
}

/**
 * A request sent to see whether a service is back to normal: when it was meant to leave and how long its answer took
 * since then, both in µs; `null` if it was refused or timed out. The first counts from the start of the recovery.
 */
export type Recovered = readonly [intendedAt: number, micros: number | null];

/** What an open loop saw, warm-up apart. Latencies count from the intended send time. */
export interface Tally {
  /** Of right answers. */
  readonly latencies: Histogram;
  /** Of refusals (503 and 429), where these are expected. */
  readonly refusals: Histogram;
  /** The same since the request left: without what the generator was late by. */
  readonly refusalsSinceSent: Histogram;
  /** What became of each request that was meant to leave after {@link OpenLoopRules.recoveryFromMicros}. */
  readonly recovery: Recovered[];
  /** How late the generator itself was: since the request was due and a connection free. */
  readonly sendDelays: Histogram;
  /** How long requests that were due waited for a free connection. */
  readonly connectionWaits: Histogram;
  /** When the last answer came, in µs after the start. */
  lastAnswerAt: number;
  answered: number;
  refused: number;
  /** Not answered within the client's patience, sent or not. */
  timedOut: number;
  wrong: number;
  firstWrong: string;
}

/** How an open loop is run. */
export interface OpenLoopRules {
  /** µs after the start at which each request is meant to leave, ascending. */
  readonly intended: Float64Array;
  /** Requests that are meant to leave before this do not count. */
  readonly warmUpMicros: number;
  /** A client gives up so long after the intended send time; `null`: it never does. */
  readonly patienceMicros: number | null;
  /** Whether 503 and 429 are counted as refusals, not as wrong answers. */
  readonly mayRefuse: boolean;
  /** Requests that are meant to leave later than this count in {@link Tally.recovery} only. */
  readonly recoveryFromMicros: number;
  /** Must stand in an answer whose text is not known. */
  readonly marker: string;
}

/** What the core is connected to; a test gives it a clock of its own. */
export interface OpenLoopDeps {
  /** µs since the start. */
  readonly now: () => number;
  readonly next: () => Exchange;
  /** Called for each connection that is of no more use. */
  readonly replace: () => void;
}

/**
 * The bookkeeping of an open loop, without sockets, clocks and threads: which request is due, on which connection it
 * leaves, and what its answer counts as.
 */
export class OpenLoopCore {
  readonly tally: Tally = {
    ...{ latencies: newLatencies(), refusals: newLatencies() },
    ...{ refusalsSinceSent: newLatencies(), recovery: [] },
    ...{ sendDelays: newLatencies(), connectionWaits: newLatencies() },
    ...{ lastAnswerAt: 0, answered: 0, refused: 0, timedOut: 0, wrong: 0, firstWrong: '' },
  };
  readonly #rules: OpenLoopRules;
  readonly #deps: OpenLoopDeps;
  /** Used in turn: a service closes a connection that it has not heard of for some seconds. */
  readonly #free: { line: Line; since: number }[] = [];
  /** In the order of their sending, so the first is the first to lose patience. */
  #underway: Underway[] = [];
  #oldest = 0;
  #next = 0;
  #pending = 0;

  constructor(rules: OpenLoopRules, deps: OpenLoopDeps) {
    this.#rules = rules;
    this.#deps = deps;
  }

  /** Whether every request has been sent and is answered or given up. */
  get isDone(): boolean {
    return this.#next >= this.#rules.intended.length && this.#pending === 0;
  }

  /** Whether a request is still to be sent. */
  get hasMore(): boolean {
    return this.#next < this.#rules.intended.length;
  }

  /** Takes a connection that is ready. */
  add(line: Line): void {
    this.#free.push({ line, since: this.#deps.now() });
  }

  /** Sends the requests that are due, and gives up those that have waited too long. */
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
        ...{ sentAt: now, isOver: false },
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
      record(this.tally.refusalsSinceSent, this.tally.lastAnswerAt - underway.sentAt);
      return;
    }
    const { answer } = underway;
    const isRight = status === 200 && (answer === '' ? body.includes(this.#rules.marker) : body === answer);
    if (!isRight) this.#blame(`${status} ${body.slice(0, 300)}`);
    if (underway.isWarmUp || this.#isRecovery(underway.intendedAt, latency)) return;
    this.tally.answered++;
    record(this.tally.latencies, latency);
  }

  /** A connection broke, with a request under way or without. */
  broken(underway: Underway | null, reason: string): void {
    if (underway !== null) {
      if (underway.isOver) return;
      this.#close(underway);
    }
    this.#blame(reason);
    this.#deps.replace();
  }

  /** Ends the loop: what has no answer yet never gets one. */
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
    // No connection came free for these in time.
    while (this.#next < intended.length && (intended[this.#next] ?? 0) <= limit) {
      this.#timedOut(intended[this.#next] ?? 0);
      this.#next++;
    }
  }

  #timedOut(intendedAt: number): void {
    if (intendedAt < this.#rules.warmUpMicros || this.#isRecovery(intendedAt, null)) return;
    this.tally.timedOut++;
  }

  /** Keeps what became of a request of the recovery. @returns whether it is one */
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
