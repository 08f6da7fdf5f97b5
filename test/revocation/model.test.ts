import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, expect, test, vi } from 'vitest';
import { openRevocation, type Revocation } from '../../src/revocation/index.js';
import type { Target } from '../../src/revocation/entry.js';
import { asked, digest } from './entries.js';
import { ListServer } from './list-server.js';
import { bitsWith, credentialWith, encode, LIST_ID } from './lists.js';
import { Recorder } from './recorder.js';

const START = Date.parse('2026-06-01T12:00:00Z');
const TTL = 100;
const MAX_STALE = 50;
const ENTRIES = 64;
const NAMES = [digest('0'), digest('a'), 'did:key:z1', 'did:key:z2'];

/** A list, and the second at which its validity ends. */
interface List {
  readonly revoked: readonly number[];
  readonly validUntil: number;
}

/** The model: the required behaviour in the simplest form. Times are seconds since the start. */
interface Model {
  now: number;
  readonly local: Set<Target>;
  served: List;
  isServerUp: boolean;
  copy: List & { readonly fetchedAt: number };
  lastFetch: number;
}

/** The code under test, and what it works with. */
interface Real {
  revocation: Revocation;
  readonly recorder: Recorder;
  readonly server: ListServer;
  readonly storePath: string;
  readonly clock: { now: number };
}

type Command = fc.AsyncCommand<Model, Real>;

function open({ recorder, server, storePath, clock }: Omit<Real, 'revocation'>): Promise<Revocation> {
  return openRevocation({
    storePath,
    statusList: { url: server.url, id: LIST_ID, ttlSecs: TTL, maxStaleSecs: MAX_STALE, maxWaitMs: 2_000 },
    maxEntries: 1_000,
    log: recorder.log,
    observer: recorder,
    now: () => START + clock.now * 1000,
  });
}

function serve(server: ListServer, { isServerUp, served: { revoked, validUntil } }: Model): void {
  if (!isServerUp) {
    server.reset();
    return;
  }
  const list = credentialWith([], {
    validUntil: new Date(START + validUntil * 1000).toISOString(),
    credentialSubject: { encodedList: encode(bitsWith(revoked, ENTRIES)) },
  });
  server.serve('application/vc', JSON.stringify(list), `"${[...revoked, 'until', validUntil].join(' ')}"`);
}

function fetchInModel(model: Model): boolean {
  const succeeds = model.isServerUp && model.now < model.served.validUntil;
  if (succeeds) model.copy = { ...model.served, fetchedAt: model.now };
  model.lastFetch = model.now;
  return succeeds;
}

/** At most one fetch starts in a second; jitter makes it up to a quarter longer, so no program asks in between. */
const mayFetch = ({ now, lastFetch }: Model) => now >= lastFetch + 1.25 || now < lastFetch;

function isUsable({ now, copy: { fetchedAt, validUntil } }: Model): boolean {
  return now >= fetchedAt && now < Math.min(fetchedAt + TTL + MAX_STALE, validUntil);
}

function isFresh({ now, copy: { fetchedAt, validUntil } }: Model): boolean {
  return now >= fetchedAt && now - fetchedAt < 0.8 * Math.min(TTL, validUntil - fetchedAt);
}

function expectAnswers({ copy, local }: Model, { view }: Revocation, index: number, isUsable = true): void {
  const inList = copy.revoked.includes(index) ? 'revoked' : 'not_revoked';
  expect(view.remoteStatusOf(index)).toBe(
    isUsable ? (index < ENTRIES ? inList : 'out_of_range') : 'unavailable',
  );
  expect(view.isRevokedLocally(index)).toBe(local.has(index));
  expect(view.names !== null).toBe(NAMES.some((name) => local.has(name)));
  for (const name of NAMES) expect(view.isNameRevoked(name)).toBe(local.has(name));
}

const verify = (index: number): Command => ({
  check: () => true,
  toString: () => `verify(${index})`,
  async run(model, { revocation, recorder }) {
    const ended = recorder.outcomes.length;
    const fetches = !isFresh(model) && mayFetch(model);
    const waiting = revocation.refreshIfStale();
    // It waits only if there is no usable copy and a fetch has been started.
    expect(waiting !== null).toBe(!isUsable(model) && fetches);
    if (waiting === null) expectAnswers(model, revocation, index, isUsable(model));
    if (!fetches) {
      expect(recorder.outcomes).toHaveLength(ended);
      return;
    }
    await (waiting ?? recorder.fetched(ended + 1));
    fetchInModel(model);
    expectAnswers(model, revocation, index, isUsable(model));
    await recorder.fetched(ended + 1);
    expect(recorder.outcomes).toHaveLength(ended + 1);
  },
});

