// Looks for texts that break an invariant, guided by the code that they reach. `npm run fuzz -- --target json --secs
// 60`.
import { writeFileSync, mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { drive } from './drive.js';
import * as gate from './gate.fuzz.js';
import * as http from './http.fuzz.js';
import * as pipeline from './pipeline.fuzz.js';
import * as policy from './policy.fuzz.js';
import * as revocation from './revocation.fuzz.js';
import * as texts from './texts.fuzz.js';

const all = [texts, policy, gate, revocation, pipeline, http].flatMap(({ targets }) => targets);
const { values } = parseArgs({
  options: {
    target: { type: 'string', default: '' },
    secs: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 1e9) },
    /** Replaces the corpus in the repository by shortened texts that reached new code. Otherwise nothing is written there. */
    keep: { type: 'boolean', default: false },
    out: { type: 'string', default: 'reports/fuzz' },
  },
});
const [secs, seed] = [Number(values.secs), Number(values.seed)];
const chosen = all.filter(({ name }) => name.includes(values.target));
if (chosen.length === 0 || !(secs > 0) || !Number.isSafeInteger(seed)) {
  console.error(
    `found --target ${values.target} --secs ${values.secs} --seed ${values.seed}, expected a target of ` +
      `${all.map(({ name }) => name).join(', ')} (or nothing, for all), seconds above 0, and a whole number`,
  );
  process.exit(2);
}

let failed = 0;
for (const target of chosen) {
  const milliseconds = (1000 * secs) / chosen.length;
  const result = await drive(target, { milliseconds, seed, keep: values.keep });
  const { executions, blocks, corpus, failures } = result;
  console.log(
    `${target.name}: ${executions} executions, ${blocks} blocks, ${corpus} texts in the corpus, seed ${seed}`,
  );
  for (const [at, { text, error }] of failures.entries()) {
    failed++;
    mkdirSync(values.out, { recursive: true });
    const file = `${values.out}/${target.name}-${seed}-${at}`;
    writeFileSync(file, text);
    console.log(`  FAILED, kept as ${file}: ${error.slice(0, 600)}`);
  }
}
await pipeline.close();
await http.close();
console.log(failed === 0 ? 'nothing found' : `${failed} found`);
process.exitCode = failed === 0 ? 0 : 1;
