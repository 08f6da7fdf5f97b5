import { encodeLatencies } from '../measure/statistics.js';
import { Connection } from './connection.js';
import { intendedTimes, OpenLoopCore, type Line, type Underway } from './open-loop-core.js';
import type { OpenLoopJob, OpenLoopReport } from './open-loop.js';
import { requestsOf } from './request-source.js';

// The generator's process. One thread: it does less for a request than the main thread of a service.

/** How long to wait at the end for what is unsent or unanswered: all connections may have broken. */
const DRAIN_MS = 10_000;
/** The pause before a connection that could not be opened is tried again. */
const REOPEN_MS = 10;
/** How often a crowd of clients looks whether its time or its patience is over. */
const LOOK_MS = 5;

const job = JSON.parse(process.argv[2] ?? '') as OpenLoopJob;
const { clients, patienceMs } = job;
const loadMicros = (job.warmUpSeconds + job.seconds) * 1e6;
let startedAt: bigint | null = null;
const core = new OpenLoopCore(
  {
    intended:
      clients === null
        ? intendedTimes(job.arrivals, job.rate, Math.round((job.rate * loadMicros) / 1e6), job.seed)
        : { requests: clients.requests ?? Infinity, untilMicros: loadMicros },
    warmUpMicros: job.warmUpSeconds * 1e6,
    patienceMicros: patienceMs === null ? null : patienceMs * 1000,
    mayRefuse: job.mayRefuse,
    marker: job.workload.marker,
  },
  {
    // Connections are opened before the start.
    now: () => (startedAt === null ? 0 : Number(process.hrtime.bigint() - startedAt) / 1000),
    next: requestsOf(job.workload),
    // If a client may give up, the next client needs a new connection.
    replace: () => {
      if (patienceMs !== null) void openLine();
    },
  },
);

async function openLine(): Promise<void> {
  const line: Line = {
    send: (bytes, underway) => connection.send(bytes, underway),
    close: () => connection.close(),
  };
  let connection: Connection<Underway>;
  try {
    connection = await Connection.open<Underway>(job.port, {
      answered: (underway, status, body, _, head) => {
        core.answered(underway, status, body, head);
        core.tick();
      },
      broken: (underway, reason) => core.broken(underway, reason),
    });
  } catch (error) {
    if (patienceMs === null) throw error;
    setTimeout(() => void openLine(), REOPEN_MS);
    return;
  }
  core.add(line);
}

// For a rate, the event loop never sleeps: timers count in whole milliseconds, and waking a thread takes longer than
// verifying a signature. A crowd only answers answers.
const again = (look: () => void) => (clients === null ? setImmediate(look) : setTimeout(look, LOOK_MS));

function keepTime(): void {
  core.tick();
  if (core.hasMore) again(keepTime);
  else waitForAnswers();
}

function waitForAnswers(): void {
  core.tick();
  if (core.isDone) end();
  else again(waitForAnswers);
}

let isEnded = false;

function end(): void {
  if (isEnded) return;
  isEnded = true;
  core.end();
  const { latencies, sendDelays, connectionWaits, ...counts } = core.tally;
  const report: OpenLoopReport = {
    ...{ ...counts, startedAt: String(startedAt), latencies: encodeLatencies(latencies) },
    ...{ sendDelays: encodeLatencies(sendDelays), connectionWaits: encodeLatencies(connectionWaits) },
  };
  process.stdout.write(JSON.stringify(report), () => process.exit(0));
}

for (let at = 0; at < job.connections; at++) await openLine();
startedAt = process.hrtime.bigint();
setTimeout(end, loadMicros / 1000 + DRAIN_MS);
keepTime();