const revoke = (targets: readonly Target[]): Command => ({
  check: () => true,
  toString: () => `revoke(${targets.join(', ')})`,
  async run(model, { revocation }) {
    await Promise.all(targets.map((target) => revocation.revoke(asked(target))));
    for (const target of targets) model.local.add(target);
    const { entries } = revocation.store;
    expect(entries.size).toBe(model.local.size);
    expect(new Set(Array.from(entries.values(), ({ target }) => target))).toEqual(model.local);
  },
});

const publish = (revoked: readonly number[], validFor: number): Command => ({
  check: () => true,
  toString: () => `publish([${revoked.join(', ')}], ${validFor})`,
  run(model, { server }) {
    model.served = { revoked, validUntil: model.now + validFor };
    serve(server, model);
    return Promise.resolve();
  },
});

const turnServer = (isServerUp: boolean): Command => ({
  check: (model) => model.isServerUp !== isServerUp,
  toString: () => `turnServer(${isServerUp})`,
  run(model, { server }) {
    model.isServerUp = isServerUp;
    serve(server, model);
    return Promise.resolve();
  },
});

const pass = (secs: number): Command => ({
  check: () => true,
  toString: () => `pass(${secs})`,
  run(model, { clock }) {
    model.now += secs;
    clock.now += secs;
    return Promise.resolve();
  },
});

const restart: Command = {
  check: () => true,
  toString: () => 'restart()',
  async run(model, real) {
    await real.revocation.close();
    const ended = real.recorder.outcomes.length;
    real.revocation = await open(real);
    await real.recorder.fetched(ended + 1);
    // A copy does not survive its process.
    model.copy = { ...model.copy, validUntil: -Infinity };
    const isFetched = fetchInModel(model);
    expect([real.revocation.unreadyReasons(), real.revocation.store.entries.size]).toEqual([
      isFetched ? [] : ['status_list_not_fetched'],
      model.local.size,
    ]);
    expectAnswers(model, real.revocation, 1, isFetched);
  },
};

afterEach(() => {
  vi.useRealTimers();
});

test('any interleaving of revoke, verify, list update, fetch failure, time passing (also backwards) and restart agrees with the model', async () => {
  // Retries without traffic would come at moments that the model does not know of.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const index = fc.oneof(
    { weight: 5, arbitrary: fc.nat(11) },
    fc.constantFrom(63, 64, 2 ** 32, Number.MAX_SAFE_INTEGER),
  );
  const commands = [
    index.map(verify),
    index.map(verify),
    fc
      .array(fc.oneof({ weight: 3, arbitrary: index }, fc.constantFrom(...NAMES)), {
        minLength: 1,
        maxLength: 4,
      })
      .map(revoke),
    fc
      .tuple(fc.uniqueArray(fc.nat(11)), fc.constantFrom(30, 120, 100_000))
      .map(([revoked, secs]) => publish(revoked, secs)),
    fc.boolean().map(turnServer),
    fc.constantFrom(0.5, 2, 20, 49, 50, 80, 100, 150, -3, -200).map(pass),
    fc.constant(restart),
  ];
  const folder = await mkdtemp(join(tmpdir(), 'drs-model-'));
  const server = await ListServer.start();
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.commands(commands, { size: '+1' }), async (program) => {
      const model: Model = {
        now: 0,
        local: new Set(),
        served: { revoked: [1], validUntil: 100_000 },
        isServerUp: true,
        copy: { revoked: [1], validUntil: 100_000, fetchedAt: 0 },
        lastFetch: 0,
      };
      serve(server, model);
      const recorder = new Recorder();
      const deps = { recorder, server, storePath: join(folder, `${run++}.txt`), clock: { now: 0 } };
      const real: Real = { ...deps, revocation: await open(deps) };
      await recorder.fetched(1);
      try {
        await fc.asyncModelRun(() => ({ model, real }), program);
      } finally {
        await real.revocation.close();
      }
    }),
    { numRuns: 25 },
  );
  await server.close();
  await rm(folder, { recursive: true });
}, 180_000);
