import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  createMemoryReplayStore,
  useInvocation,
  replayKey,
  ReplayStoreError,
  type ReplayObserver,
  type ReplayStore,
} from '../../src/usage/index.js';
import { Failure } from '../../src/verify/codes.js';
import { limitOf } from './limits.js';

const NOW = 1_800_000_000;
const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 30 };
const invocation = { iss: 'did:key:z6Mk', sub: 'did:key:z6Mk', jti: 'inv:1', iat: NOW, args: {} };

const codeOf = async (using: ReturnType<typeof useInvocation>) => {
  const used = await using;
  return used instanceof Failure ? used.code : used;
};

describe('an invocation', () => {
  it('passes once', async () => {
    const store = createMemoryReplayStore();
    expect(await codeOf(useInvocation(invocation, [], store, NOW, rules))).toBeNull();
    const failure = (await useInvocation(invocation, [], store, NOW + 1, rules)) as Failure;
    expect(failure.code).toBe('REPLAY_DETECTED');
    expect(failure.message).toBe('Invocation: jti "inv:1" was used before, expected one that was not used');
  });

  it('tells an observer how its check ended, and how long it took', async () => {
    const seen: [string, number][] = [];
    const observer = { replayChecked: (...event: [string, number]) => seen.push(event) };
    const full = createMemoryReplayStore({ maxEntries: 1 });
    for (const claims of [invocation, invocation, { ...invocation, iat: 5 }, { ...invocation, jti: 'inv:2' }])
      await useInvocation(claims, [], full, NOW, rules, observer);
    expect(seen.map(([result]) => result)).toEqual(['accepted', 'replayed', 'stale', 'unavailable']);
    expect(seen.every(([, milliseconds]) => milliseconds >= 0)).toBe(true);
  });

  it('that was used in one place may be used in another that shares the store, once in each', async () => {
    const store = createMemoryReplayStore();
    for (const scope of ['verify', 'gate', 'tools']) {
      expect(await codeOf(useInvocation(invocation, [], store, NOW, { ...rules, scope }))).toBeNull();
      expect(await codeOf(useInvocation(invocation, [], store, NOW, { ...rules, scope }))).toBe(
        'REPLAY_DETECTED',
      );
    }
  });

  it.each([
    [900, 0, null],
    [901, 0, 'INVOCATION_STALE'],
    [0, 0, null],
    [-1, 0, 'INVOCATION_STALE'],
    [-120, 120, null],
    [-121, 120, 'INVOCATION_STALE'],
    [901, 120, 'INVOCATION_STALE'],
  ])('that is %i s old, with a tolerance of %i s: %s', async (age, clockSkewSecs, code) => {
    const store = createMemoryReplayStore();
    const checked = useInvocation({ ...invocation, iat: NOW - age }, [], store, NOW, {
      ...rules,
      clockSkewSecs,
    });
    expect(await codeOf(checked)).toBe(code);
    expect(store.size).toBe(code === null ? 1 : 0);
  });

  it('tells by how much it came early, also where that is too much', async () => {
    const early: number[] = [];
    const observer = { cameEarly: (secs: number) => early.push(secs) };
    for (const [at, ahead] of [-5, 0, 3, 99].entries()) {
      const claims = { ...invocation, jti: `inv:early ${at}`, iat: NOW + ahead };
      await useInvocation(claims, [], createMemoryReplayStore(), NOW, rules, observer);
    }
    expect(early).toEqual([3, 99]);
  });

  it('says what would have been fresh', async () => {
    const failure = (await useInvocation(
      { ...invocation, iat: 5 },
      [],
      createMemoryReplayStore(),
      NOW,
      rules,
    )) as Failure;
    expect(failure.message).toBe(
      'Invocation: iat is 5 (1970-01-01T00:00:05Z), expected from 1799999100 (2027-01-15T07:45:00Z) to 1800000030 (2027-01-15T08:00:30Z), 900 s before now to 30 s after',
    );
  });

  it.each([
    [0, 0],
    [1, 1],
    [0, 120],
    [120, 120],
  ])(
    'issued %i s ahead, with a tolerance of %i s, is on record until it is stale',
    async (ahead, clockSkewSecs) => {
      const store = createMemoryReplayStore();
      const its = { ...rules, clockSkewSecs };
      const subject = { ...invocation, iat: NOW + ahead };
      expect(await codeOf(useInvocation(subject, [], store, NOW, its))).toBeNull();
      expect(await codeOf(useInvocation(subject, [], store, NOW + ahead + 900, its))).toBe('REPLAY_DETECTED');
      expect(await codeOf(useInvocation(subject, [], store, NOW + ahead + 901, its))).toBe(
        'INVOCATION_STALE',
      );
    },
  );
});

