import { parentPort, workerData } from 'node:worker_threads';
import { encodeLatencies, newLatencies } from '../measure/latencies.js';
import { Connection, toRequest, type Answers } from './connection.js';
import type { OpenLoopJob } from './open-loop.js';
import { RequestSource } from './request-source.js';

/** What a sender thread is told; it sends the requests whose number is its own modulo the number of threads. */
export interface SenderJob extends OpenLoopJob {
  readonly number: number;
}

/** What it answers. */
export interface SenderReport {
  readonly answered: number;
  readonly wrong: number;
  readonly firstWrong: string;
  readonly latencies: string;
  readonly sendDelays: string;
}

/** How long what is still unanswered at the end is waited for. */
const DRAIN_MS = 10_000;

interface Underway {
  /** µs after the start. */
  readonly intendedAt: number;
  /** Whether it is one of those that only warm up. */
  readonly isWarmUp: boolean;
  readonly answer: string;
}

class Sender implements Answers<Underway> {
  readonly #job: SenderJob;
  readonly #requests: RequestSource;
  /** Used in turn: a service closes a connection that it has not heard of for some seconds. */
  readonly #free: Connection<Underway>[] = [];
  /** Made once, so that the generator's own garbage does not show in the latencies. */
  readonly #requestBytes = new Map<string, Buffer>();
  readonly #latencies = newLatencies();
  readonly #sendDelays = newLatencies();
  #startedAt = 0n;
  #total = 0;
  /** Requests with a lower number are due. */
  #due = 0;
  #next: number;
  #underway = 0;
  #answered = 0;
  #wrong = 0;
  #firstWrong = '';

  constructor(job: SenderJob) {
    this.#job = job;
    this.#next = job.number;
    this.#requests = new RequestSource(job.workload, { number: job.number, of: job.threads });
  }

  async connect(): Promise<void> {
    const share = Math.max(1, Math.floor(this.#job.connections / this.#job.threads));
    for (let at = 0; at < share; at++) this.#free.push(await Connection.open<Underway>(this.#job.port, this));
  }

  /** Sends until all are sent, each in its time. */
  begin(startedAt: bigint, total: number): void {
    this.#startedAt = startedAt;
    this.#total = total;
    this.#keepTime();
  }

  // The event loop never sleeps while it keeps time: its timers come by whole milliseconds, and waking a thread takes
  // longer than verifying a signature. This costs a core, which is why the generator's processor time says nothing.
  #keepTime(): void {
    this.#due = Math.min(this.#total, Math.max(0, Math.floor((this.#now() / 1e6) * this.#job.rate) + 1));
    this.#send();
    if (this.#due < this.#total) {
      setImmediate(() => this.#keepTime());
      return;
    }
    setTimeout(() => this.#end(), DRAIN_MS);
    this.#endIfDone();
  }

  answered(underway: Underway, status: number, body: string, connection: Connection<Underway>): void {
    this.#record(underway);
    const { answer } = underway;
    const isRight = answer === '' ? body.includes(this.#job.workload.marker) : body === answer;
    if (status !== 200 || !isRight) this.#blame(`${status} ${body.slice(0, 300)}`);
    this.#free.push(connection);
    this.#send();
    this.#endIfDone();
  }

  broken(about: Underway | null, reason: string): void {
    if (about !== null) this.#record(about);
    this.#blame(reason);
    this.#endIfDone();
  }

  /** Microseconds since the start. */
  #now(): number {
    return Number(process.hrtime.bigint() - this.#startedAt) / 1000;
  }

  #send(): void {
    while (this.#next < this.#due) {
      const connection = this.#free.shift();
      if (connection === undefined) return;
      const { body, answer } = this.#requests.next();
      const intendedAt = (this.#next / this.#job.rate) * 1e6;
      this.#next += this.#job.threads;
      this.#underway++;
      const isWarmUp = intendedAt < this.#job.warmUpSeconds * 1e6;
      if (!isWarmUp) this.#sendDelays.recordValue(Math.max(1, Math.round(this.#now() - intendedAt)));
      connection.send(this.#bytesOf(body), { intendedAt, isWarmUp, answer });
    }
  }

  #bytesOf(body: string): Buffer {
    let bytes = this.#requestBytes.get(body);
    if (bytes === undefined) this.#requestBytes.set(body, (bytes = toRequest(body)));
    return bytes;
  }

  #record({ intendedAt, isWarmUp }: Underway): void {
    this.#underway--;
    if (isWarmUp) return;
    this.#answered++;
    this.#latencies.recordValue(Math.max(1, Math.round(this.#now() - intendedAt)));
  }

  #blame(reason: string): void {
    this.#wrong++;
    this.#firstWrong ||= reason;
  }

  #endIfDone(): void {
    if (this.#due >= this.#total && this.#next >= this.#total && this.#underway === 0) this.#end();
  }

  #end(): void {
    // What never got an answer waited at least until now.
    const unsent = Math.max(0, Math.ceil((this.#total - this.#next) / this.#job.threads));
    for (let left = this.#underway + unsent; left > 0; left--) this.#blame('no answer within the time');
    const report: SenderReport = {
      answered: this.#answered,
      wrong: this.#wrong,
      firstWrong: this.#firstWrong,
      latencies: encodeLatencies(this.#latencies),
      sendDelays: encodeLatencies(this.#sendDelays),
    };
    parentPort?.postMessage(report);
    process.exit(0);
  }
}

const sender = new Sender(workerData as SenderJob);
await sender.connect();
parentPort?.once('message', ({ startedAt, total }: { startedAt: bigint; total: number }) =>
  sender.begin(startedAt, total),
);
parentPort?.postMessage('ready');
