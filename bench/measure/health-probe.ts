import { setTimeout as sleep } from 'node:timers/promises';
import { residentOf } from './processor-time.js';
import { newLatencies, recordLatency } from './statistics.js';

const PROBE_EVERY_MS = 100;
const PROBE_PATIENCE_MS = 10_000;

/** Asks `/healthz` like an orchestrator while something is measured, on a new connection each time, and watches memory. */
export async function probing<Value>(
  server: { readonly port: number; readonly pid: number },
  measure: () => Promise<Value>,
) {
  const latencies = newLatencies();
  let [failed, resident, isOver] = [0, 0, false];
  const probe = async () => {
    while (!isOver) {
      const start = performance.now();
      try {
        const response = await fetch(`http://127.0.0.1:${server.port}/healthz`, {
          headers: { Connection: 'close' },
          signal: AbortSignal.timeout(PROBE_PATIENCE_MS),
        });
        await response.text();
        if (response.status !== 200) failed++;
      } catch {
        failed++;
      }
      recordLatency(latencies, (performance.now() - start) * 1000);
      resident = Math.max(resident, residentOf(server.pid));
      await sleep(PROBE_EVERY_MS);
    }
  };
  const probed = probe();
  const value = await measure().finally(() => (isOver = true));
  await probed;
  const slowest = (latencies.maxValue / 1000).toFixed(0);
  const megabytes = Math.round(resident / 1e6);
  const about = `healthz at most ${slowest} ms (${failed} failed), RSS ${megabytes} MB`;
  return { value, about, resident, p99: latencies.getValueAtPercentile(99) };
}
