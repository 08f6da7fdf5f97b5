import { Pool } from 'undici';
import { DrsClient } from '../../src/client/index.js';
import { runCallers } from '../load/callers.js';
import { warmingUp, type Bench, type Suite } from '../run/suite.js';
import { environmentFor, startService, type ServerProcess } from '../service/start.js';
import type { Answered } from '../workload/chains.js';

const DEPTH = 4;
const IN_FLIGHT = [1, 16, 128];
const CONNECTIONS = 16;
const WARM_UP_SECONDS = 0.25;

type Call = Answered & { readonly parsed: unknown };

interface Asker {
  readonly name: string;
  /** @returns whether the answer is right */
  readonly ask: (call: Call) => Promise<boolean>;
  readonly close: () => Promise<void>;
}

/** Measures what a verdict costs the caller, and how long it waits. */
export const client: Suite = {
  name: 'client',
  about: 'processor time and wait of a caller: undici alone, DrsClient with and without shared exchanges',
  run: async (bench) => {
    await using server = await startService(environmentFor('warm'));
    const url = `http://127.0.0.1:${server.port}`;
    for (const asker of [postAlone(url), drsClient('alone', url), drsClient('shared', url)]) {
      const first = warmingUp(bench);
      for (const inFlight of IN_FLIGHT) await measure(first, server, asker, inFlight, WARM_UP_SECONDS);
      for (const inFlight of IN_FLIGHT)
        await bench.undisturbed(() => measure(bench, server, asker, inFlight, bench.plan.seconds));
      await asker.close();
    }
  },
};

/** The least that a caller can do: it does not look at the answer. */
function postAlone(url: string): Asker {
  const pool = new Pool(url, { connections: CONNECTIONS });
  const headers = { 'content-type': 'application/json' };
  const ask = async ({ body: json, answer }: Call) => {
    const { body } = await pool.request({ path: '/verify', method: 'POST', headers, body: json });
    return (await body.text()) === answer;
  };
  return { name: 'undici', ask, close: () => pool.close() };
}

function drsClient(name: 'alone' | 'shared', url: string): Asker {
  const drs = new DrsClient(url, { connections: CONNECTIONS, shareExchanges: name === 'shared' });
  const ask = async ({ parsed }: Call) => (await drs.verify(parsed)).valid;
  return { name, ask, close: () => drs.close() };
}

/** This process is the caller: so many calls are always under way. */
async function measure(
  { recorder, watch, workloads, say }: Bench,
  { pid }: ServerProcess,
  { name, ask }: Asker,
  inFlight: number,
  seconds: number,
): Promise<void> {
  const id = `client/${name}/c${inFlight}`;
  const calls = workloads.warm(DEPTH).map((call): Call => ({ ...call, parsed: JSON.parse(call.body) }));
  let asked = 0;
  recorder.measureFloor();
  const before = process.cpuUsage();
  const { latencies, wrong, firstWrong } = await watch(id, pid, () =>
    runCallers(inFlight, seconds, async () =>
      (await ask(calls[asked++ % calls.length] as Call)) ? '' : 'a verdict that is not valid',
    ),
  );
  const { user, system } = process.cpuUsage(before);
  const cpu = (user + system) / asked;
  recorder.blame(id, wrong, firstWrong);
  recorder.record(`${id}/cpu`, cpu);
  recorder.recordLatencies(id, latencies);
  say(`${id}: ${cpu.toFixed(1)} µs of processor time, p50 ${latencies.getValueAtPercentile(50)} µs`);
}
