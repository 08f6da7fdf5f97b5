// A company changes its key while its calls go on, as docs/keys.md says it, against a service of its own: how long each
// step takes, and whether any call got a wrong verdict. `node scripts/drill-keys.mjs [key_fresh_secs]`
import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const FRESH_SECS = Number(process.argv[2] ?? 5);
const DRS = fileURLToPath(new URL('drs.mjs', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'drs-drill-keys-'));
const at = (/** @type {string} */ name) => path.join(folder, name);
/** @param {...string} args */
const drs = (...args) =>
  execFileSync(process.execPath, [DRS, ...args], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });

/** The keys that are published, by the years in their names. @type {string[]} */
let published = [];
let did = '';
const company = createServer((_, response) => {
  const assertionMethod = published.map((name) => {
    const { kty, crv, x } = /** @type {Record<string, string>} */ (
      JSON.parse(readFileSync(at(`${name}.pub`), 'utf8'))
    );
    return { id: `${did}#${name}`, type: 'JsonWebKey', controller: did, publicKeyJwk: { kty, crv, x } };
  });
  response.end(JSON.stringify({ id: did, assertionMethod }));
});
await new Promise((resolve) => company.listen(0, '127.0.0.1', () => resolve(null)));
did = `did:web:localhost%3A${/** @type {import('node:net').AddressInfo} */ (company.address()).port}`;

for (const name of ['agent', '2026', '2027']) drs('keygen', '-o', `${name}.key`);
/** A delegation by one of the keys, and a call under it. */
const bundles = ['2026', '2027'].map((name) => {
  // prettier-ignore
  drs('issue', '--key', `${name}.key`, '--as', `${did}#${name}`, '--to', 'agent.pub', '--tool', 'search', '--yes', '-o', `${name}.jwt`);
  // prettier-ignore
  drs('invoke', '--key', 'agent.key', '--chain', `${name}.jwt`, '--tool-server', 'https://tools.example', '--args', '{"tool":"search"}', '-o', `${name}.json`);
  return readFileSync(at(`${name}.json`), 'utf8');
});
published = ['2026'];
const row = { did, name: 'Acme', addresses: ['127.0.0.1'], key_fresh_secs: FRESH_SECS };
writeFileSync(at('roots.jsonl'), JSON.stringify(row));
const service = spawn(process.execPath, [DRS, 'serve'], {
  env: {
    PATH: process.env['PATH'],
    PORT: '0',
    TRUSTED_ROOTS_FILE: at('roots.jsonl'),
    SERVER_IDENTITY: 'any',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
});
process.on('exit', () => {
  service.kill();
  rmSync(folder, { recursive: true });
});
// It waits for ever if a verdict never changes.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
/** @type {string} */
const url = await new Promise((resolve) => {
  createInterface({ input: service.stdout }).on('line', (line) => {
    const entry = /** @type {Record<string, string>} */ (JSON.parse(line));
    if (entry['msg'] === 'listening') resolve(`${entry['url']}/verify`);
  });
});

const wrong = /** @type {string[]} */ ([]);
const verdicts = new EventEmitter();
let calls = 0;
let isOver = false;
/** What the last verdict on calls by each key was, and what it may be: as it was, or also the other. */
const keys = /** @type {const} */ (['2026', '2027']).map((name, index) => ({
  ...{ name, bundle: bundles[index] ?? '', is: /** @type {boolean | null} */ (null) },
  mayBe: /** @type {readonly boolean[]} */ ([index === 0]),
}));
/** @param {(typeof keys)[number]} key */
async function callAllTheTime(key) {
  while (!isOver) {
    const before = key.mayBe;
    const answer = await fetch(url, { method: 'POST', body: key.bundle });
    const { valid, error } = /** @type {{ valid: boolean, error?: { code: string } }} */ (
      await answer.json()
    );
    calls++;
    // What the verdict may be can change while a call is under way.
    const isRight = before.includes(valid) || key.mayBe.includes(valid);
    if (!isRight || (!valid && error?.code !== 'INVALID_SIGNATURE'))
      wrong.push(`a call by the key of ${key.name} was ${valid ? 'accepted' : `refused: ${error?.code}`}`);
    key.is = valid;
    verdicts.emit('verdict');
  }
}
const load = [...keys, ...keys].map(callAllTheTime);

/** Waits for a verdict on the calls by a key, which from then on stays: for as long as that takes. */
async function until(/** @type {(typeof keys)[number]} */ key, /** @type {boolean} */ valid) {
  key.mayBe = [true, false];
  const started = performance.now();
  while (key.is !== valid) await once(verdicts, 'verdict');
  // Of the calls under way, some may still be by the keys before: they began when both was right.
  key.mayBe = [valid];
  return `${((performance.now() - started) / 1000).toFixed(1)} s`;
}

/** Waits until the document is fetched once more, which must not change a verdict, and for calls after that. */
async function nextFetch() {
  await once(company, 'request');
  for (const until = calls + 100; calls < until;) await once(verdicts, 'verdict');
}

const [first, second] = /** @type {[(typeof keys)[number], (typeof keys)[number]]} */ (keys);
await nextFetch();
published = ['2026', '2027'];
console.log(`second key published; accepted after  ${await until(second, true)}`);
await nextFetch();
published = ['2027'];
console.log(`first key withdrawn; refused after    ${await until(first, false)}`);
await nextFetch();
isOver = true;
await Promise.all(load);
console.log(`calls meanwhile: ${calls}, with a wrong verdict: ${wrong.length}`);
for (const one of new Set(wrong)) console.error(one);
process.exit(wrong.length === 0 ? 0 : 1);
