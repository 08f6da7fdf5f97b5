import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebKeys } from '../../src/trust/did-web.js';
import { readRoot, type TrustedRoot } from '../../src/trust/read-root.js';
import { createVerifier, type Verifier } from '../../src/index.js';
import type { JsonValue } from '../../src/protocol/json.js';
import type { Root } from '../../src/verify/parts.js';
import { childClaims, HEADER, invocationClaims, party, rootClaims, signJwt } from '../support/chain.js';
import type { Party } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { holdLimits } from '../support/held-limits.js';
import { documentOf, DocumentServer, newKey, type NamedKey } from './documents.js';

const addresses = ['127.0.0.1'];
const noRoot = { root: false };
const [first, second, third] = [newKey('1'), newKey('2'), newKey('3')];
const [fourth, fifth] = [newKey('4'), newKey('5')];
/** Ends the fetches that have begun, and the calls that wait for them. */
const giveUp = holdLimits(5_000);

let server: DocumentServer;
const closing: (() => Promise<void> | void)[] = [];
beforeEach(async () => {
  server = await DocumentServer.start();
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await server.close();
});

/** A row of the name, read as from a file. */
function rowOf(name: string, more: Partial<TrustedRoot> = {}): readonly [string, Root] {
  const did = server.didOf(name);
  const read = readRoot({ did, addresses, ...more } as unknown as JsonValue);
  if (!('key' in read)) throw new Error(JSON.stringify(read));
  return [read.key, read.value];
}

function openKeys(rows: readonly (readonly [string, Root])[], now?: () => number) {
  const logged: [facts: object, message: string][] = [];
  const log = (facts: object, message: string) => void logged.push([facts, message]);
  const keys = new WebKeys({ log: { info: log, warn: log }, ...(now && { now }) });
  closing.push(() => keys.close());
  keys.follow(rows);
  return { keys, logged };
}

const ready = async (keys: WebKeys, ...names: readonly string[]) => {
  for (const name of names) await keys.whenReady(server.didOf(name));
};

/** The parties of a bundle. */
const publishAll = (...more: readonly NamedKey[]) => ({
  root: server.publish('acme', first, ...more),
  agent: server.publish('agent', second, ...more),
  helper: server.publish('helper', third, ...more),
});

function openVerifier(...rows: readonly (readonly [name: string, more?: Partial<TrustedRoot>])[]): Verifier {
  const trustedRoots = rows.map(([name, more]) => ({ did: server.didOf(name), addresses, ...more }));
  const verifier = createVerifier({ workerThreads: 0, trustedRoots });
  closing.push(() => verifier.close());
  return verifier;
}

const codeOf = async (verifier: Verifier, bundle: unknown) => {
  const verdict = await verifier.verify(bundle);
  return verdict.valid ? 'valid' : verdict.error.code;
};

/** Holds all answers back. */
function holdAnswers(): (() => void)[] {
  const held: (() => void)[] = [];
  server.respond = ({ url = '' }, response) =>
    void held.push(() => server.answer(url.split('/')[1] ?? '', response));
  return held;
}

/** A bundle of two receipts. */
function bundleOf(root: Party, agent: Party, helper: Party, kids: readonly (string | undefined)[] = []) {
  const header = (at: number) => ({ ...HEADER, ...(kids[at] !== undefined && { kid: kids[at] }) });
  const top = signJwt(rootClaims(root, agent), root, header(0));
  const receipts = [top, signJwt(childClaims(top, root, agent, helper), agent, header(1))];
  const invocation = signJwt(invocationClaims(receipts, root, helper), helper, header(2));
  return { bundle_version: '4.0', receipts, invocation };
}

