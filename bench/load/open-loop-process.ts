import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { decodeLatencies, encodeLatencies, newLatencies } from '../measure/statistics.js';
import { Connection } from './connection.js';
import { intendedTimes, OpenLoopCore, type Line, type Underway } from './open-loop-core.js';
import type { OpenLoopJob, OpenLoopReport } from './open-loop.js';
import { RequestSource } from './request-source.js';

// The generator's process. It has a thread for each of its cores; a thread sends the requests whose number is its own
// modulo the number of threads.

/** Time for the threads to compile before their common start time. */
const LEAD_NS = 50_000_000n;
/** How long to wait at the end for requests without an answer. */
const DRAIN_MS = 10_000;
/** The pause before a connection that could not be opened is tried again. */
const REOPEN_MS = 10;

type SenderJob = OpenLoopJob & { readonly number: number };

async function runThreads(job: OpenLoopJob): Promise<void> {
  const senders = Array.from({ length: job.threads }, (_, number) => {
    return new Worker(new URL(import.meta.url), { workerData: { ...job, number } satisfies SenderJob });
  });
  await Promise.all(senders.map((sender) => once(sender, 'message')));
  const startedAt = process.hrtime.bigint() + LEAD_NS;
  for (const sender of senders) sender.postMessage(startedAt);
  const reports = await Promise.all(
    senders.map(async (sender) => ((await once(sender, 'message')) as [OpenLoopReport])[0]),
  );
  const sum = (count: 'answered' | 'good' | 'refused' | 'timedOut' | 'wrong') =>
    reports.reduce((total, report) => total + report[count], 0);
  const together = (name: 'latencies' | 'refusals' | 'sendDelays' | 'connectionWaits') => {
    const all = newLatencies();
    for (const report of reports) all.add(decodeLatencies(report[name]));
    return encodeLatencies(all);
  };
  const summary: OpenLoopReport = {
    startedAt: String(startedAt),
    lastAnswerAt: Math.max(...reports.map(({ lastAnswerAt }) => lastAnswerAt)),
    ...{ answered: sum('answered'), good: sum('good'), refused: sum('refused'), timedOut: sum('timedOut') },
    ...{ wrong: sum('wrong'), firstWrong: reports.map((one) => one.firstWrong).find(Boolean) ?? '' },
    ...{ latencies: together('latencies'), refusals: together('refusals') },
    ...{ sendDelays: together('sendDelays'), connectionWaits: together('connectionWaits') },
    recovery: reports.flatMap(({ recovery }) => recovery),
  };
  process.stdout.write(JSON.stringify(summary), () => process.exit(0));
}

async function send(job: SenderJob): Promise<void> {
  const { threads, number, patienceMs, clients } = job;
  const source = new RequestSource(job.workload, { number, of: threads });
  const loadMicros = (job.warmUpSeconds + job.seconds) * 1e6;
  let startedAt: bigint | null = null;
  const core = new OpenLoopCore(
    {
      intended:
        clients === null
          ? allIntended(job, loadMicros).filter((_, at) => at % threads === number)
          : { requests: Math.ceil((clients.requests ?? Infinity) / threads), untilMicros: loadMicros },
      warmUpMicros: job.warmUpSeconds * 1e6,
      patienceMicros: patienceMs === null ? null : patienceMs * 1000,
      goodMicros: job.goodMs * 1000,
      mayRefuse: job.mayRefuse,
      recoveryFromMicros: job.recovery === null ? Number.POSITIVE_INFINITY : loadMicros,
      marker: job.workload.marker,
    },
    {
      // Connections are opened before the start.
      now: () => (startedAt === null ? 0 : Number(process.hrtime.bigint() - startedAt) / 1000),
      next: () => source.next(),
      // If a client may give up, the next client needs a new connection.
      replace: () => {
        if (patienceMs !== null) void openLine();
      },
    },
  );
  const openLine = async (): Promise<void> => {
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
  };
  const end = () => {
    core.end();
    const { latencies, refusals, sendDelays, connectionWaits, ...counts } = core.tally;
    const report: OpenLoopReport = {
      ...{ ...counts, startedAt: '' },
      ...{ latencies: encodeLatencies(latencies), refusals: encodeLatencies(refusals) },
      ...{ sendDelays: encodeLatencies(sendDelays), connectionWaits: encodeLatencies(connectionWaits) },
    };
    parentPort?.postMessage(report);
    process.exit(0);
  };
  // The event loop never sleeps while it keeps time: timers count in whole milliseconds, and waking a thread takes
  // longer than verifying a signature. This uses a whole core, so the generator's processor time has no meaning.
  const keepTime = () => {
    core.tick();
    if (core.hasMore) setImmediate(keepTime);
    else {
      setTimeout(end, DRAIN_MS);
      waitForAnswers();
    }
  };
  const waitForAnswers = () => {
    core.tick();
    if (core.isDone) end();
    else setImmediate(waitForAnswers);
  };
  const share = Math.max(1, Math.floor(job.connections / threads));
  for (let at = 0; at < share; at++) await openLine();
  parentPort?.once('message', (commonStart: bigint) => {
    startedAt = commonStart;
    keepTime();
  });
  parentPort?.postMessage('ready');
}

/** The send times of the load, followed by those of the requests that show whether the service is back to normal. */
function allIntended({ arrivals, rate, seed, recovery }: OpenLoopJob, loadMicros: number): Float64Array {
  const load = intendedTimes(arrivals, rate, Math.round((rate * loadMicros) / 1e6), seed);
  if (recovery === null) return load;
  const later = intendedTimes(arrivals, recovery.rate, Math.round(recovery.rate * recovery.seconds), seed);
  // Random arrivals may last a little longer than intended.
  const within = load.filter((at) => at < loadMicros);
  return Float64Array.from([...within, ...later.map((at) => loadMicros + at)]);
}

await (isMainThread
  ? runThreads(JSON.parse(process.argv[2] ?? '') as OpenLoopJob)
  : send(workerData as SenderJob));
