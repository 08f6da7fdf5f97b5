import { afterEach, describe, expect, it, vi } from 'vitest';
import type { RedisConnection } from '../../src/redis/connection.js';
import { RedisMark, type FoundLoss } from '../../src/usage/redis-mark.js';
import { NEW, REPLAYED, type ReplayStore } from '../../src/usage/usage-store.js';
import { useInvocation } from '../../src/usage/use-invocation.js';
import { Failure } from '../../src/verify/codes.js';
import { limitOf } from './limits.js';

/**
 * docs/spec/loss.md as a model: two verifiers, with the mark and the rule as they are, over a Redis that is made of a few
 * values, and all orders of what can happen to it. Whatever happens, no call is allowed twice and no limit is passed, from the
 * moment on at which every verifier has looked; and it ends: calls that are signed later are allowed.
 */

const SKEW_SECS = 30;
const RULES = { scope: 'verify', windowSecs: 900, clockSkewSecs: SKEW_SECS };
/** A minute after the hour, in milliseconds. */
const START = Date.UTC(2026, 0, 1, 0, 1);
const MAX_CALLS = 3;

/** What a Redis holds. */
interface Data {
  mark: string;
  used: Set<string>;
  calls: number;
}

const copyOf = ({ mark, used, calls }: Data): Data => ({ mark, used: new Set(used), calls });
const nothing = (): Data => ({ mark: '', used: new Set(), calls: 0 });

/** A mark without its time, and its time. */
const factsOf = (mark: string) => mark.slice(0, mark.lastIndexOf(' '));
const timeOf = (mark: string) => Number(mark.slice(mark.lastIndexOf(' ') + 1));

/** A Redis, as far as the mark sees it. */
class Redis {
  data = nothing();
  /** What a replica has, and what is on the disk as a snapshot. */
  replica = nothing();
  snapshot: Data | null = null;
  /** Another database, of which a verifier has been long ago. */
  other: Data = { mark: `v1 old run0 repl0 0 0 0 0 ${START - 1e6}`, used: new Set(), calls: 0 };
  evicted = 0;
  serial = 0;
  replId2 = '0';
  readonly aheadMs: number;

  constructor(aheadMs: number) {
    this.aheadMs = aheadMs;
  }

  get runId(): string {
    return `run${this.serial}`;
  }

  replId = 'repl0';

  restart(data: Data): void {
    this.data = copyOf(data);
    this.serial++;
    [this.replId, this.replId2] = [`repl${this.serial}`, '0'];
    this.evicted = 0;
  }

  failOver(): void {
    const { replId } = this;
    this.restart(this.replica);
    this.replId2 = replId;
  }
}

/** A call as an agent signed it. */
interface Signed {
  readonly jti: string;
  readonly iat: number;
}

/** A verifier, with the store of `openRedisReplayStore` without its connection. */
class Verifier {
  readonly #world: World;
  readonly aheadMs: number;
  #mark: RedisMark;
  hasForgotten = false;
  readonly news: FoundLoss[] = [];

  constructor(world: World, aheadMs: number) {
    this.#world = world;
    this.aheadMs = aheadMs;
    this.#mark = this.#begin();
  }

  #begin(): RedisMark {
    return new RedisMark('mark', this.#world.waits, (found) => this.news.push(found));
  }

  /** The process ends, and another begins. */
  restart(): void {
    this.#mark = this.#begin();
    this.hasForgotten = false;
  }