describe('an invocation under limits', () => {
  const limits = [limitOf('used', { maxCalls: 2, maxTotalMicroUsd: 300_000, exp: NOW + 3_600 })];
  const use = (store: ReplayStore, jti: string, args: object, observer?: ReplayObserver) => {
    const claims = { ...invocation, jti, args: { ...args } };
    return useInvocation(claims, limits, store, NOW, rules, observer);
  };

  it('is charged what it says that it costs, and one that does not say is too dear', async () => {
    const store = createMemoryReplayStore();
    expect(await use(store, 'one', { estimated_cost_usd: 0.1 })).toMatchObject([
      { calls_left: 1, usd_left: 0.2 },
    ]);
    expect(await use(store, 'none', {})).toMatchObject({ code: 'LIMIT_REACHED' });
    expect(await store.usageOf(limits[0]?.receipt ?? '')).toEqual({ calls: 1, microUsd: 100_000 });
  });

  it('is reported with how long the store took', async () => {
    const store = createMemoryReplayStore();
    const seen: unknown[] = [];
    const observer = {
      replayChecked: (result: string, milliseconds: number) => seen.push([result, milliseconds]),
      limitReached: (member: string) => seen.push(member),
    };
    const since = performance.now();
    await use(store, 'dear', { estimated_cost_usd: 1 }, observer);
    expect(seen).toEqual(['max_total_cost_usd', ['limit_reached', expect.any(Number)]]);
    const [, [, milliseconds]] = seen as [string, [string, number]];
    expect(milliseconds).toBeGreaterThanOrEqual(0);
    expect(milliseconds).toBeLessThanOrEqual(performance.now() - since);
  });
});

describe('a store that cannot tell', () => {
  const failing = (error: Error): ReplayStore => ({
    usageOf: () => Promise.resolve(null),
    use: () => {
      // Stores are not only ours: one may throw at once.
      throw error;
    },
    unreadyReason: null,
    close: () => Promise.resolve(),
  });

  it('has the call refused, with its reason', async () => {
    const full = createMemoryReplayStore({ maxEntries: 1 });
    expect(await codeOf(useInvocation(invocation, [], full, NOW, rules))).toBeNull();
    const failure = (await useInvocation({ ...invocation, jti: 'inv:2' }, [], full, NOW, rules)) as Failure;
    expect(failure.code).toBe('REPLAY_STORE_UNAVAILABLE');
    expect(failure.message).toBe(
      'Invocation: jti "inv:2" cannot be checked for replay (it is full: 1 invocations are on record), expected a replay store that can tell',
    );
  });

  it('has the call refused whatever it threw, and whatever that said', async () => {
    const failure = (await useInvocation(
      invocation,
      [],
      failing(new Error('secret')),
      NOW,
      rules,
    )) as Failure;
    expect(failure.code).toBe('REPLAY_STORE_UNAVAILABLE');
    expect(failure.message).not.toContain('secret');
    expect(failure.message).toContain('(the store failed)');
  });

  it('has the call refused when its promise is rejected', async () => {
    const store: ReplayStore = {
      usageOf: () => Promise.resolve(null),
      use: () => Promise.reject(new ReplayStoreError('Redis does not answer')),
      unreadyReason: null,
      close: () => Promise.resolve(),
    };
    await expect(useInvocation(invocation, [], store, NOW, rules)).resolves.toMatchObject({
      code: 'REPLAY_STORE_UNAVAILABLE',
    });
  });
});

