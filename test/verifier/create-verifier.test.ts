import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import threads from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createVerifier, OptionsError, type VerifyOptions } from '../../src/index.js';
import { invoke, makeBundle, makeChain, NOW, sha256, type Chain } from '../support/chain.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'drs-verifier-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('revoke', () => {
  it('ends a chain in the cache, by index, receipt and key', async () => {
    const verifier = createVerifier({ workerThreads: 0, revocationMaxEntries: 3 });
    const ways: ((chain: Chain) => Parameters<typeof verifier.revoke>[0])[] = [
      () => 7,
      ({ receipts }) => ({ receipt: sha256(receipts[0] ?? ''), reason: 'why' }),
      ({ parties }) => ({ did: parties.at(-1)?.did ?? '' }),
    ];
    const chains = ways.map((_, at) => makeChain(3, at === 0 ? { 1: { drs_status_list_index: 7 } } : {}));
    const codes = () =>
      Promise.all(
        chains.map(async (chain) => {
          const verdict = await verifier.verify(invoke(chain));
          return verdict.valid ? 'valid' : verdict.error.code;
        }),
      );
    await codes();
    expect(await codes()).toEqual(['valid', 'valid', 'valid']);
    for (const [at, way] of ways.entries()) await verifier.revoke(way(chains[at] as Chain));
    expect(await codes()).toEqual(['RECEIPT_REVOKED', 'RECEIPT_REVOKED', 'KEY_REVOKED']);
    await expect(verifier.revoke(8)).rejects.toMatchObject({ fault: 'full' });
    await verifier.close();
  });

  it.each([
    -1,
    1.5,
    2 ** 53,
    NaN,
    null,
    'did:key:z1',
    {},
    { did: 'did:key:z1' },
    { status_list_index: 7, until: 1 },
    { receipt: sha256('receipt'), exp: NOW - 3 * 86_400 },
  ])('refuses %o', async (what) => {
    const verifier = createVerifier({ workerThreads: 0 });
    await expect(verifier.revoke(what as never)).rejects.toThrow(/^nothing was revoked: .*expected/);
    await verifier.close();
  });
});

