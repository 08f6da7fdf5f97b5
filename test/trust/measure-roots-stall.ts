// How long 100,000 roots (38 MB) stop the event loop while they are read, changed and read again: the longest pause between
// two turns. `npm run compile && node .build/test/trust/measure-roots-stall.js [times]`; on a machine that has other work,
// `chrt -r 1 node …` as root, or each pause has the time of others, too.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { generateKey } from '../../src/issue/index.js';
import { TrustedRoots } from '../../src/trust/trusted-roots.js';

const [times = '3', folder] = process.argv.slice(2);
if (folder === undefined) await measure(Number(times), mkdtempSync(join(tmpdir(), 'drs-roots-')));
else writeRoots(folder);

/** In a process of its own, whose garbage does not count. */
function writeRoots(to: string): void {
  const roots = Array.from({ length: 100_000 }, (_, at) => ({
    did: generateKey().did,
    name: `person-${at}@example.com`,
    not_before: '2026-11-01',
    not_after: '2027-11-01',
    policy: { allowed_tools: ['search', 'mail.read'], max_cost_usd: 20 },
    labels: { team: `team-${at % 100}`, site: 'north' },
  }));
  writeFileSync(join(to, '0'), JSON.stringify({ roots }, null, 2));
  writeFileSync(join(to, '1'), JSON.stringify({ roots: roots.reverse() }, null, 2));
}

async function measure(rounds: number, at: string): Promise<void> {
  execFileSync(process.execPath, [fileURLToPath(import.meta.url), '0', at]);
  const file = join(at, 'roots.json');
  copyFileSync(join(at, '1'), file);
  let trusted: TrustedRoots | undefined;
  const log = { info: () => undefined, error: console.error };
  await pauseOf('first reading', async () => {
    trusted = await TrustedRoots.open(file, { log, pollMs: 3_600_000 });
  });
  for (let round = 0; round < rounds; round++) {
    copyFileSync(join(at, String(round % 2)), file);
    await pauseOf('another version', () => trusted?.reload());
    await pauseOf('the same version', () => trusted?.reload());
  }
  trusted?.close();
  rmSync(at, { recursive: true });
}

async function pauseOf(what: string, work: () => Promise<unknown> | undefined): Promise<void> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await sleep(100);
  delay.reset();
  const startedAt = performance.now();
  await work();
  const took = performance.now() - startedAt;
  // One more turn, so that the last pause counts.
  await sleep(20);
  const ms = (nanoseconds: number) => `${(nanoseconds / 1e6).toFixed(1)} ms`;
  console.log(
    `${what}, ${took.toFixed(0)} ms: the longest pause was ${ms(delay.max)}, 99 % were within ${ms(delay.percentile(99))}`,
  );
}
