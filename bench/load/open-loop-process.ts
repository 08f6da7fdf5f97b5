import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { decodeLatencies, encodeLatencies, newLatencies } from '../measure/latencies.js';
import { program } from '../run/paths.js';
import type { OpenLoopJob, OpenLoopReport } from './open-loop.js';
import type { SenderJob, SenderReport } from './open-loop-sender.js';

// Time for the senders to connect and compile before their common start time.
const LEAD_NS = 50_000_000n;

const job = JSON.parse(process.argv[2] ?? '') as OpenLoopJob;
const senders = Array.from({ length: job.threads }, (_, number) => {
  const workerData: SenderJob = { ...job, number };
  return new Worker(program('load/open-loop-sender.js'), { workerData });
});
await Promise.all(senders.map((sender) => once(sender, 'message')));

const startedAt = process.hrtime.bigint() + LEAD_NS;
for (const sender of senders) sender.postMessage(startedAt);
const reports = await Promise.all(
  senders.map(async (sender) => ((await once(sender, 'message')) as [SenderReport])[0]),
);

const sum = (count: 'answered' | 'refused' | 'timedOut' | 'wrong') =>
  reports.reduce((total, report) => total + report[count], 0);
const together = (name: 'latencies' | 'refusals' | 'sendDelays' | 'connectionWaits') => {
  const all = newLatencies();
  for (const report of reports) all.add(decodeLatencies(report[name]));
  return encodeLatencies(all);
};
const summary: OpenLoopReport = {
  startedAt: String(startedAt),
  lastAnswerAt: Math.max(...reports.map((report) => report.lastAnswerAt)),
  ...{ answered: sum('answered'), refused: sum('refused'), timedOut: sum('timedOut'), wrong: sum('wrong') },
  firstWrong: reports.map(({ firstWrong }) => firstWrong).find((text) => text !== '') ?? '',
  ...{ latencies: together('latencies'), refusals: together('refusals') },
  recovery: reports.flatMap(({ recovery }) => recovery),
  ...{ sendDelays: together('sendDelays'), connectionWaits: together('connectionWaits') },
};
process.stdout.write(JSON.stringify(summary), () => process.exit(0));
