// Measures whether the time of a comparison reveals something about a secret, like dudect: two classes of inputs in
// random order, and Welch's t-test. `npm run timing -- --secs 30`.
import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { parseArgs } from 'node:util';
import { createMemoryReplayStore } from '../../src/usage/memory-store.js';
import { replayKey } from '../../src/usage/use-invocation.js';
import { compare } from './welch.js';

const { values: options } = parseArgs({ options: { secs: { type: 'string', default: '10' } } });
const secs = Number(options.secs);
if (!(secs > 0)) {
  console.error(`--secs is ${JSON.stringify(options.secs)}, expected seconds for each row`);
  process.exit(2);
}

const CALLS_PER_SAMPLE = 20;
const POOL = 512;

const token = randomBytes(24).toString('base64url');
const sha256 = (text: string) => createHash('sha256').update(text).digest();
const tokenDigest = sha256(token);
// Compares like src/service/routes/admin-routes.ts.
const asServed = (given: string) => timingSafeEqual(sha256(given), tokenDigest);
/** An unsafe comparison, as a control: it stops at the first character that differs. */
const naive = (given: string) => {
  for (let at = 0; at < token.length; at++) if (given.charCodeAt(at) !== token.charCodeAt(at)) return false;
  return true;
};

const other = (text: string, at: number) =>
  `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`;
const many = <T>(make: () => T): T[] => Array.from({ length: POOL }, make);

const recorded = many(() => randomBytes(16).toString('hex'));
const store = createMemoryReplayStore({ maxEntries: 2_000_000 });
const ISSUER = `did:key:z${'6'.repeat(47)}`;
const keyOf = (jti: string) => replayKey('verify', ISSUER, `inv:${jti}`);
for (const jti of recorded) await store.use(keyOf(jti), 0, 1e9, null);
let at = 0;
// A look-up also records the invocation, as for every call.
const lookUp = (jti: string) => store.use(keyOf(jti), 0, 1e9, null);
const fresh = (jti: string) => `${jti.slice(0, -8)}${(at++).toString(16).padStart(8, '0')}`;

interface Row {
  readonly name: string;
  readonly run: (input: string) => unknown;
  readonly left: () => string;
  readonly right: () => string;
}
const pick = <T>(items: readonly T[]) => items[randomInt(items.length)] as T;
const wrongFirst = many(() => other(token, 0));
const wrongLast = many(() => other(token, token.length - 1));

const rows: readonly Row[] = [
  {
    name: 'admin token: wrong in the first character, or only in the last',
    run: asServed,
    left: () => pick(wrongFirst),
    right: () => pick(wrongLast),
  },
  {
    name: 'admin token: wrong, or right',
    run: asServed,
    left: () => pick(wrongFirst),
    right: () => token,
  },
  {
    name: 'replay: a fresh invocation unlike any on record, or like one but for its end',
    run: lookUp,
    left: () => fresh('f'.repeat(32)),
    right: () => fresh(pick(recorded)),
  },
  {
    name: 'control: a comparison that stops at the first difference (must differ)',
    run: naive,
    left: () => pick(wrongFirst),
    right: () => pick(wrongLast),
  },
];

const results = rows.map((row) => {
  const times: [number[], number[]] = [[], []];
  const end = performance.now() + secs * 1000;
  for (let sample = 0; performance.now() < end; sample++) {
    const side = randomInt(2) as 0 | 1;
    // Both classes are made in the same way, before the clock starts. Texts are flat, so that V8 does not join them
    // later.
    const inputs = Array.from({ length: CALLS_PER_SAMPLE }, () =>
      Buffer.from(side === 0 ? row.left() : row.right(), 'latin1').toString('latin1'),
    );
    const start = process.hrtime.bigint();
    for (const input of inputs) row.run(input);
    const taken = Number(process.hrtime.bigint() - start) / CALLS_PER_SAMPLE;
    // The first samples are left out, because code is still being compiled.
    if (sample > 2000) times[side].push(taken);
  }
  const compared = compare(...times);
  console.log(
    `${row.name}\n  t = ${compared.t.toFixed(2)}, ${compared.samples} samples of ${CALLS_PER_SAMPLE} calls, ${compared.nanoseconds.toFixed(1)} ns in the middle: ${compared.verdict}`,
  );
  return compared;
});
const control = results.pop();
if (control?.verdict !== 'they differ') {
  console.log(
    'the control does not differ, so this run says nothing: run it for longer, or on a quieter machine',
  );
  process.exitCode = 1;
} else if (results.some(({ verdict }) => verdict === 'they differ')) process.exitCode = 1;
