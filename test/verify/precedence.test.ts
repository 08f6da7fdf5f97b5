import { describe, expect, it } from 'vitest';
import { createVerifier, type VerifierOptions } from '../../src/index.js';
import {
  childClaims,
  invocationClaims,
  makeChain,
  NOW,
  party,
  rootClaims,
  signJwt,
  type Overrides,
  type Party,
} from '../support/chain.js';

/** One fault in each block, each of them visible only where no earlier block fails. */
const FAULTS = [
  'INVALID_JTI',
  'CHAIN_REFERENCE_MISMATCH',
  'INVALID_INVOCATION_SIGNATURE',
  'INVOCATION_SUBJECT_MISMATCH',
  'EXPIRED',
  'RECEIPT_REVOKED',
] as const;

function faulty(from: number): unknown {
  const has = (code: (typeof FAULTS)[number]) => FAULTS.indexOf(code) >= from;
  const chain = makeChain(2, {
    0: {
      ...(has('EXPIRED') ? { exp: NOW - 10 } : {}),
      ...(has('RECEIPT_REVOKED') ? { drs_status_list_index: 3 } : {}),
    },
    1: has('EXPIRED') ? { exp: NOW - 10 } : {},
  });
  const invoker = chain.parties[2] as Party;
  const claims = invocationClaims(chain.receipts, chain.parties[0] as Party, invoker, {
    ...(has('INVALID_JTI') ? { jti: 'x' } : {}),
    ...(has('CHAIN_REFERENCE_MISMATCH') ? { dr_chain: [] } : {}),
    ...(has('INVOCATION_SUBJECT_MISMATCH') ? { sub: invoker.did } : {}),
  });
  const signer = has('INVALID_INVOCATION_SIGNATURE') ? party() : invoker;
  return { bundle_version: '4.0', receipts: chain.receipts, invocation: signJwt(claims, signer) };
}

async function codeOf(bundle: unknown, options: VerifierOptions = {}): Promise<string | undefined> {
  const verifier = createVerifier({ workerThreads: 0, ...options });
  try {
    await verifier.revoke(3);
    return (await verifier.verify(bundle, { now: NOW })).error?.code;
  } finally {
    await verifier.close();
  }
}

/** Three receipts and an invocation, of which some are faulty: claims changed, or signed with another header or key. */
interface Fault {
  readonly claims?: Overrides;
  readonly header?: unknown;
  readonly signer?: Party;
}

function bundleWith(faults: Readonly<Record<number, Fault>>, invocation: Fault = {}): unknown {
  const parties = Array.from({ length: 4 }, party) as [Party, Party, Party, Party];
  const receipts: string[] = [];
  for (let at = 0; at < 3; at++) {
    const [issuer, audience] = [parties[at], parties[at + 1]] as [Party, Party];
    const { claims = {}, header, signer = issuer } = faults[at] ?? {};
    const full =
      at === 0
        ? rootClaims(issuer, audience, claims)
        : childClaims(receipts[at - 1] as string, parties[0], issuer, audience, claims);
    receipts.push(signJwt(full, signer, header));
  }
  const claims = invocationClaims(receipts, parties[0], parties[3], invocation.claims);
  return {
    bundle_version: '4.0',
    receipts,
    invocation: signJwt(claims, invocation.signer ?? parties[3], invocation.header),
  };
}

