import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { decodeLatencies, encodeLatencies, newLatencies } from '../measure/latencies.js';
import { program } from '../paths.js';
import type { OpenLoopJob, OpenLoopReport } from './open-loop.js';
import type { SenderJob, SenderReport } from './open-loop-sender.js';

// Until they have a start time in common, the senders connect and compile.
const LEAD_NS = 50_000_000n;

const job = JSON.parse(process.argv[2] ?? '') as OpenLoopJob;
const senders = Array.from({ length: job.threads }, (_, number) => {
  const workerData: SenderJob = { ...job, number };
  return new Worker(program('load/open-loop-sender.js'), { workerData });
});
await Promise.all(senders.map((sender) => once(sender, 'message')));

const total = Math.round(job.rate * (job.seconds + job.warmUpSeconds));
const startedAt = process.hrtime.bigint() + LEAD_NS;
for (const sender of senders) sender.postMessage({ startedAt, total });

const reports = await Promise.all(
  senders.map(async (sender) => (await once(sender, 'message')) as [SenderReport]),
);

const latencies = newLatencies();
const sendDelays = newLatencies();
for (const [report] of reports) {
  latencies.add(decodeLatencies(report.latencies));
  sendDelays.add(decodeLatencies(report.sendDelays));
}
const summary: OpenLoopReport = {
  startedAt: String(startedAt),
  requests: reports.reduce((sum, [{ answered }]) => sum + answered, 0),
  wrong: reports.reduce((sum, [{ wrong }]) => sum + wrong, 0),
  firstWrong: reports.map(([{ firstWrong }]) => firstWrong).find((text) => text !== '') ?? '',
  latencies: encodeLatencies(latencies),
  sendDelays: encodeLatencies(sendDelays),
};
process.stdout.write(JSON.stringify(summary), () => process.exit(0));
