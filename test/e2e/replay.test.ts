import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createVerifier, type Verdict } from '../../src/index.js';
import { FRESH, invoke, makeChain, NOW } from '../support/chain.js';
import { failureOf, startService as startServiceHere } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

const chain = makeChain(2);
const codeOf = async (service: RunningService, bundle: object) => {
  const response = await service.post('/verify', bundle);
  expect(response.status).toBe(200);
  return ((await response.json()) as Verdict).error?.code ?? 'valid';
};

describe('replay protection of /verify', () => {
  it('is off unless it is asked for', async () => {
    const service = await startServiceHere();
    const bundle = invoke(chain, { iat: 1 });
    expect([await codeOf(service, bundle), await codeOf(service, bundle)]).toEqual(['valid', 'valid']);
    await service.stop();
  });

  it('refuses what is older than the window or from the future', async () => {
    const verifier = createVerifier({ replayProtection: 'memory', replayWindowSecs: 100, workerThreads: 0 });
    const at = async (iat: number) => {
      const verdict = await verifier.verify(invoke(chain, { iat, jti: `inv:${iat}` }), { now: NOW });
      return verdict.error?.code ?? 'valid';
    };
    expect(await Promise.all([-101, -100, 0, 30, 31].map((offset) => at(NOW + offset)))).toEqual([
      'INVOCATION_STALE',
      'valid',
      'valid',
      'valid',
      'INVOCATION_STALE',
    ]);
    await verifier.close();
  });
});

// In this order: the first two tests use up two of the four entries that one principal may have of eight.
describe('REPLAY_PROTECTION=memory', { shuffle: false }, () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startServiceHere({ ...FRESH, REPLAY_PROTECTION: 'memory', REPLAY_MAX_ENTRIES: '8' });
  });
  afterAll(() => service.stop());

  it('lets an invocation pass once, also among concurrent ones', async () => {
    const bundle = invoke(chain, { jti: 'inv:once' });
    const codes = await Promise.all(Array.from({ length: 40 }, () => codeOf(service, bundle)));
    expect(codes.filter((code) => code === 'valid')).toHaveLength(1);
    expect(codes.filter((code) => code === 'REPLAY_DETECTED')).toHaveLength(39);
  });

  it('does not use up an invocation that is refused', async () => {
    const good = invoke(chain, { jti: 'inv:refused' });
    const bad = { ...good, receipts: [...good.receipts].reverse() };
    expect([await codeOf(service, bad), await codeOf(service, good)]).toEqual(['CHAIN_BREAK', 'valid']);
  });

  it('refuses calls rather than forget one, when its memory is full', async () => {
    const codes: string[] = [];
    for (const jti of ['inv:1', 'inv:2', 'inv:3', 'inv:1'])
      codes.push(await codeOf(service, invoke(chain, { jti })));
    expect(codes).toEqual(['valid', 'valid', 'REPLAY_STORE_UNAVAILABLE', 'REPLAY_DETECTED']);
  });
});

it.each(['REPLAY_PROTECTION', 'GATE_REPLAY'])('%s=redis does not start where Redis is not', async (name) => {
  const failure = await failureOf({ [name]: 'redis', REDIS_URL: 'redis://127.0.0.1:1' });
  expect(failure).toEqual({ code: 1, says: expect.stringContaining('cannot connect to Redis') as string });
});
