import { runInNewContext, runInThisContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { generateKey, issueInvocation } from '../../src/issue/index.js';
import { drsMcp } from '../../src/middleware/mcp/index.js';
import { createVerifier as createPureVerifier } from '../../src/pure/index.js';
import { sodium } from '../../src/signatures/sodium.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { liveCall, liveChain, OPEN, encode } from '../middleware/call.js';
import { askMcp } from '../support/mcp-message.js';

/**
 * Values that no parser makes. A verifier that throws for one is a fault of its caller's code, and one that takes long for one stops
 * it. The lists would take seconds, and the value that doubles itself for ever, if all of them were read.
 */

const args = { tool: 'search' };
const bundle = liveCall(liveChain(1), args);
const [jwt] = bundle.receipts;

const throwing = (name: string, value: object = {}) =>
  Object.defineProperty({ ...value }, name, {
    enumerable: true,
    get: () => {
      throw new Error('read');
    },
  });
function revoked(value: object): object {
  const { proxy, revoke } = Proxy.revocable(value, {});
  revoke();
  return proxy;
}
const endless = new Proxy([], {
  get: (_, name) => (name === 'length' ? Number.MAX_SAFE_INTEGER : jwt),
});
let doubled: object = {};
for (let level = 0; level < 60; level++) doubled = [doubled, doubled];

const BUNDLES: Record<string, readonly [bundle: unknown, code: string]> = {
  'a list of 10^8 holes': [{ ...bundle, receipts: new Array(1e8) }, 'MALFORMED_BUNDLE'],
  'a receipt and a hole': [{ ...bundle, receipts: Object.assign([jwt], { length: 2 }) }, 'MALFORMED_BUNDLE'],
  'a receipt and 10^8 holes': [
    { ...bundle, receipts: Object.assign([jwt], { length: 1e8 }) },
    'MALFORMED_BUNDLE',
  ],
  'a list without an end': [{ ...bundle, receipts: endless }, 'CHAIN_TOO_DEEP'],
  'a list of more receipts than may be': [{ ...bundle, receipts: new Array(17).fill(jwt) }, 'CHAIN_TOO_DEEP'],
  'a revoked proxy': [revoked({}), 'MALFORMED_BUNDLE'],
  'a revoked list': [{ ...bundle, receipts: revoked([]) }, 'MALFORMED_BUNDLE'],
  'a receipt that is a revoked proxy': [{ ...bundle, receipts: [revoked([])] }, 'MALFORMED_BUNDLE'],
  'a version that throws': [throwing('bundle_version', bundle), 'MALFORMED_BUNDLE'],
  'receipts that throw': [throwing('receipts', bundle), 'MALFORMED_BUNDLE'],
  'a receipt that throws': [{ ...bundle, receipts: throwing('0', [jwt]) }, 'MALFORMED_BUNDLE'],
  'a list with a receipt that throws': [
    {
      ...bundle,
      receipts: Object.defineProperty([jwt], '0', {
        get: () => {
          throw new Error('read');
        },
      }),
    },
    'MALFORMED_BUNDLE',
  ],
  'an invocation that throws': [throwing('invocation', bundle), 'MALFORMED_BUNDLE'],
  'a body that throws': [throwing('body', bundle), 'MALFORMED_BUNDLE'],
  'details that throw': [throwing('details', bundle), 'MALFORMED_BUNDLE'],
  'a body that doubles itself': [{ ...bundle, bundle_version: {}, body: doubled }, 'MALFORMED_BUNDLE'],
};
const BODIES: Record<string, unknown> = {
  'a getter that throws': throwing('tool'),
  'a member that is revoked': { ...args, more: revoked({}) },
  'a list of 10^8 holes': { ...args, more: new Array(1e8) },
  'a value that doubles itself': { ...args, more: doubled },
  'a value that contains itself': Object.assign(
    { ...args },
    {
      get self() {
        return this;
      },
    },
  ),
};

/** A value of another realm, as code gets them in Jest. */
const elsewhere = (code: string): unknown => runInNewContext(`(${code})`);

const VERIFIERS = {
  createVerifier: createVerifier({ workerThreads: 0 }),
  pure: createPureVerifier({ sodium }),
};

describe.each(Object.entries(VERIFIERS))('%s', (_, verifier) => {
  it.each(Object.entries(BUNDLES))('has a verdict on %s', async (_, [value, code]) => {
    expect((await verifier.verify(value)).error?.code).toBe(code);
  });

  it.each(Object.entries(BODIES))('compares no body that has %s', async (_, body) => {
    expect(await verifier.verify(bundle, { body })).toMatchObject({
      valid: true,
      binding: expect.stringMatching(/^(mismatch|invalid_body)$/) as string,
    });
    expect(await verifier.verify({ ...bundle, body })).toMatchObject({
      valid: true,
      binding: expect.stringMatching(/^(mismatch|invalid_body)$/) as string,
    });
  });

  it('reads no list that is longer than what can have been signed', async () => {
    let reads = 0;
    const more = new Proxy(new Array<number>(1e6).fill(0), {
      get: (list, name) => {
        reads++;
        return Reflect.get(list, name) as unknown;
      },
    });
    expect(await verifier.verify(bundle, { body: { ...args, more } })).toMatchObject({ binding: 'mismatch' });
    expect(reads).toBeLessThan(100);
  });

  it('takes a body of the signed arguments, of any realm', async () => {
    const made = [{ ...args }, structuredClone(args), elsewhere('({ tool: "search" })')];
    for (const body of [...made, elsewhere('JSON.parse(`{"tool":"search"}`)')])
      expect(await verifier.verify(bundle, { body })).toMatchObject({ binding: 'match' });
    const given = { ...(elsewhere('({})') as object), ...bundle };
    expect(await verifier.verify(given, { body: args })).toMatchObject({ binding: 'match' });
  });

  it('takes no body that JSON does not make, of any realm', async () => {
    const others = ['new Date()', 'new Map()', 'new (class A {})()', 'Object.create({ tool: "search" })'];
    for (const code of [...others, 'Object.create(Object.create(null))', '() => 0'])
      for (const body of [elsewhere(code), runInThisContext(`(${code})`) as unknown])
        expect([code, (await verifier.verify(bundle, { body })).binding]).toEqual([code, 'invalid_body']);
  });
});

it.each(Object.entries(BODIES))('a handler of MCP gets no request with %s', async (_, body) => {
  const protection = drsMcp({ ...OPEN, verifier: VERIFIERS.createVerifier, onError: () => undefined });
  const _meta = { 'X-DRS-Bundle': encode(bundle) };
  for (const params of [
    { name: 'search', arguments: body, _meta },
    throwing('arguments', { name: 'search', _meta }),
    revoked({}),
  ])
    await expect(askMcp(protection, { method: 'tools/call', params }, () => 'served')).rejects.toMatchObject({
      code: -32010,
    });
});

it('no call is signed under a chain that no parser makes', async () => {
  for (const chain of [[jwt, ...new Array<string>(1)], new Array<string>(1e8), revoked([])]) {
    const call = { key: generateKey(), chain: chain as string[], args, toolServer: 'https://a.example' };
    await expect(Promise.resolve().then(() => issueInvocation(call))).rejects.toThrow();
  }
});
