import path from 'node:path';
import { Pool } from 'undici';
import type { Bench, Suite } from '../run/suite.js';
import { environmentFor, startService, type ServerProcess } from '../service/start.js';
import type { Answered } from '../workload/chains.js';

const DEPTHS = [1, 4, 16];
const SIZES = [1, 4, 16, 64, 256];
/** Lines that are under way at the same time, unless a batch alone has more. */
const LINES_UNDER_WAY = 128;
const WARM_UP_SECONDS = 1;

interface Case {
  readonly traffic: 'warm' | 'cold';
  readonly over: 'tcp' | 'unix';
  readonly depth: number;
  readonly size: number;
}

/** Measures what a verdict costs where several share an exchange. */
export const batch: Suite = {
  name: 'batch',
  about: 'processor time of a verdict in batches of 1 to 256, warm and cold, over TCP and a Unix socket',
  run: async (bench) => {
    const { plan, recorder, workloads } = bench;
    const depths = DEPTHS.filter((depth) => plan.depths.includes(depth));
    for (let run = 1; run <= plan.runs; run++) {
      for (const over of ['tcp', 'unix'] as const) {
        for (const traffic of ['warm', 'cold'] as const) {
          const socket = path.join(workloads.directory, `${over}.sock`);
          const listen = over === 'unix' ? { LISTEN: `unix:${socket}` } : {};
          await using server = await startService({ ...environmentFor(traffic), ...listen });
          const target = over === 'unix' ? { socketPath: socket } : { port: server.port };
          for (const depth of depths) {
            const calls = new Calls(workloads[traffic](depth));
            const sizes = SIZES.map((size): Case => ({ traffic, over, depth, size }));
            // A new process: V8 compiles.
            await measure(
              { ...bench, recorder: recorder.discarding() },
              server,
              sizes[3] as Case,
              calls,
              target,
            );
            for (const one of sizes) await measure(bench, server, one, calls, target);
          }
        }
      }
    }
  },
};

/** Calls in turn, each with its answer. Of cold ones there are so many that none is in the cache when its turn comes again. */
class Calls {
  readonly #calls: readonly Answered[];
  #next = 0;

  constructor(calls: readonly Answered[]) {
    this.#calls = calls;
  }

  take(count: number): readonly Answered[] {
    return Array.from({ length: count }, () => this.#calls[this.#next++ % this.#calls.length] as Answered);
  }
}

type Target = { readonly socketPath: string } | { readonly port: number };

async function measure(
  { plan, recorder, watch, say }: Bench,
  server: ServerProcess,
  { traffic, over, depth, size }: Case,
  calls: Calls,
  target: Target,
): Promise<void> {
  const id = `batch/${traffic}/${over}/d${depth}/b${size}`;
  const connections = Math.max(1, Math.floor(LINES_UNDER_WAY / size));
  const port = 'port' in target ? target.port : 80;
  await using pool = closing(
    new Pool(`http://127.0.0.1:${port}`, { connections, ...('port' in target ? {} : target) }),
  );
  let [verdicts, wrong, firstWrong] = [0, 0, ''];
  const ask = async () => {
    const lines = calls.take(size);
    const { statusCode, body } = await pool.request({
      ...{ method: 'POST', path: '/verify', headers: { 'Content-Type': 'application/x-ndjson' } },
      body: lines.map((call) => call.body).join('\n'),
    });
    const text = await body.text();
    const expected = lines.map(({ answer }) => `${answer}\n`).join('');
    verdicts += size;
    if (statusCode === 200 && text === expected) return;
    wrong++;
    firstWrong ||= `${statusCode} ${text.slice(0, 300)}, expected 200 ${expected.slice(0, 300)}`;
  };
  const load = async (seconds: number) => {
    const end = performance.now() + seconds * 1000;
    const loop = async () => {
      while (performance.now() < end) await ask();
    };
    await Promise.all(Array.from({ length: connections }, loop));
  };
  await load(traffic === 'warm' ? WARM_UP_SECONDS / 4 : 0);
  recorder.measureFloor();
  [verdicts] = [0];
  const before = server.processorTime();
  const startedAt = performance.now();
  await watch(id, server.pids, () => load(plan.seconds));
  const rate = (verdicts * 1000) / (performance.now() - startedAt);
  const cpu = (server.processorTime() - before) / verdicts;
  recorder.blame(id, wrong, firstWrong);
  recorder.record(`${id}/throughput`, rate);
  if (!Number.isNaN(cpu)) recorder.record(`${id}/cpu`, cpu);
  say(`${id}: ${Math.round(rate)} /s, ${cpu.toFixed(0)} µs of processor time each`);
}

function closing(pool: Pool): Pool & AsyncDisposable {
  return Object.assign(pool, { [Symbol.asyncDispose]: () => pool.close() });
}
