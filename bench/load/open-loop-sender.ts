import { parentPort, workerData } from 'node:worker_threads';
import { encodeLatencies } from '../measure/latencies.js';
import { intendedTimes } from './arrivals.js';
import { Connection, toRequest } from './connection.js';
import { OpenLoopCore, type Line, type Recovered, type Underway } from './open-loop-core.js';
import type { OpenLoopJob } from './open-loop.js';
import { RequestSource } from './request-source.js';

/** The job of a sender thread. It sends the requests whose number is its own modulo the number of threads. */
export interface SenderJob extends OpenLoopJob {
  readonly number: number;
}

/** Its answer; histograms as text. */
export interface SenderReport {
  /** µs after the start. */
  readonly lastAnswerAt: number;
  readonly answered: number;
  readonly refused: number;
  readonly timedOut: number;
  readonly wrong: number;
  readonly firstWrong: string;
  readonly latencies: string;
  readonly refusals: string;
  readonly recovery: readonly Recovered[];
  readonly sendDelays: string;
  readonly connectionWaits: string;
}

/** How long to wait at the end for requests without an answer. */
const DRAIN_MS = 10_000;
/** The pause before a connection that could not be opened is tried again. */
const REOPEN_MS = 10;

const job = workerData as SenderJob;
const requests = new RequestSource(job.workload, { number: job.number, of: job.threads });
/** Each request is made only once, so that the generator's garbage collections do not show in the latencies. */
const requestBytes = new Map<string, Buffer>();
let startedAt: bigint | null = null;
const loadMicros = (job.warmUpSeconds + job.seconds) * 1e6;
const all = allIntended();
const core = new OpenLoopCore(
  {
    intended: all.filter((_, at) => at % job.threads === job.number),
    warmUpMicros: job.warmUpSeconds * 1e6,
    patienceMicros: job.patienceMs === null ? null : job.patienceMs * 1000,
    mayRefuse: job.mayRefuse,
    recoveryFromMicros: job.recovery === null ? Number.POSITIVE_INFINITY : loadMicros,
    marker: job.workload.marker,
  },
  {
    // Connections are opened before the start.
    now: () => (startedAt === null ? 0 : Number(process.hrtime.bigint() - startedAt) / 1000),
    next: () => requests.next(),
    // If a client may give up, the next client needs a new connection.
    replace: () => {
      if (job.patienceMs !== null) void openLine();
    },
  },
);

/** The send times of the load, followed by those of the requests that show whether the service is back to normal. */
function allIntended(): Float64Array {
  const { arrivals, rate, seed, recovery } = job;
  const load = intendedTimes(arrivals, rate, Math.round((rate * loadMicros) / 1e6), seed);
  if (recovery === null) return load;
  const later = intendedTimes(arrivals, recovery.rate, Math.round(recovery.rate * recovery.seconds), seed);
  // Random arrivals may last a little longer than intended.
  const within = load.filter((at) => at < loadMicros);
  return Float64Array.from([...within, ...later.map((at) => loadMicros + at)]);
}

async function openLine(): Promise<void> {
  const line: Line = {
    send: (body, underway) => connection.send(bytesOf(body), underway),
    close: () => connection.close(),
  };
  let connection: Connection<Underway>;
  try {
    connection = await Connection.open<Underway>(job.port, {
      answered: (underway, status, body) => {
        core.answered(underway, status, body);
        core.tick();
      },
      broken: (underway, reason) => core.broken(underway, reason),
    });
  } catch (error) {
    if (job.patienceMs === null) throw error;
    setTimeout(() => void openLine(), REOPEN_MS);
    return;
  }
  core.add(line);
}

function bytesOf(body: string): Buffer {
  let bytes = requestBytes.get(body);
  if (bytes === undefined) requestBytes.set(body, (bytes = toRequest(body)));
  return bytes;
}

// The event loop never sleeps while it keeps time: timers count in whole milliseconds, and waking a thread takes longer
// than verifying a signature. This uses a whole core, so the generator's processor time has no meaning.
function keepTime(): void {
  core.tick();
  if (core.hasMore) {
    setImmediate(keepTime);
    return;
  }
  setTimeout(end, DRAIN_MS);
  waitForAnswers();
}

function waitForAnswers(): void {
  core.tick();
  if (core.isDone) end();
  else setImmediate(waitForAnswers);
}

function end(): void {
  core.end();
  const { latencies, refusals, sendDelays, connectionWaits, ...counts } = core.tally;
  const report: SenderReport = {
    ...counts,
    latencies: encodeLatencies(latencies),
    refusals: encodeLatencies(refusals),
    sendDelays: encodeLatencies(sendDelays),
    connectionWaits: encodeLatencies(connectionWaits),
  };
  parentPort?.postMessage(report);
  process.exit(0);
}

const share = Math.max(1, Math.floor(job.connections / job.threads));
for (let at = 0; at < share; at++) await openLine();
parentPort?.once('message', (commonStart: bigint) => {
  startedAt = commonStart;
  keepTime();
});
parentPort?.postMessage('ready');
