// Fills a receipt cache of 6 MB with entries of one shape, and says what it counts and what the heap holds of it.
// node --expose-gc cache-memory-child.mjs <shape> <receipt|chain>
import { randomBytes } from 'node:crypto';
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
const [shape = '', kind = ''] = process.argv.slice(2);

let made = 0;
/** @type {Record<string, () => { policy: object, cmd?: string }>} */
const shapes = {
  ordinary: () => ({ policy: { allowed_tools: ['search', 'fetch'], max_cost_usd: 5 } }),
  empty: () => ({ policy: {} }),
  'many tools': () => ({
    policy: { allowed_tools: Array.from({ length: 500 }, (_, at) => `t${at}-${made}`) },
  }),
  'empty tools': () => ({ policy: { allowed_tools: Array(4000).fill('') } }),
  'many small nodes': () => ({ policy: { x: Array.from({ length: 3000 }, () => []) } }),
  'objects of names of their own': () => ({
    policy: { x: Array.from({ length: 1000 }, (_, at) => ({ [`k${at}-${made}`]: {} })) },
  }),
  'members of names of their own': () => ({
    policy: Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`m${at}-${made}`, at])),
  }),
  'texts beyond Latin-1': () => ({
    policy: { allowed_tools: ['日本'.repeat(200)] },
    cmd: `/${'語'.repeat(300)}`,
  }),
};

const segment = (/** @type {unknown} */ value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const did = () => `did:key:z6Mk${randomBytes(33).toString('base64url')}`;

function makeReceipt() {
  made++;
  const claims = {
    ...{ aud: did(), cmd: '/mcp/tools/call', drs_type: 'delegation-receipt', drs_v: '4.0', exp: 2e9, iat: 1 },
    ...{ iss: did(), jti: `dr:${randomBytes(16).toString('hex')}`, nbf: 1, prev_dr_hash: null, sub: did() },
    ...shapes[shape]?.(),
  };
  const header = segment({ alg: 'EdDSA', typ: 'JWT' });
  // Cut out of a larger text, as it may come from a caller in this process.
  const body = `${'x'.repeat(2000)} ${header}.${segment(claims)}.${randomBytes(64).toString('base64url')}`;
  const jwt = body.slice(2001);
  const parts = parseCompactJwt(jwt);
  if (parts.defect !== undefined) throw new Error(parts.defect);
  const read = readReceiptClaims(parts.payload, { isRoot: true, underHumanRoot: false });
  if (read.defect !== undefined) throw new Error(`${read.defect.claim}: ${read.defect.expected}`);
  const receipt = new Receipt(jwt, parts, read.claims, read.limits, true);
  if (receipt.digest === '') throw new Error('no digest');
  return receipt;
}

const collect = /** @type {() => void} */ (/** @type {unknown} */ (globalThis.gc));
const held = async () => {
  // What other threads and pending turns of the event loop still hold is released between the rounds.
  for (let round = 0; round < 8; round++) {
    collect();
    await setTimeout(10);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

function fill() {
  const cache = new ReceiptCache(6_000_000);
  while (cache.stats.evictions < 20) {
    const receipts = Array.from({ length: kind === 'receipt' ? 1 : 3 }, makeReceipt);
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

// The first cache is thrown away: it leaves behind the code and the feedback that V8 keeps of filling one.
fill();
const before = await held();
const cache = fill();
const after = await held();
console.log(JSON.stringify({ counted: cache.stats.bytes, held: after - before }));
