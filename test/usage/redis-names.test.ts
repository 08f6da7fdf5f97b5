import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useInvocation, openRedisReplayStore, replayKey, type ReplayStore } from '../../src/usage/index.js';
import {
  counterPatternOf,
  limitedNamesOf,
  nameOf,
  olderNamesOf,
  previousNameOf,
} from '../../src/usage/redis-names.js';
import { Failure } from '../../src/verify/codes.js';
import { command } from './redis-cluster.js';
import { RedisServer } from './redis-server.js';
import { needs } from '../support/programs.js';

const NOW = 1_800_000_000;
const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 0 };
const codeIn = (used: Awaited<ReturnType<typeof useInvocation>>) =>
  used instanceof Failure ? used.code : used;
const ISS = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';

// Written down again here, from the code of each version: what the store under test makes of them proves nothing.
const plain = (jti: string) => `6:verify${ISS.length}:${ISS}${jti}`;
const digest = (text: string) => createHash('sha256').update(text).digest().toString('base64url', 0, 16);
const FORMS: readonly (readonly [string, (jti: string) => string])[] = [
  ['without a scope', (jti) => `drs:replay:${ISS.length}:${ISS}${jti}`],
  ['in plain text', (jti) => `drs:replay:${plain(jti)}`],
  [
    'of a long invocation',
    (jti) => `drs:replay:sha256:${createHash('sha256').update(plain(jti)).digest('hex')}`,
  ],
  ['as a digest without a version', (jti) => `drs:replay:${digest(plain(jti))}`],
  ['as a digest with version 2', (jti) => `drs:replay:2:${digest(plain(jti))}`],
];

it('names in Redis are those of docs/spec/usage.md, since other versions and instances look for them', () => {
  const [first, receipt] = ['a', 'b'].map((digit) => `sha256:${digit.repeat(64)}`) as [string, string];
  const names = limitedNamesOf('drs:', first);
  const key = plain('inv:1');
  expect([nameOf('drs:', key), previousNameOf('drs:', key), ...olderNamesOf('drs:', key)]).toEqual([
    ...[`drs:2:${digest(key)}`, `drs:${digest(key)}`],
    ...[`drs:${key}`, `drs:${ISS.length}:${ISS}inv:1`],
  ]);
  expect(olderNamesOf('drs:', 'sha256:1:2')).toEqual(['drs:sha256:1:2', 'drs:sha256:1:2']);
  expect(olderNamesOf('', replayKey('of-ten-and', ISS, 'x'))[1]).toBe(`${ISS.length}:${ISS}x`);
  expect(names.use(key)).toBe(`drs:3:{${digest(first)}}:${digest(key)}`);
  expect(names.counter(receipt)).toBe(`drs:3:{${digest(first)}}#${'b'.repeat(64)}`);
  expect(counterPatternOf('a*-b:', receipt)).toBe(`a\\*\\-b:3:{*}#${'b'.repeat(64)}`);
});

describe('names of replay keys in Redis', needs('redis-server'), () => {
  let redis: RedisServer;
  const stores: ReplayStore[] = [];
  const open = async (periods = {}) => {
    const store = await openRedisReplayStore({ url: redis.url, timeoutMs: 20_000 }, periods);
    stores.push(store);
    return store;
  };
  const codeOf = async (store: ReplayStore, jti: string) =>
    codeIn(await useInvocation({ iss: ISS, jti, iat: NOW, args: {} }, [], store, NOW, rules));
  const namesHere = async () =>
    ((await command(redis, ['KEYS', '*'])) as string[]).filter((name) => name !== 'drs:replay:probe').sort();
  /** What an instance of the version before does with an invocation. @returns whether it lets it pass */
  const recordAsBefore = async (jti: string) =>
    (await command(redis, ['SET', `drs:replay:${digest(plain(jti))}`, '1', 'PX', '961000', 'NX'])) === 'OK';

  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  beforeEach(() => command(redis, ['FLUSHALL']));
  afterAll(async () => {
    for (const store of stores) await store.close();
    await redis.stop();
  });

  it.each(FORMS)('of an older version are honoured after an upgrade: %s', async (form, nameOf) => {
    const jti = form.includes('long') ? `inv:${'x'.repeat(200)}` : 'inv:1';
    await command(redis, ['SET', nameOf(jti), '1', 'PX', '961000']);
    const store = await open();
    expect(await codeOf(store, jti)).toBe('REPLAY_DETECTED');
    expect(await codeOf(store, 'inv:other')).toBeNull();
    // What an instance of that version recorded last lives on when no such instance is left.
    if (!form.endsWith('version 2'))
      expect(await codeOf(await open({ rollMs: 0 }), jti)).toBe('REPLAY_DETECTED');
  });

  it('are those of the version before, too, while its instances may run', async () => {
    const store = await open();
    expect(await codeOf(store, 'inv:1')).toBeNull();
    expect(await recordAsBefore('inv:1')).toBe(false);
    expect(await recordAsBefore('inv:2')).toBe(true);
    expect(await codeOf(store, 'inv:2')).toBe('REPLAY_DETECTED');
    expect(await namesHere()).toEqual(
      [digest(plain('inv:2')), digest(plain('inv:1')), `2:${digest(plain('inv:1'))}`]
        .map((name) => `drs:replay:${name}`)
        .sort(),
    );
  });

  it('are only those of this version later, so that an invocation takes one key', async () => {
    const store = await open({ rollMs: -Infinity });
    expect([await codeOf(store, 'inv:1'), await codeOf(store, 'inv:1')]).toEqual([null, 'REPLAY_DETECTED']);
    expect(await namesHere()).toEqual([`drs:replay:2:${digest(plain('inv:1'))}`]);
  });

  it('let exactly one of many equal calls pass, at instances that started at different times', async () => {
    const all = [
      await open(),
      await open({ rollMs: -Infinity }),
      await open(),
      await open({ rollMs: -Infinity }),
    ];
    for (let round = 0; round < 20; round++) {
      const codes = await Promise.all(
        Array.from({ length: 16 }, (_, at) => codeOf(all[at % 4] as ReplayStore, `inv:${round}`)),
      );
      expect(codes.filter((code) => code === null)).toHaveLength(1);
    }
  });

  it('let exactly one of many equal calls pass during a roll', async () => {
    const both = [await open(), await open()];
    for (let round = 0; round < 20; round++) {
      const [before, ...codes] = await Promise.all([
        recordAsBefore(`inv:${round}`),
        ...Array.from({ length: 8 }, (_, at) => codeOf(both[at % 2] as ReplayStore, `inv:${round}`)),
      ]);
      expect(codes.filter((code) => code === null)).toHaveLength(before ? 0 : 1);
    }
  });
});
