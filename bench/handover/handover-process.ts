import { performance } from 'node:perf_hooks';
import { encodeLatencies, newLatencies } from '../measure/latencies.js';
import { makeCall, makeChain } from '../workload/chains.js';
import { DESIGNS } from './designs.js';
import { checkOf, verifyOne } from './job.js';

/** The job of this process. */
export interface HandoverJob {
  readonly design: string;
  readonly workers: number;
  readonly inFlight: number;
  readonly milliseconds: number;
}

/** The answer of this process: the result of one design at one concurrency. All verdicts were checked. */
export interface HandoverReport {
  readonly verified: number;
  readonly wrong: number;
  readonly seconds: number;
  /** Of this process with all its threads, in µs. */
  readonly processorTime: number;
  readonly latencies: string;
}

const job = JSON.parse(process.argv[2] ?? '') as HandoverJob;
const design = DESIGNS.find(({ name }) => name === job.design);
if (design === undefined) throw new Error(`there is no design ${job.design}`);
const verifier = design.open(job.workers);
const chain = makeChain(4);
const checks = Array.from({ length: 64 }, () => checkOf(makeCall(chain)));
const forged = checks.map((check) => ({ ...check, signature: Buffer.alloc(64, check.signature) }));
for (const check of forged) check.signature[5] = (check.signature[5] ?? 0) ^ 1;

/** One of sixteen signatures is forged, so that a mixed-up answer is noticed. */
async function run(milliseconds: number) {
  const latencies = newLatencies();
  let verified = 0;
  let wrong = 0;
  const start = performance.now();
  const share = async (first: number) => {
    for (let at = first; performance.now() - start < milliseconds; at++) {
      const isForged = at % 16 === 15;
      const check = (isForged ? forged : checks)[at % checks.length];
      if (check === undefined) continue;
      const sentAt = performance.now();
      if ((await verifyOne(verifier, check)) === isForged) wrong++;
      latencies.recordValue(Math.max(1, Math.round((performance.now() - sentAt) * 1000)));
      // A verifier that answers before submit returns would keep the other shares from ever starting.
      if (++verified % 8 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await Promise.all(Array.from({ length: job.inFlight }, (_, first) => share(first * 5)));
  return { latencies, verified, wrong, seconds: (performance.now() - start) / 1000 };
}

await run(job.milliseconds / 3);
const before = process.cpuUsage();
const { latencies, verified, wrong, seconds } = await run(job.milliseconds);
const { user, system } = process.cpuUsage(before);
const report: HandoverReport = {
  ...{ verified, wrong, seconds, processorTime: user + system, latencies: encodeLatencies(latencies) },
};
process.stdout.write(JSON.stringify(report), () => process.exit(0));
