// A company changes its key while its calls go on, as docs/keys.md says it, against a service of its own: how long each
// step takes, and whether any call got a wrong verdict. `node scripts/drill-keys.mjs [key_fresh_secs]`
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const FRESH_SECS = Number(process.argv[2] ?? 5);
/** What a fetch may take, and the machine. */
const MAX_WAIT_MS = FRESH_SECS * 1000 + 10_000;
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
/** @type {string} */
const url = await new Promise((resolve) => {
  createInterface({ input: service.stdout }).on('line', (line) => {
    const entry = /** @type {Record<string, string>} */ (JSON.parse(line));
    if (entry['msg'] === 'listening') resolve(`${entry['url']}/verify`);
  });
});

const wrong = /** @type {string[]} */ ([]);
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
  }
}
const load = [...keys, ...keys].map(callAllTheTime);

/** Waits for a verdict on the calls by a key, which from then on stays. */
async function until(/** @type {(typeof keys)[number]} */ key, /** @type {boolean} */ valid) {
  key.mayBe = [true, false];
  const started = performance.now();
  while (key.is !== valid && performance.now() - started < MAX_WAIT_MS) await pause(5);
  const took = performance.now() - started;
  if (key.is !== valid) wrong.push(`the key of ${key.name} did not change its verdict in ${MAX_WAIT_MS} ms`);
  // Of those under way, one may still be by the keys before.
  await pause(200);
  key.mayBe = [valid];
  return `${(took / 1000).toFixed(1)} s`;
}

try {
  const [first, second] = /** @type {[(typeof keys)[number], (typeof keys)[number]]} */ (keys);
  await pause(1_000);
  published = ['2026', '2027'];
  console.log(`second key published; accepted after  ${await until(second, true)}`);
  await pause(1_000);
  published = ['2027'];
  console.log(`first key withdrawn; refused after    ${await until(first, false)}`);
  await pause(1_000);
  isOver = true;
  await Promise.all(load);
  console.log(`calls meanwhile: ${calls}, with a wrong verdict: ${wrong.length}`);
  for (const one of new Set(wrong)) console.error(one);
  process.exitCode = wrong.length === 0 ? 0 : 1;
} finally {
  isOver = true;
  service.kill();
  company.closeAllConnections();
  company.close();
  rmSync(folder, { recursive: true });
}
