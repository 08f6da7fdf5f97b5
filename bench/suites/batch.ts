import { Pool } from 'undici';
import { differenceOf, runCallers } from '../load/callers.js';
import { warmingUp, type Bench, type Suite } from '../run/suite.js';
import { environmentFor, startService, type ServerProcess } from '../service/start.js';
import type { Answered } from '../workload/chains.js';

export const SIZES = [1, 4, 16, 64, 256];
/** Lines that are under way at the same time, unless a batch alone has more. */
const LINES_UNDER_WAY = 128;
const WARM_UP_SECONDS = 0.25;

/** Measures what a verdict costs where several share an exchange. */
export const batch: Suite = {
  name: 'batch',
  maxRuns: 3,
  about: 'processor time of a verdict in batches of 1 to 256, warm and cold',
  run: async (bench) => {
    const { plan, workloads } = bench;
    for (const traffic of ['warm', 'cold'] as const) {
      await using server = await startService(environmentFor(traffic));
      for (const depth of plan.coreDepths) {
        const calls = workloads[traffic](depth);
        // Calls in turn: of cold ones there are so many that none is in the cache when its turn comes again.
        let next = 0;
        const take = (count: number) =>
          Array.from({ length: count }, () => calls[next++ % calls.length] as Answered);
        const one = { id: `batch/${traffic}/d${depth}`, isWarm: traffic === 'warm' };
        await measure(warmingUp(bench), server, { ...one, size: 64 }, take);
        for (const size of SIZES)
          await bench.undisturbed(() => measure(bench, server, { ...one, size }, take));
      }
    }
  },
};

interface Case {
  readonly id: string;
  readonly isWarm: boolean;
  readonly size: number;
}

async function measure(
  { plan, recorder, watch, say }: Bench,
  server: ServerProcess,
  { id: base, isWarm, size }: Case,
  take: (count: number) => readonly Answered[],
): Promise<void> {
  const id = `${base}/b${size}`;
  const connections = Math.max(1, Math.floor(LINES_UNDER_WAY / size));
  const pool = new Pool(`http://127.0.0.1:${server.port}`, { connections });
  const ask = async () => {
    const lines = take(size);
    const { statusCode, body } = await pool.request({
      ...{ method: 'POST', path: '/verify', headers: { 'Content-Type': 'application/x-ndjson' } },
      body: lines.map((call) => call.body).join('\n'),
    });
    const expected = lines.map(({ answer }) => `${answer}\n`).join('');
    return differenceOf(`${statusCode} ${await body.text()}`, `200 ${expected}`);
  };
  const load = async (seconds: number) => {
    const fared = await runCallers(connections, seconds, ask);
    recorder.blame(id, fared.wrong, fared.firstWrong);
    return fared;
  };
  if (isWarm) await load(WARM_UP_SECONDS);
  recorder.measureFloor();
  const before = server.processorTime();
  const { answered, seconds } = await watch(id, server.pid, () => load(plan.seconds));
  const cpu = (server.processorTime() - before) / (size * answered);
  const rate = (size * answered) / seconds;
  await pool.close();
  recorder.record(`${id}/throughput`, rate);
  if (!Number.isNaN(cpu)) recorder.record(`${id}/cpu`, cpu);
  say(`${id}: ${Math.round(rate)} /s, ${cpu.toFixed(0)} µs of processor time each`);
}
