// Fills a receipt cache of 6 MB with entries of one shape, then of the next, and says of each what it counts and what
// the heap holds of it. node --expose-gc cache-memory-child.mjs
import { randomBytes, randomFillSync } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';

const dist = (/** @type {string} */ path) => import(new URL(`../../dist/${path}`, import.meta.url).href);
const { ReceiptCache } = /** @type {typeof import('../../src/verify/receipt-cache.js')} */ (
  await dist('verify/receipt-cache.js')
);
const { Chain, Receipt } = /** @type {typeof import('../../src/verify/receipt.js')} */ (
  await dist('verify/receipt.js')
);
const { readReceiptClaims } = /** @type {typeof import('../../src/protocol/claims.js')} */ (
  await dist('protocol/claims.js')
);
const { DEFAULT_KEYS } = /** @type {typeof import('../../src/protocol/key-resolver.js')} */ (
  await dist('protocol/key-resolver.js')
);
const { parseCompactJwt } = /** @type {typeof import('../../src/protocol/jwt.js')} */ (
  await dist('protocol/jwt.js')
);

let made = 0;
/**
 * The texts of policies. Objects of names of their own are written out here: V8 makes such objects slowly.
 * @param {number} count @param {(at: number) => string} itemOf
 */
const list = (count, itemOf) => Array.from({ length: count }, (_, at) => itemOf(at)).join(',');
/** @type {Record<string, () => { policy: string, [claim: string]: unknown }>} */
const SHAPES = {
  ordinary: () => ({ policy: '{"allowed_tools":["search","fetch"],"max_cost_usd":5}' }),
  'limits of every kind of number': () => ({
    policy:
      '{"max_cost_usd":5.5,"max_total_cost_usd":12345678.9,"max_calls":9007199254740991,"max_delegations":3}',
  }),
  empty: () => ({ policy: '{}' }),
  'many tools': () => ({ policy: `{"allowed_tools":[${list(500, (at) => `"t${at}-${made}"`)}]}` }),
  'empty tools': () => ({ policy: `{"allowed_tools":[${list(4000, () => '""')}]}` }),
  'many small nodes': () => ({ policy: `{"x":[${list(3000, () => '[]')}]}` }),
  'objects of names of their own': () => ({
    policy: `{"x":[${list(1000, (at) => `{"k${at}-${made}":{}}`)}]}`,
  }),
  'members of names of their own': () => ({ policy: `{${list(500, (at) => `"m${at}-${made}":${at}`)}}` }),
  'all that was agreed': () => ({
    policy: '{}',
    ...{ drs_root_type: `type-${made}`, session_id: `s-${made}`, correlation_id: `c-${made}` },
    drs_consent: {
      ...{ locale: 'en-GB', method: `m-${made}`, policy_hash: `sha256:${random(32, 'hex')}` },
      ...{ session_id: `s-${made}`, timestamp: '2026-01-31T12:00:00Z' },
    },
    drs_regulatory: {
      frameworks: Array.from({ length: 16 }, (_, at) => `f${at}-${made}`),
      risk_level: `r-${made}`,
    },
  }),
  'texts beyond Latin-1': () => ({
    policy: `{"allowed_tools":["${'日本'.repeat(200)}"]}`,
    cmd: `/${'語'.repeat(300)}`,
  }),
};

// Asking for a few random bytes at a time would take a seventh of the time.
const pool = randomBytes(65_536);
let used = 0;
/** @param {number} count @param {'base64url' | 'hex'} encoding */
function random(count, encoding) {
  if (used + count > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  return pool.toString(encoding, used, (used += count));
}

const segment = (/** @type {string} */ json) => Buffer.from(json).toString('base64url');
const did = () => `did:key:z6Mk${random(33, 'base64url')}`;

/** @param {string} shape */
function makeReceipt(shape) {
  made++;
  const { policy = '', ...others } = SHAPES[shape]?.() ?? {};
  const claims = {
    ...{ aud: did(), cmd: '/mcp/tools/call', drs_type: 'delegation-receipt', drs_v: '4.0', exp: 2e9, iat: 1 },
    ...{ iss: did(), jti: `dr:${random(16, 'hex')}`, nbf: 1, prev_dr_hash: null, sub: did() },
    ...others,
  };
  const header = segment('{"alg":"EdDSA","typ":"JWT"}');
  const payload = segment(`${JSON.stringify(claims).slice(0, -1)},"policy":${policy}}`);
  // Cut out of a larger text, as it may come from a caller in this process.
  const body = `${'x'.repeat(2000)} ${header}.${payload}.${random(64, 'base64url')}`;
  const jwt = body.slice(2001);
  const parts = parseCompactJwt(jwt);
  if (parts.defect !== undefined) throw new Error(parts.defect);
  const read = readReceiptClaims(parts.payload, true, false);
  if (read.defect !== undefined) throw new Error(`${read.defect.claim}: ${read.defect.expected}`);
  const receipt = new Receipt(jwt, parts, read.claims, read.limits, true);
  if (receipt.digest === '') throw new Error('no digest');
  return receipt;
}

const collect = /** @type {() => void} */ (/** @type {unknown} */ (globalThis.gc));
const held = async () => {
  // What pending turns of the event loop still hold is released between the rounds.
  for (let round = 0; round < 4; round++) {
    collect();
    await setTimeout(10);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

/** @param {string} shape @param {string} kind */
function fill(shape, kind, bytes = 6_000_000) {
  const cache = new ReceiptCache(bytes);
  while (cache.stats.evictions < 20) {
    const receipts = Array.from({ length: kind === 'receipt' ? 1 : 3 }, () => makeReceipt(shape));
    const leaf = receipts[receipts.length - 1];
    if (leaf === undefined) throw new Error('no receipt');
    // As if it had been seen before, and as block C leaves it.
    cache.addReceipt(leaf);
    cache.addReceipt(leaf);
    for (const receipt of receipts) receipt.signature = null;
    if (kind === 'chain') cache.addChain(new Chain(receipts, DEFAULT_KEYS));
  }
  return cache;
}

/** @param {string} shape @param {string} kind */
async function measure(shape, kind) {
  // The first cache is thrown away: it leaves behind the code and the feedback that V8 keeps of filling one.
  fill(shape, kind, 500_000);
  const before = await held();
  const cache = fill(shape, kind);
  const after = await held();
  return { shape, kind, counted: cache.stats.bytes, held: after - before };
}

const measured = [];
for (const shape of Object.keys(SHAPES))
  for (const kind of ['receipt', 'chain']) measured.push(await measure(shape, kind));
console.log(JSON.stringify(measured));
