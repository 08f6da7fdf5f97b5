import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { JsonObject } from '../../src/protocol/json.js';
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
  const callWith = (args: JsonObject) => makeCall(chain, args).body;
  const kinds: Readonly<Record<string, readonly [body: string, expected: string]>> = {
    'a forged call': [forge(call), 'INVALID_INVOCATION_SIGNATURE'],
    'a call that is no JWT': [garble(call), 'MALFORMED_INVOCATION'],
    'receipts in another order': [withReceipts(first, third, second), 'CHAIN_BREAK'],
    'a chain without receipts': [withReceipts(), 'EMPTY_CHAIN'],
    'a tool that is not allowed': [callWith({ tool: 'delete' }), 'POLICY_VIOLATION'],
    'a cost above the limit': [callWith({ tool: 'search', estimated_cost_usd: 1000 }), 'POLICY_VIOLATION'],
    'an expired chain': [makeCall(makeChain(3, -7200)).body, 'EXPIRED'],
  };
  return Object.entries(kinds).map(([name, [body, expected]]) => ({ name, body, expected }));
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
