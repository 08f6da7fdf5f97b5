import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../run/programs.js';
import { forge, garble, makeCall, makeChain } from './chains.js';

/** A body that a verifier must judge in one way. */
export interface Kind {
  readonly name: string;
  readonly body: string;
  /** `valid`; or the code of the refusal; or the status of an answer without a verdict. */
  readonly expected: string | number;
}

/** Invalid calls, each refused for one reason, that any verifier of chains must find. */
export function invalidKinds(): Kind[] {
  const chain = makeChain(3);
  const call = makeCall(chain);
  const bundle = JSON.parse(call.body) as { invocation: string; receipts: string[] };
  const [first = '', second = '', third = ''] = bundle.receipts;
  const withReceipts = (...receipts: string[]) => JSON.stringify({ ...bundle, receipts });
  return [
    { name: 'a forged call', body: forge(call), expected: 'INVALID_INVOCATION_SIGNATURE' },
    { name: 'a call that is no JWT', body: garble(call), expected: 'MALFORMED_INVOCATION' },
    { name: 'receipts in another order', body: withReceipts(first, third, second), expected: 'CHAIN_BREAK' },
    { name: 'a chain without receipts', body: withReceipts(), expected: 'EMPTY_CHAIN' },
    {
      name: 'a tool that is not allowed',
      body: makeCall(chain, { tool: 'delete' }).body,
      expected: 'POLICY_VIOLATION',
    },
    {
      name: 'a cost above the limit',
      body: makeCall(chain, { tool: 'search', estimated_cost_usd: 1000 }).body,
      expected: 'POLICY_VIOLATION',
    },
    { name: 'an expired chain', body: makeCall(makeChain(3, -7200)).body, expected: 'EXPIRED' },
  ];
}

/** The vectors that a service with its own clock, and without settings, can be asked: docs/conformance.md. */
export function vectorKinds(): Kind[] {
  const { vectors } = JSON.parse(readFileSync(path.join(ROOT, 'test/conformance/vectors.json'), 'utf8')) as {
    vectors: {
      id: string;
      kind: string;
      profile?: string;
      anyTime?: boolean;
      request: string;
      expected: { valid?: boolean; code?: string; status?: number };
    }[];
  };
  return vectors
    .filter(({ kind, profile, anyTime }) => kind === 'verify' && profile === 'plain' && anyTime === true)
    .map(({ id, request, expected: { valid, code, status } }) => ({
      name: `vector ${id}`,
      body: request,
      expected: valid === true ? 'valid' : (code ?? status ?? ''),
    }));
}
