// Checks on a checkout what must always hold: `npm run properties -- --only cache`, and for another commit
// `-- --commit 8affa2c`, or for a folder that has a build `-- --dir /tmp/other-checkout`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { clock, lists, urls } from './answers.js';
import { checkOut } from './checkout.js';
import type { Property } from './property.js';
import { framing, limits, packets, pages, secrets, tokens } from './service.js';
import { bodies, cacheMemory, churn, contexts, shared } from './state.js';
import { Subject } from './subject.js';
import { commands, growth, pending } from './work.js';

export const PROPERTIES: readonly Property[] = [
  ...[churn, growth, shared, cacheMemory, bodies, pending, urls, secrets, contexts],
  ...[clock, lists, limits, tokens, pages, commands, framing, packets],
];

const { values } = parseArgs({
  options: {
    dir: { type: 'string', default: '.' },
    commit: { type: 'string' },
    only: { type: 'string', default: '' },
    secs: { type: 'string', default: '600' },
    /** Runs the properties in this process. A run without it starts a process with it for each property. */
    here: { type: 'boolean', default: false },
  },
});
const chosen = PROPERTIES.filter(({ name }) => name.includes(values.only));
if (chosen.length === 0) {
  console.error(`--only ${values.only} is in none of: ${PROPERTIES.map(({ name }) => name).join('; ')}`);
  process.exit(2);
}

if (values.here) {
  for (const property of chosen) console.log(JSON.stringify(await property.check(new Subject(values.dir))));
  process.exit(0);
}

const checkout = values.commit === undefined ? null : checkOut(values.commit);
try {
  let broken = 0;
  for (const { name } of chosen) {
    const found = await checkAlone(name, checkout?.dir ?? values.dir);
    if (found.length > 0) broken++;
    console.log(`${found.length === 0 ? 'holds ' : 'BROKEN'}  ${name}`);
    for (const line of found.slice(0, 6)) console.log(`        ${line}`);
  }
  process.exitCode = broken === 0 ? 0 : 1;
} finally {
  checkout?.remove();
}

/** Checks a property in a process of its own, so that one that hangs or takes all memory can be ended. */
async function checkAlone(name: string, dir: string): Promise<string[]> {
  const self = [fileURLToPath(import.meta.url), '--here', '--dir', dir, '--only', name];
  const child = spawn(process.execPath, ['--expose-gc', ...self], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const watchdog = setTimeout(() => child.kill('SIGKILL'), 1000 * Number(values.secs));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  clearTimeout(watchdog);
  if (code !== 0) return [`ended with ${signal ?? code}`];
  return JSON.parse(text.trim().split('\n').at(-1) ?? '[]') as string[];
}