describe('precedence', () => {
  it.each(FAULTS.map((code, from) => [code, from] as const))(
    '%s comes before every later block',
    async (code, from) => {
      expect(await codeOf(faulty(from))).toBe(code);
      expect(await codeOf(faulty(from), { receiptCacheBytes: 0, workerThreads: 1 })).toBe(code);
    },
  );

  it('accepts the bundle that has none of the faults', async () => {
    expect(await codeOf(faulty(FAULTS.length))).toBeUndefined();
  });

  const stranger = party();
  it.each(
    Object.entries({
      MISSING_INVOCATION: {
        'the bundle before its receipts': { bundle_version: '4.0', receipts: ['x'] },
      },
      VERSION_MISMATCH: {
        'the version before the receipts': { bundle_version: '5', receipts: [], invocation: '' },
        'the version before other claims': bundleWith({ 0: { claims: { drs_v: '3', iat: 'x' } } }),
      },
      MALFORMED_BUNDLE: {
        'types before the version': { bundle_version: '5', receipts: 1, invocation: '' },
      },
      CHAIN_TOO_DEEP: {
        'depth before the invocation': {
          bundle_version: '4.0',
          receipts: Array(17).fill('x'),
          invocation: '',
        },
      },
      INVALID_JTI: {
        'an earlier receipt before a later one': bundleWith({
          1: { claims: { jti: 'x' } },
          2: { claims: { drs_type: 'x' } },
        }),
        'a receipt before the invocation': bundleWith(
          { 2: { claims: { jti: 'x' } } },
          { claims: { drs_type: 'x' } },
        ),
        'the jti before consent': bundleWith({ 0: { claims: { jti: 'x', drs_consent: undefined } } }),
      },
      WRONG_TYPE: {
        'the type before the version': bundleWith({ 0: { claims: { drs_type: 'x', drs_v: '3' } } }),
      },
      MALFORMED_RECEIPT: {
        'other claims before the jti': bundleWith({ 0: { claims: { iat: 'x', jti: 'x' } } }),
        'a missing expiry before the jti': bundleWith({ 0: { claims: { exp: null, jti: 'x' } } }),
      },
      CHAIN_BREAK: {
        'the hash before the issuer': bundleWith({ 1: { claims: { iss: stranger.did, prev_dr_hash: 'x' } } }),
        'linkage before the invoker': bundleWith(
          { 2: { claims: { prev_dr_hash: 'x' } } },
          { claims: { iss: stranger.did } },
        ),
      },
      ISSUER_MISMATCH: {
        'the issuer of one before the hash of the next': bundleWith({
          1: { claims: { iss: stranger.did } },
          2: { claims: { prev_dr_hash: 'x' } },
        }),
      },
      INVOKER_MISMATCH: {
        'the invoker before the references': bundleWith({}, { claims: { iss: stranger.did, dr_chain: [] } }),
      },
      UNSUPPORTED_ALGORITHM: {
        'the algorithm before the signature': bundleWith({
          1: { header: { alg: 'none' }, signer: stranger },
        }),
        'an algorithm before a later signature': bundleWith({
          0: { header: { alg: 'none' } },
          1: { signer: stranger },
        }),
      },
      INVALID_SIGNATURE: {
        'a signature before a later algorithm': bundleWith({
          0: { signer: stranger },
          1: { header: { alg: 'none' } },
        }),
        "a receipt's signature before the invocation's algorithm": bundleWith(
          { 2: { signer: stranger } },
          { header: { alg: 'none' } },
        ),
      },
      SUBJECT_MISMATCH: {
        'the subject before the command': bundleWith({ 1: { claims: { sub: stranger.did, cmd: '/x' } } }),
      },
      COMMAND_MISMATCH: {
        'the command before the policy': bundleWith({ 1: { claims: { cmd: '/x', policy: {} } } }),
        'the command before the number of delegations': bundleWith({
          0: { claims: { policy: { max_delegations: 0 } } },
          1: { claims: { cmd: '/x' } },
        }),
        "the invocation's command before its arguments": bundleWith(
          {},
          { claims: { cmd: '/x', args: { tool: 'x' } } },
        ),
      },
      DELEGATION_NOT_ALLOWED: {
        'the number of delegations before the policy': bundleWith({
          0: { claims: { policy: { max_delegations: 0 } } },
          1: { claims: { policy: { max_delegations: 1 } } },
        }),
      },
      POLICY_ESCALATION: {
        'the policy of one before the number of delegations': bundleWith({
          0: { claims: { policy: { max_delegations: 1 } } },
          1: { claims: { policy: { max_delegations: 2 } } },
        }),
        'the policy of one before the subject of the next': bundleWith({
          1: { claims: { policy: {} } },
          2: { claims: { sub: stranger.did } },
        }),
        'escalation before violation': bundleWith(
          { 1: { claims: { policy: {} } } },
          { claims: { args: { tool: 'x' } } },
        ),
      },
      INVOCATION_SUBJECT_MISMATCH: {
        "the invocation's subject before its command": bundleWith(
          {},
          { claims: { sub: stranger.did, cmd: '/x' } },
        ),
      },
      NOT_YET_VALID: {
        'not yet valid before the bounds': bundleWith({ 1: { claims: { nbf: NOW + 40, exp: NOW + 7200 } } }),
      },
      TEMPORAL_BOUNDS_VIOLATION: {
        'the bounds of one before the expiry of the next': bundleWith({
          1: { claims: { nbf: NOW - 61 } },
          2: { claims: { exp: NOW - 1 } },
        }),
      },
    }).flatMap(([code, rows]) =>
      Object.entries<unknown>(rows).map(([name, bundle]) => [name, bundle, code] as const),
    ),
  )('%s', async (_, bundle, code) => {
    expect(await codeOf(bundle)).toBe(code);
  });
});
