// Checks on a checkout what must always hold: `npm run properties -- --dir /tmp/other-checkout --only cache`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { clock, lists, urls } from './answers.js';
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

let broken = 0;
for (const property of chosen) {
  const { name } = property;
  if (values.here) {
    console.log(JSON.stringify(await property.check(new Subject(values.dir))));
    continue;
  }
  // Each property has a process of its own, so that one that hangs or takes all memory can be ended.
  const self = [fileURLToPath(import.meta.url), '--here', '--dir', values.dir, '--only', name];
  const child = spawn(process.execPath, ['--expose-gc', ...self], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const watchdog = setTimeout(() => child.kill('SIGKILL'), 1000 * Number(values.secs));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  clearTimeout(watchdog);
  const found =
    code === 0
      ? (JSON.parse(text.trim().split('\n').at(-1) ?? '[]') as string[])
      : [`ended with ${signal ?? code}`];
  broken += found.length > 0 ? 1 : 0;
  console.log(`${found.length === 0 ? 'holds ' : 'BROKEN'}  ${name}`);
  for (const line of found.slice(0, 6)) console.log(`        ${line}`);
}
if (values.here) process.exit(0);
process.exitCode = broken === 0 ? 0 : 1;
