import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { ROOT } from '../run/paths.js';
import type { Suite } from '../run/suite.js';

/** Tests the generators on servers whose latencies, stalls and wrong answers are known. */
export const generators: Suite = {
  name: 'generators',
  about: 'whether the load generators see every stall, refusal and wrong answer',
  run: async ({ say }) => {
    const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs');
    const args = [vitest, 'run', '--config', 'vitest.smoke.config.ts'];
    const tests = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 2, 2] });
    const [code] = (await once(tests, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`the tests of the generators failed (exit code ${code})`);
    say('generators · tested');
  },
};
