import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  createMemoryReplayStore,
  drsContext,
  drsFetch,
  RefundError,
  type DrsContext,
  type ReplayStore,
  type VerdictSource,
} from '../../src/middleware/index.js';
import { refundCall } from '../../src/usage/refund.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { encode, liveCall, liveChain, OPEN_ROUTE } from './call.js';
import { startTestService } from './sources.js';

const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const limits = { max_calls: 2, max_total_cost_usd: 1 };
const chainOf = (policy: object) => liveChain(2, { policy: { allowed_tools: ['search'], ...policy } });

/** Makes a call whose handler does something with its context. @returns the status and what the handler found */
async function callWith<T>(
  chain: ReturnType<typeof chainOf>,
  replayStore: ReplayStore | 'none',
  use: (drs: DrsContext) => T,
  source: VerdictSource = { verifier },
): Promise<Awaited<T>> {
  const args = { tool: 'search', query: 'tea', estimated_cost_usd: 0.3 };
  let found: Promise<Awaited<T>> | undefined;
  const serve = drsFetch({ ...source, ...OPEN_ROUTE, replayStore }, async (request: Request) => {
    found = Promise.resolve(use(drsContext(request)));
    await found.catch(() => undefined);
    return new Response();
  });
  const headers = { 'content-type': 'application/json', 'x-drs-bundle': encode(liveCall(chain, args)) };
  await serve(new Request('http://tool/', { method: 'POST', headers, body: JSON.stringify(args) }));
  if (found === undefined) throw new Error('the handler did not run');
  return found;
}
const reason = (name: string) => expect.objectContaining({ name: 'RefundError', reason: name }) as Error;

describe('a tool server', () => {
  it('gives a failed call back, so that its caller has another', async () => {
    const [store, chain] = [createMemoryReplayStore(), chainOf(limits)];
    for (let calls = 0; calls < 5; calls++)
      expect(await callWith(chain, store, (drs) => drs.refund())).toEqual({ calls: 1, usd: 0.3 });
    for (const receipt of chain.receipts)
      expect(await store.usageOf(digestOf(receipt))).toEqual({ calls: 0, microUsd: 0 });
  });

  it('gives back a part of the cost, and the call stays counted', async () => {
    const [store, chain] = [createMemoryReplayStore(), chainOf(limits)];
    const refunds = await callWith(chain, store, async ({ refund }) => [
      await refund(Number.NaN).catch((error: unknown) => error),
      await refund(-0.1).catch((error: unknown) => error),
      await refund('1' as never).catch((error: unknown) => error),
      await refund(0.3000001).catch((error: unknown) => error),
      await refund(0.4).catch((error: unknown) => error),
    ]);
    expect(refunds.slice(0, 3)).toEqual(Array.from({ length: 3 }, () => reason('invalid_amount')));
    // A part of a micro-dollar is rounded down.
    expect(refunds[3]).toEqual({ calls: 0, usd: 0.3 });
    expect(refunds[4]).toEqual(reason('again'));
    expect(await store.usageOf(digestOf(chain.receipts[0] ?? ''))).toEqual({ calls: 1, microUsd: 0 });
    await expect(callWith(chain, store, (drs) => drs.refund(0.31))).rejects.toThrow('above the 0.3 US');
    await expect(callWith(chain, store, () => null)).rejects.toThrow('did not run');
  });

  it('is told why there is nothing to give back', async () => {
    const store = createMemoryReplayStore();
    // As users write their own: refunds are optional.
    const own: ReplayStore = {
      use: store.use.bind(store),
      usageOf: store.usageOf.bind(store),
      unreadyReason: null,
      close: () => Promise.resolve(),
    };
    await expect(callWith(chainOf({}), store, (drs) => drs.refund())).rejects.toEqual(reason('no_limits'));
    await expect(callWith(chainOf(limits), 'none', (drs) => drs.refund())).rejects.toEqual(
      reason('not_counted'),
    );
    await expect(callWith(chainOf(limits), own, (drs) => drs.refund())).rejects.toEqual(
      reason('unsupported'),
    );
    const closed = callWith(chainOf(limits), store, async (drs) => {
      await store.close();
      return drs.refund();
    });
    await expect(closed).rejects.toEqual(reason('unknown'));
  });

  it('gives back what it counted itself, also where a service judges', async () => {
    const service = await startTestService();
    onTestFinished(() => service.close());
    const back = callWith(chainOf(limits), createMemoryReplayStore(), (drs) => drs.refund(), {
      verifyUrl: service.url,
    });
    await expect(back).resolves.toEqual({ calls: 1, usd: 0.3 });
  });

  it('is told if it is late, or the store cannot tell', async () => {
    const failing = { refund: () => Promise.reject(new Error('away')) } as never as ReplayStore;
    const call = { store: failing, key: 'a', receipts: ['sha256:'], at: 1000 };
    await expect(refundCall(call, undefined, 1061)).rejects.toEqual(reason('late'));
    const error: unknown = await refundCall(call, undefined, 1060).catch((reject: unknown) => reject);
    expect(error).toBeInstanceOf(RefundError);
    expect(error).toMatchObject({ reason: 'unavailable', cause: new Error('away') });
  });

  it('finds the refund in a context that is otherwise plain data', async () => {
    const drs = await callWith(chainOf(limits), createMemoryReplayStore(), (context) => context);
    expect(Object.isFrozen(drs)).toBe(true);
    expect(Object.keys(structuredClone(drs))).toEqual(Object.keys(drs));
    expect(Object.keys(drs)).not.toContain('refund');
  });
});
