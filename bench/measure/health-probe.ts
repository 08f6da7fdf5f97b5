import { setTimeout as sleep } from 'node:timers/promises';
import { residentOf } from './processor-time.js';
import { newLatencies } from './statistics.js';

const PROBE_EVERY_MS = 100;
const PROBE_PATIENCE_MS = 10_000;

/** Asks `/healthz` like an orchestrator, on a new connection each time, and watches memory. */
export class HealthProbe {
  readonly latencies = newLatencies();
  failed = 0;
  highestResident = 0;
  readonly #server: { readonly port: number; readonly pid: number };
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>;

  constructor(server: { readonly port: number; readonly pid: number }) {
    this.#server = server;
    this.#ended = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  describe(): string {
    return `healthz at most ${(this.latencies.maxValue / 1000).toFixed(0)} ms (${this.failed} failed), RSS ${Math.round(this.highestResident / 1e6)} MB`;
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const start = performance.now();
      try {
        const response = await fetch(`http://127.0.0.1:${this.#server.port}/healthz`, {
          headers: { Connection: 'close' },
          signal: AbortSignal.timeout(PROBE_PATIENCE_MS),
        });
        await response.text();
        if (response.status !== 200) this.failed++;
      } catch {
        this.failed++;
      }
      this.latencies.recordValue(Math.max(1, Math.round((performance.now() - start) * 1000)));
      this.highestResident = Math.max(this.highestResident, residentOf(this.#server.pid));
      await sleep(PROBE_EVERY_MS);
    }
  }
}
