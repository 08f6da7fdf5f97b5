import { describe, expect, it } from 'vitest';
import {
  chargedOf,
  createMemoryReplayStore,
  refundCall,
  replayKey,
  ReplayStoreError,
  type ReplayStore,
} from '../../src/usage/index.js';
import type { CountedLimits } from '../../src/verify/limits.js';
import { chargeOf, limitOf, NOW } from './limits.js';

const both = limitOf('both', { maxCalls: 5, maxTotalMicroUsd: 1_000_000 });
const callsOnly = limitOf('calls only', { level: 1, maxCalls: 3 });

/** A call that costs a quarter of a dollar, and whoever may give it back. */
async function charged(
  limits: readonly CountedLimits[] = [both, callsOnly],
  store = createMemoryReplayStore(),
) {
  const call = {
    ...{ scope: 'http', iss: 'did:key:z1', jti: 'inv:1', allowedAt: NOW },
    charged: chargedOf(250_000, limits),
  };
  const key = replayKey(call.scope, call.iss, call.jti);
  await store.use(key, NOW, 961, limits.length === 0 ? null : chargeOf(limits, 250_000));
  const usage = () => Promise.all(limits.map(({ receipt }) => store.usageOf(receipt)));
  const refund = (usd?: unknown, now = NOW, of: ReplayStore = store, as = call) =>
    refundCall(as, usd, of, now);
  return { call, usage, refund };
}

const refusal = (code: string, message: string) => ({
  name: 'RefundError',
  code,
  message: expect.stringContaining(message) as string,
});

describe('a refund', () => {
  it('is what the call was charged at each level', () => {
    expect(chargedOf(250_000, [both, callsOnly])).toEqual([
      { receipt: both.receipt, microUsd: 250_000 },
      { receipt: callsOnly.receipt, microUsd: 0 },
    ]);
    expect(chargedOf(null, [both])).toEqual([{ receipt: both.receipt, microUsd: 0 }]);
  });

  it('without an amount takes the call back, once', async () => {
    const { refund, usage } = await charged();
    expect(await refund()).toEqual({ calls: 1, total_cost_usd: 0.25 });
    expect(await usage()).toEqual([
      { calls: 0, microUsd: 0 },
      { calls: 0, microUsd: 0 },
    ]);
    await expect(refund()).rejects.toMatchObject(refusal('REFUND_REPEATED', 'possible once'));
    await expect(refund(0.1)).rejects.toMatchObject(refusal('REFUND_REPEATED', 'given back already'));
  });

  it('of an amount takes a part of the cost back, rounded down, and the call stays', async () => {
    const { refund, usage } = await charged();
    expect(await refund(0.1000009)).toEqual({ calls: 0, total_cost_usd: 0.1 });
    expect(await usage()).toEqual([
      { calls: 1, microUsd: 150_000 },
      { calls: 1, microUsd: 0 },
    ]);
    await expect(refund()).rejects.toMatchObject({ code: 'REFUND_REPEATED' });
  });

  it.each([0, -0, 0.0000009])('of %s gives nothing back, and is not the one', async (usd) => {
    const { refund, usage } = await charged();
    expect(await refund(usd)).toEqual({ calls: 0, total_cost_usd: 0 });
    expect((await usage())[0]).toEqual({ calls: 1, microUsd: 250_000 });
    expect(await refund(0.25)).toEqual({ calls: 0, total_cost_usd: 0.25 });
  });

  it.each([-1, -0.0000009, Number.NaN, Infinity, 1_000_000_001, null, '1', {}])(
    'is not of %s, which is no amount',
    async (usd) => {
      const { refund, usage } = await charged();
      const message = 'expected a number of US dollars from 0 to 1000000000, or none';
      await expect(refund(usd)).rejects.toMatchObject(refusal('REFUND_MALFORMED', message));
      expect((await usage())[0]).toEqual({ calls: 1, microUsd: 250_000 });
    },
  );

  it('is at most what was charged; one of too much leaves it possible', async () => {
    const { refund } = await charged();
    const message = '0.250001 US dollars were to be given back, and the call was charged 0.25';
    await expect(refund(0.250001)).rejects.toMatchObject(refusal('REFUND_TOO_LARGE', message));
    await expect(refund(1_000_000_000)).rejects.toMatchObject({ code: 'REFUND_TOO_LARGE' });
    expect(await refund(0.25)).toEqual({ calls: 0, total_cost_usd: 0.25 });
    const free = await charged([callsOnly]);
    await expect(free.refund(0.01)).rejects.toMatchObject({ code: 'REFUND_TOO_LARGE' });
  });

  it('comes within a minute', async () => {
    const { refund } = await charged();
    const message = '60 s after it was allowed';
    await expect(refund(undefined, NOW + 61)).rejects.toMatchObject(refusal('REFUND_TOO_LATE', message));
    expect(await refund(undefined, NOW + 60)).toMatchObject({ calls: 1 });
  });

  it('is of a call that was charged, in the store that has the charge', async () => {
    const { refund, call } = await charged();
    await expect((await charged([])).refund()).rejects.toMatchObject(
      refusal('REFUND_NOT_CHARGED', 'no receipt of it has one'),
    );
    const other = createMemoryReplayStore();
    await expect(refund(undefined, NOW, other)).rejects.toMatchObject(
      refusal('REFUND_UNKNOWN', 'no such charge'),
    );
    const unused = { ...call, jti: 'inv:2' };
    await expect(refund(undefined, NOW, undefined, unused)).rejects.toMatchObject({ code: 'REFUND_UNKNOWN' });
  });

  it('is refused where the store has none, or cannot tell', async () => {
    const { refund } = await charged();
    const { refund: _, ...without } = { ...createMemoryReplayStore(), refund: undefined };
    await expect(refund(undefined, NOW, without as unknown as ReplayStore)).rejects.toMatchObject(
      refusal('REFUND_UNAVAILABLE', 'it has no function `refund`'),
    );
    const failing = (error: Error) => ({ refund: () => Promise.reject(error) }) as unknown as ReplayStore;
    await expect(
      refund(undefined, NOW, failing(new ReplayStoreError('Redis is full'))),
    ).rejects.toMatchObject(
      refusal('REFUND_UNAVAILABLE', 'nobody knows whether the call was given back: Redis is full; ask again'),
    );
    const secret = new Error('secret');
    await expect(refund(undefined, NOW, failing(secret))).rejects.toMatchObject({
      ...refusal('REFUND_UNAVAILABLE', 'the store failed'),
      cause: secret,
    });
  });

  it('is none where the store of somebody else says something else', async () => {
    const { refund } = await charged();
    const vague = { refund: () => Promise.resolve(undefined) } as unknown as ReplayStore;
    await expect(refund(undefined, NOW, vague)).rejects.toMatchObject({ code: 'REFUND_UNKNOWN' });
  });

  it('is forgotten with the record of its invocation', async () => {
    const store = createMemoryReplayStore({ maxEntries: 1 });
    const { refund } = await charged([both], store);
    await refund();
    await store.use('later', NOW + 961, 961, null);
    await expect(refund()).rejects.toMatchObject({ code: 'REFUND_UNKNOWN' });
    expect(store.size).toBe(1);
  });
});
