import { createHash, sign, type KeyObject } from 'node:crypto';
import { base58 } from '@scure/base';
import { newKeyPair } from './key-pair.js';

/**
 * Chains for tests, made without code from src/: the claims follow docs/spec and are signed with node:crypto. Overrides
 * are not checked, so that broken chains can be made too.
 */

/** Claims that replace the ordinary ones; `undefined` removes a claim. */
export type Overrides = Record<string, unknown>;

export interface Party {
  readonly did: string;
  readonly key: KeyObject;
}

/** A Unix time at which the chains made here are valid: the current time, since the service uses its own clock. */
export const NOW = Math.floor(Date.now() / 1000);

/**
 * For services that record invocations: those made here are not too old for them while their chains live. In a long run,
 * {@link NOW} is many minutes ago.
 */
export const FRESH = { REPLAY_WINDOW_SECS: '3600' };

export function party(): Party {
  const { privateKey, bytes } = newKeyPair();
  return { did: `did:key:z${base58.encode(Uint8Array.of(0xed, 0x01, ...bytes))}`, key: privateKey };
}

export const HEADER = { alg: 'EdDSA', typ: 'JWT' };

const segment = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

/** Signs a payload. A payload that is a text is used unchanged. */
export function signJwt(payload: unknown, signer: Party, header: unknown = HEADER): string {
  const input = `${segment(header)}.${segment(payload)}`;
  return `${input}.${sign(null, Buffer.from(input), signer.key).toString('base64url')}`;
}

export const sha256 = (jwt: string) => `sha256:${createHash('sha256').update(jwt).digest('hex')}`;

/** The consent record of root receipts. */
export const CONSENT = {
  locale: 'en-GB',
  method: 'explicit-ui-click',
  policy_hash: `sha256:${'0'.repeat(64)}`,
  session_id: 'session-1',
  timestamp: '2027-01-15T08:00:00Z',
};

export function rootClaims(issuer: Party, audience: Party, overrides: Overrides = {}): Overrides {
  return {
    aud: audience.did,
    cmd: '/mcp/tools/call',
    drs_consent: CONSENT,
    drs_root_type: 'human',
    drs_type: 'delegation-receipt',
    drs_v: '4.0',
    exp: NOW + 3600,
    iat: NOW - 60,
    iss: issuer.did,
    jti: 'dr:7a1f6f0e-6a3f-4d5a-9c0e-1f2a3b4c5d6e',
    nbf: NOW - 60,
    policy: { allowed_tools: ['search', 'fetch'] },
    prev_dr_hash: null,
    sub: issuer.did,
    ...overrides,
  };
}

export function childClaims(
  parent: string,
  root: Party,
  issuer: Party,
  audience: Party,
  overrides: Overrides = {},
): Overrides {
  // JSON leaves out members that are undefined.
  const rootOnly = { drs_consent: undefined, drs_root_type: undefined };
  const claims = rootClaims(issuer, audience, { prev_dr_hash: sha256(parent), sub: root.did, ...rootOnly });
  return { ...claims, ...overrides };
}

export function invocationClaims(
  receipts: readonly string[],
  root: Party,
  invoker: Party,
  overrides: Overrides = {},
): Overrides {
  return {
    args: { estimated_cost_usd: 0.05, query: 'tea', tool: 'search' },
    cmd: '/mcp/tools/call',
    dr_chain: receipts.map(sha256),
    drs_type: 'invocation-receipt',
    drs_v: '4.0',
    iat: NOW,
    iss: invoker.did,
    jti: 'inv:0b1c2d3e',
    sub: root.did,
    tool_server: 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw',
    ...overrides,
  };
}

export interface Chain {
  /** The principal, then each delegate; the last one invokes. */
  readonly parties: readonly Party[];
  readonly receipts: readonly string[];
}

export interface TestBundle {
  readonly bundle_version: string;
  readonly invocation: string;
  readonly receipts: readonly string[];
}

/** A chain of receipts; `overrides[n]` applies to receipt n. */
export function makeChain(depth: number, overrides: Readonly<Record<number, Overrides>> = {}): Chain {
  const parties = Array.from({ length: depth + 1 }, party);
  const receipts: string[] = [];
  for (let at = 0; at < depth; at++) {
    const [root, issuer, audience] = [parties[0], parties[at], parties[at + 1]] as [Party, Party, Party];
    const claims =
      at === 0
        ? rootClaims(issuer, audience, overrides[0])
        : childClaims(receipts[at - 1] as string, root, issuer, audience, overrides[at]);
    receipts.push(signJwt(claims, issuer));
  }
  return { parties, receipts };
}

/** A bundle for one call under a chain. */
export function invoke({ parties, receipts }: Chain, overrides: Overrides = {}): TestBundle {
  const [root, invoker] = [parties[0], parties.at(-1)] as [Party, Party];
  const invocation = signJwt(invocationClaims(receipts, root, invoker, overrides), invoker);
  return { bundle_version: '4.0', invocation, receipts };
}

/** A bundle that is valid at {@link NOW}. */
export function makeBundle(depth = 3): TestBundle {
  return invoke(makeChain(depth));
}