describe('createVerifier', () => {
  it('says what to do where no threads can be started, and leaves nothing open', async () => {
    const revocationStorePath = path.join(folder, 'revocations');
    const spy = vi.spyOn(threads, 'Worker').mockImplementation(function () {
      throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' });
    });
    const opened = createVerifier({ workerThreads: 2, revocationStorePath }).opened();
    await expect(opened.finally(() => spy.mockRestore())).rejects.toThrow(
      'the 2 threads for signatures cannot be started (EAGAIN): allow this process more threads (ulimit -u, pids.max), or lower WORKER_THREADS',
    );
    // The file is not locked.
    const second = createVerifier({ workerThreads: 0, revocationStorePath });
    await second.opened();
    await second.close();
  });

  it('names every wrong option at once', () => {
    const options = { maxChainDepth: 0, trustedRoots: ['x'], statusListBaseUrl: 'nowhere', workerTreads: 1 };
    try {
      createVerifier(options);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(OptionsError);
      expect((error as OptionsError).problems).toEqual([
        expect.stringMatching(/^workerTreads is not an option here, expected one of .*workerThreads/),
        'maxChainDepth is 0: expected a whole number, 1 to 1024',
        'trustedRoots: expected a did:key of an Ed25519 key, found "x"',
        'statusListBaseUrl is "nowhere": expected a URL with http:// or https://',
      ]);
      expect((error as OptionsError).message).toBe((error as OptionsError).problems.join('\n'));
    }
  });

  it.each([
    { maxChainDepth: '4' },
    { maxChainDepth: NaN },
    { maxChainDepth: 1.5 },
    { maxChainDepth: null },
    { trustedRoots: [] },
    { trustedRoots: 'any' },
    { trustedRoots: [7n] },
    { serverIdentity: '' },
    { requireBinding: '0' },
    { requireBinding: 1 },
    { revocationStore: 'disk' },
    { statusListBaseUrl: new URL('https://lists.example') },
    { statusListBaseUrl: 'ftp://lists.example' },
    { statusListBaseUrl: 'https:lists.example' },
    { redisUrl: 'redis://a,http://b' },
    { toString: 1 },
    JSON.parse('{"__proto__": 1}') as object,
  ])('refuses %o', (options) => {
    expect(() => createVerifier(options)).toThrow(new RegExp(`^${Object.keys(options)[0]}(: | is ).+`));
  });

  it.each([{ redisUrl: 'http://:secret@a' }, { statusListBaseUrl: 'secret'.repeat(20) }])(
    'does not show what may be a secret: %o',
    (options) => {
      expect(() => createVerifier(options)).toThrow(/^\w+ is a string: expected (?!.*secret)/);
    },
  );

  it('takes no option that is undefined, and none from a prototype', async () => {
    // The variable was forgotten: without this, everybody would be trusted.
    const forgotten = { trustedRoots: undefined, serverIdentity: 'did:web:tools.example' };
    expect(() => createVerifier(forgotten as object)).toThrow(
      'trustedRoots: it is undefined, expected a value; for the default, leave it out',
    );
    const verifier = createVerifier(Object.create({ maxChainDepth: 1, workerTreads: 1 }) as object);
    expect(await verifier.verify(makeBundle(2))).toMatchObject({ valid: true });
    await verifier.close();
  });

  it('takes calls for any tool server if it is told so', async () => {
    for (const [serverIdentity, code] of [
      ['any', undefined],
      ['https://other.example', 'TOOL_SERVER_MISMATCH'],
    ] as const) {
      const verifier = createVerifier({ workerThreads: 0, serverIdentity });
      expect((await verifier.verify(makeBundle(1), { now: NOW })).error?.code).toBe(code);
      await verifier.close();
    }
  });

  it('uses the current time unless it is told another', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const bundle = makeBundle(2);
    expect(await verifier.verify(bundle)).toMatchObject({ valid: true });
    expect((await verifier.verify(bundle, { now: NOW + 999_999 })).error?.code).toBe('EXPIRED');
    await verifier.close();
  });

  it.each([NaN, Infinity, -Infinity, '1795684800', new Date()])('takes %s for no time', async (now) => {
    const verifier = createVerifier({ workerThreads: 0 });
    const asked = verifier.verify(makeBundle(2), { now: now as number });
    await expect(asked).rejects.toThrow(/^now is .*: expected Unix seconds$/);
    await verifier.close();
  });

  it('refuses an option of a call that it does not know', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const misspelt = { Body: { tool: 'fetch' } } as VerifyOptions;
    await expect(verifier.verify(makeBundle(2), misspelt)).rejects.toThrow(
      /^Body is not an option here, expected one of .*body/,
    );
    await verifier.close();
  });

  it('takes no claim from what someone gave to all objects', async () => {
    const verifier = createVerifier({ workerThreads: 0, receiptCacheBytes: 0 });
    const args = { tool: 'search' };
    const good = invoke(makeChain(2), { args });
    // A human root has to say when it expires.
    const endless = invoke(makeChain(1, { 0: { exp: undefined } }), { args });
    const verify = async () => [
      await verifier.verify(good, { body: args, now: NOW }),
      (await verifier.verify(endless, { now: NOW })).error?.code,
    ];
    const before = await verify();
    expect(before).toMatchObject([{ valid: true, binding: 'match' }, 'MALFORMED_RECEIPT']);
    const given = { exp: NOW + 600, write_access: true, pii_access: true, max_cost_usd: -1 };
    Object.assign(Object.prototype, given);
    try {
      expect(JSON.stringify(await verify())).toBe(JSON.stringify(before));
    } finally {
      for (const name of Object.keys(given)) Reflect.deleteProperty(Object.prototype, name);
    }
    await verifier.close();
  });

  it('keeps concurrent verdicts apart on a pool', async () => {
    const verifier = createVerifier({ workerThreads: 2 });
    const bundles = Array.from({ length: 120 }, (_, at) => makeBundle(1 + (at % 16)));
    const verdicts = await Promise.all(bundles.map((bundle) => verifier.verify(bundle, { now: NOW })));
    expect(verdicts.map(({ context }) => context?.chain_depth)).toEqual(
      bundles.map(({ receipts }) => receipts.length),
    );
    await verifier.close();
  });

  it('remembers local revocations in a file', async () => {
    const revocationStorePath = path.join(folder, 'revoked.txt');
    const bundle = invoke(makeChain(1, { 0: { drs_status_list_index: 77 } }));
    const first = createVerifier({ revocationStorePath, workerThreads: 0 });
    expect(await first.verify(bundle, { now: NOW })).toMatchObject({ valid: true });
    await first.revoke(77);
    expect((await first.verify(bundle, { now: NOW })).error?.code).toBe('RECEIPT_REVOKED');
    await first.close();
    const second = createVerifier({ revocationStorePath, workerThreads: 0 });
    expect((await second.verify(bundle, { now: NOW })).error?.code).toBe('RECEIPT_REVOKED');
    await second.close();
  });

  it('tells that the store cannot be opened, and checks nothing without it', async () => {
    const verifier = createVerifier({
      revocationStorePath: path.join(folder, 'missing', 'revoked.txt'),
      workerThreads: 0,
    });
    await expect(verifier.opened()).rejects.toThrow(/revoked\.txt/);
    await expect(verifier.verify(makeBundle(1))).rejects.toThrow(/revoked\.txt/);
    await verifier.close();
  });

  it('lets the process end once it is closed, and settles what runs', async () => {
    const verifier = createVerifier({ workerThreads: 1 });
    const running = Array.from({ length: 30 }, () => verifier.verify(makeBundle(4), { now: NOW }));
    await verifier.opened();
    await Promise.resolve();
    await verifier.close();
    for (const verdict of await Promise.all(running)) expect(verdict).toMatchObject({ valid: true });
  });
});
