import { afterAll, describe, expect, it } from 'vitest';
import { DrsClient } from '../../src/client/index.js';
import { readVerdict } from '../../src/client/request.js';
import { createVerifier } from '../../src/index.js';
import { drsContext, drsFetch } from '../../src/middleware/index.js';
import { encode, liveCall, liveChain, OPEN_ROUTE } from './call.js';

const chain = liveChain(2);
const labels = { team: 'sales' };
const did = chain.parties[0]?.did ?? '';
const verifier = createVerifier({ workerThreads: 0, trustedRoots: [{ did, name: 'Zoë', labels }] });
afterAll(() => verifier.close());

/** A service without a network. */
const service = async (_: unknown, init?: RequestInit) =>
  Response.json(await verifier.verify(JSON.parse(init?.body as string)));
const args = { tool: 'search', query: 'tea' };
const request = (bundle: object) =>
  new Request('http://tools.test/', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-DRS-Bundle': encode(bundle) },
    body: JSON.stringify(args),
  });

it('a function that somebody puts in the place of verify decides, also later', async () => {
  const own = createVerifier({ workerThreads: 0 });
  const handler = drsFetch({ ...OPEN_ROUTE, verifier: own }, () => new Response());
  expect((await handler(request(liveCall(chain, args)))).status).toBe(200);
  const error = { code: 'KEY_REVOKED', message: 'by hand', suggestion: 'none' } as const;
  Object.assign(own, { verify: () => Promise.resolve({ valid: false, error }) });
  expect((await handler(request(liveCall(chain, args)))).status).toBe(403);
  await own.close();
});

describe.each([
  ['a verifier in this process', verifier],
  ['a client of a service', new DrsClient('https://service.test', { fetch: service })],
])('with verdicts of %s', (_, source) => {
  it('a handler gets to know what the operator calls the root, not what a bundle says', async () => {
    const handler = drsFetch({ ...OPEN_ROUTE, verifier: source }, () => {
      const { root_name, labels: found } = drsContext();
      return Response.json({ root_name, labels: found, frozen: Object.isFrozen(found) });
    });
    const forged = { ...liveCall(chain, args), root_name: 'boss', labels: { team: 'board' }, details: false };
    const response = await handler(request(forged));
    expect([response.status, await response.json()]).toEqual([
      200,
      { root_name: 'Zoë', labels, frozen: true },
    ]);
  });
});

it.each([
  [{}, true],
  [{ root_name: 'a', labels: { b: 'c' } }, true],
  [{ root_name: 7 }, false],
  [{ labels: [] }, false],
  [{ labels: { a: 1 } }, false],
  [[], false],
])('an answer with the details %j is a verdict: %s', (details, isVerdict) => {
  const context = { root_principal: did, chain_depth: 1, leaf_policy: {} };
  expect(readVerdict(JSON.stringify({ valid: true, context, details }), false) !== null).toBe(isVerdict);
});
