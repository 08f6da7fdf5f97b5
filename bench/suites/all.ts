import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { ROOT } from '../run/programs.js';
import type { Suite } from '../run/suite.js';
import { batch } from './batch.js';
import { cache } from './cache.js';
import { client } from './client.js';
import { engines } from './engines.js';
import { gate } from './gate.js';
import { latency } from './latency.js';
import { overload } from './overload.js';
import { peers } from './peers.js';
import { processes } from './processes.js';
import { throughput } from './throughput.js';
import { usage } from './usage.js';

/** Tests the generators on servers whose latencies, stalls and wrong answers are known. */
const generators: Suite = {
  name: 'generators',
  about: 'whether the load generators see every stall, refusal and wrong answer: their tests',
  run: async ({ say }) => {
    const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs');
    const args = [vitest, 'run', '--config', 'vitest.smoke.config.ts'];
    const tests = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 2, 2] });
    const [code] = (await once(tests, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`the tests of the generators failed (exit code ${code})`);
    say('generators · tested');
  },
};

export const DEFAULT_SUITES: readonly Suite[] = [throughput, latency, gate, cache];

const OTHERS = [batch, client, overload, engines, processes, peers, usage, generators];
export const ALL_SUITES: readonly Suite[] = [...DEFAULT_SUITES, ...OTHERS];

export const SMOKE_SUITES: readonly Suite[] = [throughput, gate, generators];
