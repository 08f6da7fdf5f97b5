import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { decodeLatencies, encodeLatencies, newLatencies } from '../measure/latencies.js';
import { program } from '../paths.js';
import type { OpenLoopJob, OpenLoopReport } from './open-loop.js';
import type { SenderJob, SenderReport } from './open-loop-sender.js';

// The main thread keeps time and the worker threads send. It sleeps in Atomics.wait, because timers of an event loop
// come by whole milliseconds: at 10,000 requests a second they would send ten at once, and measure their queue.
const LEAD_NS = 50_000_000n;
// Naps are not shorter than this, so that the senders are not woken for every single request of a high rate.
const SHORTEST_NAP_MS = 0.1;

const job = JSON.parse(process.argv[2] ?? '') as OpenLoopJob;
const senders = Array.from({ length: job.threads }, (_, number) => {
  const workerData: SenderJob = { ...job, number };
  return new Worker(program('load/open-loop-sender.js'), { workerData });
});
await Promise.all(senders.map((sender) => once(sender, 'message')));

const total = Math.round(job.rate * job.seconds);
const startedAt = process.hrtime.bigint() + LEAD_NS;
for (const sender of senders) sender.postMessage({ startedAt, total });

const nap = new Int32Array(new SharedArrayBuffer(4));
let due = 0;
while (due < total) {
  const elapsedMs = Number(process.hrtime.bigint() - startedAt) / 1e6;
  const dueNow = Math.min(total, Math.max(0, Math.floor((elapsedMs / 1000) * job.rate) + 1));
  if (dueNow > due) {
    due = dueNow;
    for (const sender of senders) sender.postMessage(due);
  }
  const untilNextMs = (due / job.rate) * 1000 - elapsedMs;
  Atomics.wait(nap, 0, 0, Math.max(SHORTEST_NAP_MS, untilNextMs));
}
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