  get now(): number {
    return Math.floor((this.#world.time + this.aheadMs) / 1000);
  }

  /** @param between happens after the mark was read, and before it is written */
  async look(between?: () => Promise<void>): Promise<void> {
    const { redis, time } = this.#world;
    const { runId, replId, replId2, evicted } = redis;
    let isFirst = true;
    const send = async (_: string, [, script = '', , , before = '', after = '']: readonly string[]) => {
      if (script.includes('TIME')) {
        vi.setSystemTime(time + this.aheadMs);
        const at = time + redis.aheadMs;
        return [redis.data.mark, String(Math.floor(at / 1000)), String((at % 1000) * 1000)];
      }
      if (isFirst) await between?.();
      isFirst = false;
      const { mark } = redis.data;
      const isLater = factsOf(mark) === factsOf(before) && timeOf(mark) > timeOf(before);
      if (mark !== before && !isLater) return 0;
      redis.data.mark = isLater ? `${factsOf(after)} ${Math.max(timeOf(mark), timeOf(after))}` : after;
      return 1;
    };
    // Nothing else of a connection is used.
    const connection = { send } as unknown as RedisConnection;
    const { hasForgotten } = this;
    vi.setSystemTime(time + this.aheadMs);
    await this.#mark.look(connection, { runId, replId, replId2, evicted, hasForgotten });
    this.hasForgotten = false;
  }

  /** @param limited whether the call is one of a receipt with `max_calls` */
  async use({ jti, iat }: Signed, limited: boolean, now = this.now): Promise<boolean> {
    const { redis } = this.#world;
    const store: ReplayStore = {
      lostAt: this.#mark.lostAt,
      emptiedAt: this.#mark.emptiedAt,
      unreadyReason: null,
      use: (key, _now, _ttl, charge) => {
        if (redis.data.used.has(key)) return Promise.resolve(REPLAYED);
        if (charge !== null && redis.data.calls >= MAX_CALLS) {
          const reached = {
            level: 0,
            member: 'max_calls' as const,
            limit: MAX_CALLS,
            used: redis.data.calls,
            asked: 1,
            exp: null,
          };
          return Promise.resolve({ kind: 'reached', limit: reached } as const);
        }
        redis.data.used.add(key);
        if (charge === null) return Promise.resolve(NEW);
        redis.data.calls++;
        // Replicas have it before the call is allowed.
        if (this.#world.waits) redis.replica = copyOf(redis.data);
        return Promise.resolve({ kind: 'new', usage: [{ calls: redis.data.calls, microUsd: 0 }] } as const);
      },
      usageOf: () => Promise.resolve(null),
      close: () => Promise.resolve(),
    };
    const claims = { iss: 'did:key:z6Mk', sub: 'did:key:z6Mk', jti, iat, args: {} };
    const limits = limited ? [limitOf('one', { maxCalls: MAX_CALLS, nbf: this.#world.nbf })] : [];
    return !((await useInvocation(claims, limits, store, now, RULES)) instanceof Failure);
  }
}

class World {
  time = START;
  /** Of the receipt with a limit, which was issued before the store was begun, by a clock that was ahead. */
  nbf = START / 1000 + SKEW_SECS - 2;
  readonly waits: boolean;
  readonly redis: Redis;
  readonly verifiers: readonly [Verifier, Verifier];
  readonly allowed: Signed[] = [];
  limitedCalls = 0;
  serial = 0;

  constructor({ waits, redisAheadMs, aheadMs }: (typeof SETTINGS)[number]) {
    this.waits = waits;
    this.redis = new Redis(redisAheadMs);
    this.verifiers = [new Verifier(this, aheadMs[0]), new Verifier(this, aheadMs[1])];
  }

  /** An agent whose clock is as far ahead as may be signs a call, and a verifier is asked. */
  async call(verifier: Verifier, isLimited: boolean): Promise<void> {
    const signed = { jti: `inv:${++this.serial}`, iat: verifier.now + SKEW_SECS };
    if (!(await verifier.use(signed, isLimited))) return;
    this.allowed.push(signed);
    if (isLimited) this.limitedCalls++;
  }

  async look(): Promise<void> {
    for (const verifier of this.verifiers) await verifier.look();
  }
}

/** What can happen. Where `isLive`, connections stay open, so that verifiers do not look before they are asked again. */
const EVENTS: Record<string, (world: World) => void | Promise<void>> = {
  'a call at each': async (world) => {
    for (const verifier of world.verifiers) await world.call(verifier, true);
  },
  'calls without limits': async (world) => {
    for (const verifier of world.verifiers) await world.call(verifier, false);
  },
  'a look of the first': (world) => world.verifiers[0].look(),
  'a look of both at once': async ({ verifiers: [one, other] }) => one.look(() => other.look()),
  'FLUSHALL while one looks, which the other finds': async ({ redis, verifiers: [one, other] }) =>
    one.look(() => {
      redis.data = nothing();
      return other.look();
    }),
  'the snapshot is loaded': ({ redis }) => void (redis.data = copyOf(redis.snapshot ?? redis.data)),
  FLUSHALL: ({ redis }) => void (redis.data = nothing()),
  SWAPDB: ({ redis }) => void ([redis.data, redis.other] = [redis.other, redis.data]),
  'a snapshot': ({ redis }) => void (redis.snapshot = copyOf(redis.data)),
  'a replica that has all': ({ redis }) => void (redis.replica = copyOf(redis.data)),
  'a restart from the snapshot': ({ redis }) => redis.restart(redis.snapshot ?? nothing()),
  'a restart with all': ({ redis }) => redis.restart(redis.data),
  'a fail-over': ({ redis }) => redis.failOver(),
  'a new id without replicas': ({ redis }) =>
    void ([redis.replId, redis.replId2] = [`${redis.replId}x`, '0']),
  'an eviction': ({ redis }) => {
    redis.data = { ...nothing(), mark: redis.data.mark };
    redis.evicted += 7;
  },
  'an eviction that is not counted, which one has seen': ({ redis, verifiers }) => {
    redis.data = { ...nothing(), mark: redis.data.mark };
    redis.evicted = 0;
    verifiers[1].hasForgotten = true;
  },
  'all processes begin anew': ({ verifiers }) => {
    for (const verifier of verifiers) verifier.restart();
  },
  'one process begins anew': ({ verifiers }) => verifiers[0].restart(),
};
const NAMES = Object.keys(EVENTS);
/** What loses nothing. */
const HARMLESS = new Set([
  ...[
    'a call at each',
    'calls without limits',
    'a look of the first',
    'a look of both at once',
    'a snapshot',
  ],
  ...[
    'a replica that has all',
    'a new id without replicas',
    'all processes begin anew',
    'one process begins anew',
  ],
]);

const SETTINGS = [
  { waits: false, redisAheadMs: 0, aheadMs: [0, 0] },
  { waits: true, redisAheadMs: 0, aheadMs: [0, 0] },
  { waits: false, redisAheadMs: 0, aheadMs: [0, 29_000] },
  { waits: false, redisAheadMs: 3_600_400, aheadMs: [-20_000, 3_000] },
] as const;

/** What docs/spec/loss.md says is not found: nobody has looked between the two who could know. */
const HIDDEN = [
  ['SWAPDB', 'all processes begin anew'],
  ['all processes begin anew', 'SWAPDB'],
  ['an eviction that is not counted, which one has seen', 'all processes begin anew'],
  ['an eviction', 'a fail-over'],
  ['an eviction that is not counted, which one has seen', 'a fail-over'],
] as const;

const isHidden = (names: readonly string[]) =>
  HIDDEN.some(([one, other]) => {
    const between = names.slice(names.indexOf(one) + 1, names.lastIndexOf(other));
    return names.includes(one) && names.lastIndexOf(other) > names.indexOf(one) && !between.some(isLook);
  });

/** Before calls, both look. */
const isLook = (name: string) => /^(?:a call|calls|a look of both)/.test(name);

/** What is wrong after these events; `null` if nothing is. */
async function faultAfter(
  names: readonly string[],
  setting: (typeof SETTINGS)[number],
): Promise<string | null> {
  if (isHidden(names)) return null;
  const world = new World(setting);
  const [one, other] = world.verifiers;
  // The very first look makes the mark; calls are allowed from a window later on.
  await world.look();
  world.time += 100_000;
  await world.look();
  for (const verifier of world.verifiers) await world.call(verifier, true);
  if (world.limitedCalls !== 0) return 'a limit from before a new store is counted from 0';
  world.nbf += 100;
  await world.call(one, true);
  await world.call(other, false);
  if (world.allowed.length !== 2) return 'calls are refused long after a new store was begun';
  const begun = one.news.length + other.news.length;
  for (const name of [...names, 'the end']) {
    world.time += 1_000;
    // Until both have looked, what was lost is not known to both: the promise begins there.
    if (/^(?:a call|calls|the end)/.test(name)) for (let times = 0; times < 2; times++) await world.look();
    await EVENTS[name]?.(world);
  }
  for (const verifier of world.verifiers)
    for (const signed of world.allowed)
      for (const now of [verifier.now, signed.iat - SKEW_SECS, signed.iat, signed.iat + 900])
        if (await verifier.use(signed, false, Math.max(now, verifier.now)))
          return `${signed.jti} was allowed twice`;
  const news = one.news.length + other.news.length;
  if (names.every((name) => HARMLESS.has(name)) && news !== begun)
    return 'a loss was found where there was none';
  if (news - begun > 2 * names.filter((name) => !HARMLESS.has(name)).length) return 'a loss was found twice';
  world.time += 100_000;
  await world.look();
  await world.look();
  if (one.news.length + other.news.length !== news) return 'a loss was found more than once';
  for (const verifier of [one, other, one, other]) await world.call(verifier, true);
  const { limitedCalls } = world as { readonly limitedCalls: number };
  if (limitedCalls > MAX_CALLS) return `${limitedCalls} calls under a limit of ${MAX_CALLS}`;
  const later = { jti: 'inv:later', iat: one.now };
  return (await one.use(later, false)) ? null : 'calls are refused for ever';
}

describe('what a store has lost, in every order of three events', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each(SETTINGS)('$waits $redisAheadMs $aheadMs', async (setting) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const faults: string[] = [];
    for (const first of NAMES)
      for (const second of NAMES)
        // Where clocks differ, two events show all that three do, in a twentieth of the time.
        for (const third of setting.aheadMs.some((ms) => ms !== 0) ? ['a call at each'] : NAMES) {
          const names = [first, second, third];
          const fault = await faultAfter(names, setting);
          if (fault !== null) faults.push(`${fault}: ${names.join(', ')}`);
        }
    expect(faults).toEqual([]);
  });
});