describe('the first call after a start', () => {
  it('waits for the documents of its chain, and no other call asks for them again', async () => {
    const { root, agent, helper } = publishAll();
    server.publish('idle', fourth);
    const held = holdAnswers();
    const verifier = openVerifier(['acme'], ['agent', noRoot], ['helper', noRoot], ['idle']);
    const bundle = bundleOf(root, agent, helper);
    const answered = vi.fn();
    const calls = Array.from({ length: 50 }, () => codeOf(verifier, bundle).finally(answered));
    await eventually(() => expect(held).toHaveLength(4));
    expect(answered).not.toHaveBeenCalled();
    for (const answer of held) answer();
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['valid']));
    expect([...server.asked.values()]).toEqual([1, 1, 1, 1]);
  });

  it('waits for 5 s at most, and then none waits', async () => {
    const root = server.publish('acme', first);
    server.respond = () => undefined;
    const verifier = openVerifier(['acme']);
    const bundle = bundleOf(root, party(), party());
    const answered = vi.fn();
    const call = codeOf(verifier, bundle).finally(answered);
    await eventually(() => expect(server.inFlight).toBe(1));
    expect(answered).not.toHaveBeenCalled();
    // That of the fetch, and that of the calls. What waited after that would wait for ever.
    expect(giveUp()).toBe(2);
    expect(await call).toBe('DID_RESOLUTION_FAILED');
    expect(await codeOf(verifier, bundle)).toBe('DID_RESOLUTION_FAILED');
  });

  it('does not wait where it is malformed, for others, or for a did:key', async () => {
    const root = server.publish('acme', first);
    // A call that waited would wait for ever.
    server.respond = () => undefined;
    const [alice, agent] = [party(), party()];
    const verifier = openVerifier(['acme'], ['other']);
    const broken = bundleOf(root, agent, agent);
    expect(await codeOf(verifier, { ...broken, receipts: [] })).toBe('EMPTY_CHAIN');
    const shorter = { ...broken, receipts: broken.receipts.slice(0, 1) };
    expect(await codeOf(verifier, shorter)).toBe('CHAIN_REFERENCE_MISMATCH');
    expect(await codeOf(verifier, bundleOf(alice, agent, agent))).toBe('UNTRUSTED_ROOT');
  });
});