describe('a store that has lost data', () => {
  const LOST = 'the store has lost what was used before';
  const UNCOUNTED = 'the store has lost what was used of a limit';
  const begun = (nbf: number) => limitOf(`begun at ${nbf}`, { maxCalls: 9, nbf });
  // The clock of the issuer of a receipt may be 30 s ahead.
  const [early, late] = [begun(NOW + 20), begun(NOW + 21)];

  it.each([
    // So may be the clock of who signs: a call that it signs is used before its time.
    ['an invocation signed then', { lostAt: NOW - 30 }, [], LOST],
    ['one signed later', { lostAt: NOW - 31 }, [], null],
    ['a limit from then', { emptiedAt: NOW - 10 }, [early], UNCOUNTED],
    ['one of several limits', { emptiedAt: NOW - 10 }, [late, early], UNCOUNTED],
    ['a limit from later', { emptiedAt: NOW - 10 }, [late], null],
    ['no limit', { emptiedAt: NOW - 10 }, [], null],
    ['no limit that it knows of', { emptiedAt: 0 }, [begun(-90)], null],
  ])('is asked about %s, %j', async (_, lost, limits, reason) => {
    const store = Object.assign(createMemoryReplayStore(), lost);
    const seen: string[] = [];
    const observer = { replayChecked: (result: string) => seen.push(result) };
    const used = await useInvocation(invocation, limits, store, NOW, rules, observer);
    if (reason === null) expect(used).not.toBeInstanceOf(Failure);
    else expect(used).toMatchObject({ message: expect.stringContaining(`(${reason})`) as string });
    expect(seen).toEqual([reason === null ? 'accepted' : 'lost']);
    expect(store.size).toBe(reason === null ? 1 : 0);
  });

  it('says from when on calls and receipts are accepted', async () => {
    const store = Object.assign(createMemoryReplayStore(), { lostAt: NOW, emptiedAt: NOW - 100 });
    expect(await useInvocation(invocation, [], store, NOW, rules)).toMatchObject({
      message:
        'Invocation: jti "inv:1" cannot be checked for replay (the store has lost what was used before), expected a call that is signed after 1800000030 (2027-01-15T08:00:30Z)',
    });
    const later = { ...invocation, iat: NOW + 31 };
    expect(await useInvocation(later, [begun(NOW - 200)], store, NOW + 31, rules)).toMatchObject({
      message: expect.stringContaining(
        'expected a receipt from after 1799999930 (2027-01-15T07:58:50Z), or LIMITS_AFTER_LOSS (limitsAfterLoss) set to pass',
      ) as string,
    });
  });
});

describe('the key of an invocation', () => {
  const part = fc.oneof(
    fc.string(),
    fc.constantFrom('', '1', ':', '1:', 'sha256:', '12:did', 'inv:1'),
    fc.string({ minLength: 150, maxLength: 300 }),
  );

  it('differs for any two', () => {
    const triple = fc.tuple(part, part, part);
    fc.assert(
      fc.property(triple, triple, (one, other) => {
        const same = one.every((text, at) => text === other[at]);
        expect(replayKey(...one) === replayKey(...other)).toBe(same);
      }),
    );
  });

  it('differs where two are the same text, cut in other places', () => {
    const cut = (text: string, a: number, b: number): [string, string, string] => {
      const [from, to] = [a % (text.length + 1), b % (text.length + 1)].sort((x, y) => x - y) as [
        number,
        number,
      ];
      return [text.slice(0, from), text.slice(from, to), text.slice(to)];
    };
    fc.assert(
      fc.property(part, fc.nat(), fc.nat(), fc.nat(), fc.nat(), (text, ...at) => {
        const [one, other] = [cut(text, at[0], at[1]), cut(text, at[2], at[3])];
        const same = one.every((piece, place) => piece === other[place]);
        expect(replayKey(...one) === replayKey(...other)).toBe(same);
      }),
    );
  });

  it('differs where the end of one part looks like the length of the next', () => {
    expect(replayKey('a1', '', '0123456789b')).not.toBe(replayKey('a', '0123456789', 'b'));
    expect(replayKey('a', '1', '')).not.toBe(replayKey('', 'a', '1'));
  });

  it('is plain up to 200 characters, and a digest beyond', () => {
    expect(replayKey('verify', 'did:key:z6Mk', 'inv:1')).toBe('6:verify12:did:key:z6Mkinv:1');
    const longest = 'x'.repeat(200 - '6:verify12:did:key:z6Mk'.length);
    expect(replayKey('verify', 'did:key:z6Mk', longest)).toHaveLength(200);
    expect(replayKey('verify', 'did:key:z6Mk', `${longest}x`)).toMatch(/^sha256:[\da-f]{64}$/);
  });
});
