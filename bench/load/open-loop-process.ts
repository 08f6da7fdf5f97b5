import { readFileSync } from 'node:fs';
import { encodeLatencies } from '../measure/statistics.js';
import type { Exchange } from '../workload/chains.js';
import { CHECK, type Workload } from '../workload/workload.js';
import { Connection, toRequest, type Answers } from './connection.js';
import type { GrpcCaller } from './grpc.js';
import { intendedTimes, OpenLoopCore, type Prepared } from './open-loop-core.js';
import type { OpenLoopJob, OpenLoopReport } from './open-loop.js';

// The generator's process. One thread: it does less for a request than the main thread of a service.

/** How long to wait at the end for what is unsent or unanswered: all connections may have broken. */
const DRAIN_MS = 10_000;
/** Loaded where it is needed: it is much code. */
const grpc = () => import('./grpc.js');

/** The pause before a connection that could not be opened is tried again. */
const REOPEN_MS = 10;
/** How often a crowd of clients looks whether its time or its patience is over. */
const LOOK_MS = 5;

const prepared = new Map<string, readonly Prepared[]>();

/**
 * Returns the requests of a workload in turn. Each is made only once, so that the generator's garbage collections do not
 * show in the latencies.
 */
async function requestsOf({ file, start, path }: Workload, authority?: string): Promise<() => Prepared> {
  const toCheck = path === CHECK ? (await grpc()).toCheck : null;
  const prepare = (line: string): Prepared => {
    const { body, bundle = '', answer = '' } = JSON.parse(line) as Exchange;
    return { bytes: toCheck?.(body, bundle) ?? toRequest(body, path, bundle, authority), answer };
  };
  const requests = prepared.get(file + path) ?? readFileSync(file, 'utf8').split('\n').map(prepare);
  prepared.set(file + path, requests);
  let next = start;
  return () => requests[next++ % requests.length] as Prepared;
}

/** The connections to each place. They stay open from one job to the next. */
const open = new Map<string, (Connection | GrpcCaller)[]>();

async function run(job: OpenLoopJob): Promise<OpenLoopReport> {
  const { clients, patienceMs, closesGivenUp, port, host, authority } = job;
  const place = `${host} ${port}`;
  const GrpcCaller = job.workload.path === CHECK ? (await grpc()).GrpcCaller : null;
  const next = await requestsOf(job.workload, authority);
  const seconds = job.warmUpSeconds + job.seconds;
  let startedAt: bigint | null = null;
  let finish: () => void = () => undefined;
  const core = new OpenLoopCore(
    {
      intended:
        clients === null
          ? intendedTimes(job.arrivals, job.rate, Math.round(job.rate * seconds), job.seed)
          : { requests: clients.requests ?? Infinity, untilMicros: seconds * 1e6 },
      ...{ warmUpSeconds: job.warmUpSeconds, patienceMs, closesGivenUp, mayRefuse: job.mayRefuse },
      marker: job.workload.marker,
    },
    {
      // Connections are opened before the start.
      now: () => (startedAt === null ? 0 : Number(process.hrtime.bigint() - startedAt) / 1000),
      next,
      // If a client may give up, the next client needs a new connection.
      replace: () => {
        if (patienceMs !== null) void reopen();
      },
    },
  );
  const look = () => {
    core.tick();
    if (core.isDone) finish();
  };
  const answers: Answers = {
    answered: (underway, status, body, head) => {
      core.answered(underway, status, body, head);
      look();
    },
    broken: (underway, reason) => core.broken(underway, reason),
  };
  const lines = (open.get(place) ?? []).filter(({ isClosed }) => !isClosed);
  open.set(place, lines);
  const openLine = async () => {
    const line = GrpcCaller ? new GrpcCaller(port, answers) : await Connection.open(port, answers, host);
    lines.push(line);
    core.add(line);
  };
  const reopen = () => openLine().catch(() => setTimeout(() => void reopen(), REOPEN_MS));
  // A service closes what is idle for long.
  for (const line of lines.splice(job.connections)) line.close();
  for (const line of lines) {
    line.answers = answers;
    core.add(line);
  }
  while (lines.length < job.connections) await openLine();

  startedAt = process.hrtime.bigint();
  await new Promise<void>((resolve) => {
    finish = resolve;
    const patience = setTimeout(resolve, seconds * 1000 + DRAIN_MS);
    // For a rate, the event loop never sleeps: timers count in whole milliseconds, and waking a thread takes longer than
    // verifying a signature. A crowd only answers answers.
    const again = (task: () => void) => (clients === null ? setImmediate(task) : setTimeout(task, LOOK_MS));
    const keepTime = () => {
      look();
      if (core.isDone) clearTimeout(patience);
      else again(keepTime);
    };
    keepTime();
  });
  core.end();
  // An answer that comes late must not be taken for one of the next job.
  if (core.tally.wrong > 0) for (const line of lines) line.close();
  const { latencies, serviceTimes, sendDelays, connectionWaits, ...counts } = core.tally;
  return {
    ...{ ...counts, startedAt: Number(startedAt) / 1e6, latencies: encodeLatencies(latencies) },
    serviceTimes: encodeLatencies(serviceTimes),
    ...{ sendDelays: encodeLatencies(sendDelays), connectionWaits: encodeLatencies(connectionWaits) },
  };
}

process.on('message', (job: OpenLoopJob) => void run(job).then((report) => process.send?.(report)));
process.on('disconnect', () => process.exit(0));
