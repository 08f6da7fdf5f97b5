// Looks for the request body that keeps the main thread busy for the longest time, and prints the worst of each kind.
import { parseArgs } from 'node:util';
import { FAMILIES } from './families.js';
import { search, type Cost } from './search.js';

const HELP = `npm run worst-case -- [options]
Searches for the worst body of POST /verify, the worst request of the gate (with which the middleware works, too), and
the worst status list: main-thread milliseconds of one call, signatures left out.

  --limit <ms>     exit with 1 where a row is over it (50)
  --bytes <n>      the largest body, MAX_BODY_BYTES (1048576)
  --secs <n>       seconds of random search a family, after the sweep (5)
  --calls <n>      number of calls; each row shows their median (5)
  --seed <n>       of the random search (1)
  --only <text>    families whose name holds the text
`;

const { values: options } = parseArgs({
  options: {
    limit: { type: 'string', default: '50' },
    bytes: { type: 'string', default: String(1024 * 1024) },
    secs: { type: 'string', default: '5' },
    calls: { type: 'string', default: '5' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  console.log(HELP);
  process.exit(0);
}
const [limit, maxBytes, secs, calls, seed] = (['limit', 'bytes', 'secs', 'calls', 'seed'] as const).map(
  (name) => {
    const value = Number(options[name]);
    if (Number.isFinite(value) && value >= 0) return value;
    console.error(`--${name} is ${JSON.stringify(options[name])}, expected a number of at least 0`);
    process.exit(2);
  },
) as [number, number, number, number, number];

const families = FAMILIES.filter(({ name }) => name.includes(options.only));
if (families.length === 0) {
  console.error(
    `no family has ${JSON.stringify(options.only)} in its name; leave out --only to see all names`,
  );
  process.exit(2);
}

const SUPERLINEAR = 1.3;
// For shorter times, the ratio of two times is mostly noise.
const MIN_MS_FOR_GROWTH = 10;
const heading = ['ms', 'cold', 'warm', 'parse', 'bytes', 'ms/KiB', 'growth', 'tried', 'answer'];
const widths = [9, 9, 9, 9, 9, 8, 7, 6, 30];
const row = (cells: readonly string[]) =>
  cells.map((cell, at) => (at === cells.length - 1 ? cell : cell.padStart(widths[at] ?? 0))).join(' ');

const rows: { name: string; worst: Cost }[] = [];
console.log(`bodies of at most ${maxBytes} bytes, median of ${calls} calls, Node ${process.version}\n`);
for (const family of families) {
  const { worst, tried } = await search(family, { maxBytes, secs, calls, random: randomFrom(seed) });
  rows.push({ name: family.name, worst });
  const { ms, cold, warm, parse, bytes, growth, answer, answerBytes, parameters, measuredBytes } = worst;
  const isEstimate = measuredBytes < bytes;
  const isSuperlinear = growth > SUPERLINEAR && ms > MIN_MS_FOR_GROWTH;
  const flags = [
    ...(ms > limit ? [`OVER ${limit} ms`] : []),
    ...(isSuperlinear ? ['SUPERLINEAR'] : []),
    ...(isEstimate ? [`estimated from ${measuredBytes} bytes`] : []),
    ...(answerBytes > 64 * 1024 ? [`an answer of ${answerBytes} bytes`] : []),
  ];
  console.log(`${family.name}${flags.length === 0 ? '' : `  ** ${flags.join(', ')} **`}`);
  if (rows.length === 1) console.log(row(heading));
  console.log(
    row([
      `${isEstimate ? '~' : ''}${ms.toFixed(1)}`,
      cold.toFixed(1),
      warm.toFixed(1),
      parse.toFixed(1),
      String(bytes),
      (ms / (bytes / 1024)).toFixed(3),
      growth.toFixed(2),
      String(tried),
      answer,
    ]),
  );
  console.log(`  ${JSON.stringify(parameters)}\n`);
}

const worst = rows.reduce((left, right) => (right.worst.ms > left.worst.ms ? right : left));
const over = rows.filter(({ worst: { ms } }) => ms > limit);
console.log(
  `worst: ${worst.worst.ms.toFixed(1)} ms (${worst.name}); ${over.length} of ${rows.length} over ${limit} ms`,
);
process.exitCode = over.length > 0 ? 1 : 0;

/** Numbers from 0 to 1 (mulberry32). */
function randomFrom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