describe('a did:web', () => {
  it.each<[string, readonly (string | undefined)[], string]>([
    ['without a kid', [undefined, undefined, undefined], 'valid'],
    ['whose kid is its id', ['acme#1', 'agent#2', 'helper#3'], 'valid'],
    ['whose kid is a fragment', ['#1', '2', '#3'], 'valid'],
    ['whose kid is of nobody', ['9', 'did:key:z6Mk', ''], 'valid'],
    ['whose kid is that of another DID', ['agent#5', 'acme#5', 'acme#5'], 'valid'],
    ["whose root's kid is that of another key", ['#5'], 'INVALID_SIGNATURE'],
    ["whose agent's kid is that of another key", [undefined, 'agent#5'], 'INVALID_SIGNATURE'],
    ["whose helper's kid is another key's", [undefined, undefined, '5'], 'INVALID_INVOCATION_SIGNATURE'],
  ])('%s is judged by its keys', async (_, kids, code) => {
    const { root, agent, helper } = publishAll(fifth);
    const verifier = openVerifier(['acme'], ['agent', noRoot], ['helper', noRoot]);
    const named = kids.map((kid) =>
      kid?.replace(/^(\w+)#/, (_all, name: string) => `${server.didOf(name)}#`),
    );
    const bundle = bundleOf(root, agent, helper, named);
    expect(await codeOf(verifier, bundle)).toBe(code);
    expect(await codeOf(verifier, bundle)).toBe(code);
  });

  it.each([
    [[first, second, third, fourth, fifth], '4', 'valid'],
    [[first, second, third, fourth, fifth], '5', 'INVALID_SIGNATURE'],
  ] as const)('without a kid is tried with four keys', async (keys, name, code) => {
    const { did } = server.publish('acme', ...keys);
    const signing = keys.find((key) => key.name === name) as NamedKey;
    const verifier = openVerifier(['acme']);
    const root = { did, key: signing.key };
    expect(await codeOf(verifier, bundleOf(root, party(), party()))).toBe(code);
    expect(await codeOf(verifier, bundleOf(root, party(), party(), [name]))).toBe('valid');
  });

  it('has to have a row, as a root and as a delegate, and a root one that trusts it', async () => {
    const root = server.publish('acme', first);
    const agent = server.publish('agent', second);
    const [alice, bot] = [party(), party()];
    const verifier = openVerifier(['acme', noRoot], ['rooted']);
    expect(await codeOf(verifier, bundleOf(root, bot, alice))).toBe('UNTRUSTED_ROOT');
    expect(await codeOf(verifier, bundleOf(agent, bot, alice))).toBe('UNRESOLVABLE_DID');
    const rooted = server.publish('rooted', third);
    await eventually(async () => expect(await codeOf(verifier, bundleOf(rooted, root, alice))).toBe('valid'));
    expect(await codeOf(verifier, bundleOf(rooted, agent, alice))).toBe('UNRESOLVABLE_DID');
    expect(await codeOf(verifier, bundleOf(rooted, bot, agent))).toBe('UNRESOLVABLE_DID');
    expect(server.timesAsked('agent')).toBe(0);
  });

  it('whose document has no key resolves to nothing', async () => {
    const root = server.publish('acme');
    expect(await codeOf(openVerifier(['acme']), bundleOf(root, party(), party()))).toBe('UNRESOLVABLE_DID');
  });

  it.each<[string, string | undefined, string]>([
    ['is another DID’s', documentOf('did:web:b.example', [first]), 'malformed'],
    ['is too large', `${documentOf('x', [first])}${' '.repeat(65_536)}`, 'too_large'],
    ['is not there', undefined, 'http_status'],
  ])('whose document %s is unknown, which is logged once', async (_, body, fault) => {
    const { did, key } = server.publish('acme', first);
    if (body === undefined) server.documents.delete('acme');
    else server.documents.set('acme', body);
    const bundle = bundleOf({ did, key }, party(), party());
    expect(await codeOf(openVerifier(['acme']), bundle)).toBe('DID_RESOLUTION_FAILED');
    const { keys, logged } = openKeys([rowOf('acme')]);
    const asked = server.timesAsked('acme');
    await ready(keys, 'acme');
    expect(keys.keysOf(did, null)).toBeNull();
    expect(keys.counts).toEqual({ fresh: 0, stale: 0, missing: 1 });
    await eventually(() => expect(server.timesAsked('acme')).toBeGreaterThan(asked + 2));
    const err = expect.objectContaining({ fault }) as unknown;
    expect(logged).toEqual([[{ did, err, usableUntil: null }, 'the document of a did:web cannot be had']]);
    server.publish('acme', first);
    const again = [{ did }, 'the document of a did:web can be had again'];
    await eventually(() => expect(logged.at(-1)).toEqual(again));
    expect(keys.keysOf(did, null)).toHaveLength(1);
  });
});

describe('a key that is not published any more', () => {
  it.each(['acme', 'agent', 'helper'])('ends what it signed as %s, in the cache, too', async (gone) => {
    const { root, agent, helper } = publishAll();
    const often = { key_fresh_secs: 1 };
    const delegate = { ...noRoot, ...often };
    const verifier = openVerifier(['acme', often], ['agent', delegate], ['helper', delegate]);
    const bundle = bundleOf(root, agent, helper);
    for (let call = 0; call < 3; call++) expect(await codeOf(verifier, bundle)).toBe('valid');
    server.publish(gone, fourth);
    const code = gone === 'helper' ? 'INVALID_INVOCATION_SIGNATURE' : 'INVALID_SIGNATURE';
    await eventually(async () => expect(await codeOf(verifier, bundle)).toBe(code));
  });

  it('is withdrawn with all others by a document without any, but not by an answer that is none', async () => {
    const { did } = server.publish('acme', first);
    const { keys } = openKeys([rowOf('acme', { key_fresh_secs: 1 })]);
    await ready(keys, 'acme');
    const { version } = keys;
    server.documents.delete('acme');
    await eventually(() => expect(keys.counts.stale).toBe(1));
    expect([keys.version, keys.keysOf(did, null)?.length, keys.counts.stale]).toEqual([version, 1, 1]);
    server.publish('acme');
    await eventually(() => expect(keys.keysOf(did, null)).toEqual([]));
    expect(keys.version).toBeGreaterThan(version);
  });
});

describe('documents', () => {
  it('are asked for again before they are too old, and no call waits', async () => {
    for (const name of ['acme', 'other']) server.publish(name, first);
    const started = performance.now();
    const { keys } = openKeys(['acme', 'other'].map((name) => rowOf(name, { key_fresh_secs: 1 })));
    await ready(keys, 'acme', 'other');
    await eventually(() => expect(server.timesAsked('acme')).toBeGreaterThan(2), 10);
    expect(performance.now() - started).toBeGreaterThan(1_550);
    expect(new Set(server.statuses)).toEqual(new Set([200]));
    server.respond = ({ url }, response) => {
      if (url?.startsWith('/other/') === true) server.answer('other', response);
    };
    const last = server.timesAsked('acme') + 1;
    await eventually(() => expect(server.timesAsked('acme')).toBe(last));
    expect(keys.whenReady(server.didOf('acme'))).toBeNull();
    expect([keys.opening, keys.keysOf(server.didOf('acme'), null)?.length]).toEqual([0, 1]);
    // Until it is answered, it is not asked for again, though its time passes as that of others does.
    const asked = server.timesAsked('other');
    await eventually(() => expect(server.timesAsked('other')).toBeGreaterThan(asked + 2));
    expect(server.timesAsked('acme')).toBe(last);
  });

  it('are usable for a day at most, or for what the row says', async () => {
    let now = Date.now();
    server.publish('day', first);
    server.publish('hour', second);
    const { keys } = openKeys([rowOf('day'), rowOf('hour', { key_stale_secs: 3_600 })], () => now);
    await ready(keys, 'day', 'hour');
    server.documents.clear();
    const { version } = keys;
    const lengthOf = (name: string) => keys.keysOf(server.didOf(name), null)?.length;
    const found = () => [keys.version - version, lengthOf('day'), lengthOf('hour')];
    now += 3_599_999;
    expect(found()).toEqual([0, 1, 1]);
    now += 1;
    expect(found()).toEqual([1, 1, undefined]);
    now += 86_400_000 - 3_600_001;
    expect(found()).toEqual([1, 1, undefined]);
    now += 1;
    expect(found()).toEqual([2, undefined, undefined]);
    expect(keys.counts).toEqual({ fresh: 0, stale: 0, missing: 2 });
  });

  it('whose age nobody knows are not usable', async () => {
    let now = Date.now();
    server.publish('acme', first);
    const { keys } = openKeys([rowOf('acme', { key_fresh_secs: 1 })], () => now);
    await ready(keys, 'acme');
    now -= 3_600_000;
    await eventually(() => expect(server.statuses.length).toBeGreaterThan(2));
    expect(keys.keysOf(server.didOf('acme'), null)).toHaveLength(1);
    server.documents.clear();
    now -= 3_600_000;
    await eventually(() => expect(keys.keysOf(server.didOf('acme'), null)).toBeNull());
  });

  it('are followed as the rows are', async () => {
    for (const name of ['stays', 'goes', 'moves']) server.publish(name, first);
    const { keys } = openKeys([rowOf('stays'), rowOf('goes'), rowOf('moves')]);
    await ready(keys, 'stays', 'goes', 'moves');
    const { version } = keys;
    keys.follow([rowOf('stays', { name: 'Acme' }), rowOf('moves', { key_stale_secs: 600 }), rowOf('comes')]);
    expect(keys.version).toBe(version + 2);
    expect(keys.opening).toBe(2);
    const found = ['stays', 'goes', 'moves', 'comes'].map((name) => keys.keysOf(server.didOf(name), null));
    expect(found).toEqual([[expect.anything()], [], null, null]);
    await ready(keys, 'moves', 'comes');
    await eventually(() => expect(keys.opening).toBe(0));
    expect([...server.asked.values()]).toEqual([1, 1, 2, 1]);
    expect(keys.keysOf(server.didOf('moves'), null)).toHaveLength(1);
    keys.follow([]);
    expect(keys.counts).toEqual({ fresh: 0, stale: 0, missing: 0 });
  });

  it('are fetched 64 at once, whatever others do', async () => {
    const names = Array.from({ length: 200 }, (_, at) => `n${at}`);
    for (const name of names) server.publish(name, first);
    const held = holdAnswers();
    const { keys } = openKeys(names.map((name) => rowOf(name)));
    await eventually(() => expect(held).toHaveLength(64));
    // One more comes in the place of one. What came too early would have come before it.
    held[0]?.();
    await eventually(() => expect(held).toHaveLength(65));
    server.respond = null;
    for (const answer of held.slice(1)) answer();
    await eventually(() => expect(keys.counts).toEqual({ fresh: 200, stale: 0, missing: 0 }));
    expect(server.maxInFlight).toBe(64);
    expect(keys.version).toBe(0);
  });

  it('of rows that went are not waited for, and change nothing', async () => {
    server.publish('acme', first);
    server.respond = () => undefined;
    const { keys, logged } = openKeys([rowOf('acme')]);
    const opening = keys.whenReady(server.didOf('acme'));
    await eventually(() => expect(server.inFlight).toBe(1));
    keys.close();
    await opening;
    await eventually(() => expect(server.inFlight).toBe(0));
    expect([keys.opening, logged]).toEqual([0, []]);
  });

  it('cost one comparison where there are none', () => {
    const now = vi.fn(() => 0);
    const { keys } = openKeys([], now);
    expect([keys.version, keys.opening, now.mock.calls.length]).toEqual([0, 0, 0]);
    const { did } = party();
    expect(keys.keysOf(did, 'x')).toEqual([keys.publicKeyOf(did)]);
    expect(keys.verificationMethodOf('did:key:z1')).toBe('did:key:z1#z1');
  });
});
