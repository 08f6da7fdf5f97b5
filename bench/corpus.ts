import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { wholeNumber } from './run/options.js';
import { runMain } from './run/programs.js';
import { rendererOf } from './suites/url.js';
import { makeCalls } from './workload/chains.js';
import { filesOf } from './workload/corpus.js';

const USAGE = `npm run bench:corpus -- --out <folder> [options]

Writes valid calls for load generators: bench/README.md has a command for each.

  --depth <4>         receipts in each chain
  --calls <256>       calls, under chains of 32 calls each; as many chains as calls if --cold is given
  --cold              each call has a chain of its own
  --hours <24>        how long they are good. Replay protection must be off: it takes a call once, and for 15 minutes
  --url <address>     default http://127.0.0.1:8080/verify
  --template <file>   as for npm run bench -- --url
  --marker <text>     what the answer to a valid call has (default "valid":true)
`;

function main(): number {
  const { values } = parseArgs({
    options: {
      out: { type: 'string' },
      depth: { type: 'string' },
      calls: { type: 'string' },
      cold: { type: 'boolean', default: false },
      hours: { type: 'string' },
      url: { type: 'string', default: 'http://127.0.0.1:8080/verify' },
      template: { type: 'string' },
      marker: { type: 'string', default: '"valid":true' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const { out, url, template = null, marker, cold } = values;
  if (out === undefined || values.help) {
    process.stdout.write(USAGE);
    return values.help ? 0 : 2;
  }
  const [depth = 4, calls = 256, hours = 24] = (['depth', 'calls', 'hours'] as const).map((option) =>
    wholeNumber(option, values[option]),
  );
  const render = rendererOf(template);
  const endsAt = new Date(Date.now() + 3_600_000 * hours);
  // A line each, which the line ends of a template would break.
  const bodies = makeCalls(depth, calls, cold ? 1 : 32, 3600 * hours).map(({ body }) =>
    render(body).replaceAll(/\r?\n/g, ' '),
  );
  mkdirSync(out, { recursive: true });
  for (const [name, text] of Object.entries(filesOf(bodies, url, marker)))
    writeFileSync(path.join(out, name), text);
  process.stdout.write(
    `${out} has ${calls} calls of depth ${depth} for ${url}, good until ${endsAt.toISOString()}\n`,
  );
  return 0;
}

await runMain('bench:corpus', main);
