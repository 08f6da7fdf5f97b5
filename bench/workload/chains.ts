import { toJcs } from '../../src/protocol/jcs.js';
import type { JsonObject } from '../../src/protocol/json.js';
import { digestOf, ISSUED_HEADER } from '../../src/protocol/jwt.js';
import { generateKey, type SigningKey } from '../../src/issue/index.js';

export interface Exchange {
  readonly body: string;
  readonly bundle?: string;
  readonly answer?: string;
}
export type Answered = Exchange & { readonly answer: string };

const TOOLS = ['search', 'fetch', 'summarise', 'translate', 'calendar.read'];
const TOOL_SERVER = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';
const COMMAND = '/mcp/tools/call';

// Chains share keys. Receipts differ in their jti, so all signatures and digests differ.
const parties = Array.from({ length: 24 }, generateKey);
const party = (at: number): SigningKey => parties[at % parties.length] as SigningKey;

function signClaims(claims: JsonObject, key: SigningKey): string {
  const input = `${ISSUED_HEADER}.${Buffer.from(toJcs(claims)).toString('base64url')}`;
  return `${input}.${Buffer.from(key.sign(Buffer.from(input))).toString('base64url')}`;
}

let serial = 0;
const unique = () => `${(++serial).toString(36).padStart(8, '0')}-bench-4a2c-9f00-${process.pid}`;

/**
 * Makes a chain of new receipts that is valid for more than a minute. Nothing in it can be revoked.
 *
 * @param seconds when it ends, from now; default: tomorrow
 * @returns also the key that may call under it, and the exact answer to a valid call
 */
export function makeChain(depth: number, seconds = 86_400) {
  const first = serial;
  const now = Math.floor(Date.now() / 1000);
  const issuedAt = now + Math.min(0, seconds) - 60;
  const root = party(first);
  const receipts: string[] = [];
  const digests: string[] = [];
  let policy = {};
  for (let at = 0; at < depth; at++) {
    const key = party(first + at);
    policy = { allowed_tools: TOOLS.slice(0, at === 0 ? 5 : 3), max_cost_usd: 10 - at / 4 };
    const receipt = signClaims(
      {
        drs_type: 'delegation-receipt',
        drs_v: '4.0',
        iss: key.did,
        aud: party(first + at + 1).did,
        sub: root.did,
        cmd: COMMAND,
        policy,
        iat: issuedAt,
        nbf: issuedAt,
        exp: now + seconds,
        jti: `dr:${unique()}`,
        prev_dr_hash: digests[at - 1] ?? null,
        ...(at > 0 ? {} : ROOT_CLAIMS),
      },
      key,
    );
    receipts.push(receipt);
    digests.push(digestOf(receipt));
  }
  const context = {
    root_principal: root.did,
    chain_depth: depth,
    leaf_policy: policy,
    tool_server: TOOL_SERVER,
  };
  const answer = JSON.stringify({ valid: true, context });
  return { receipts, digests, root, invoker: party(first + depth), answer };
}

const ROOT_CLAIMS = {
  drs_root_type: 'human',
  drs_consent: {
    locale: 'en-GB',
    method: 'explicit-ui-click',
    policy_hash: `sha256:${'5f'.repeat(32)}`,
    session_id: 'session-7c1d2e3f',
    timestamp: '2026-01-15T08:00:00Z',
  },
};

export const CALL_ARGS = {
  estimated_cost_usd: 0.05,
  query: 'opening hours of the city library',
  tool: 'search',
};

/**
 * Makes a call under a chain, with a new invocation.
 *
 * @param args replaces {@link CALL_ARGS}
 */
export function makeCall(
  { receipts, digests, root, invoker, answer }: ReturnType<typeof makeChain>,
  args: JsonObject = CALL_ARGS,
): Answered {
  const invocation = signClaims(
    {
      drs_type: 'invocation-receipt',
      drs_v: '4.0',
      iss: invoker.did,
      sub: root.did,
      cmd: COMMAND,
      args,
      dr_chain: [...digests],
      iat: Math.floor(Date.now() / 1000),
      jti: `inv:${unique()}`,
      tool_server: TOOL_SERVER,
    },
    invoker,
  );
  return { body: JSON.stringify({ bundle_version: '4.0', invocation, receipts }), answer };
}

/** Calls, several under each chain. @param seconds when the chains end, from now */
export function makeCalls(depth: number, calls: number, perChain: number, seconds?: number): Answered[] {
  const chains = Array.from({ length: Math.ceil(calls / perChain) }, () => makeChain(depth, seconds));
  return chains.flatMap((chain) => Array.from({ length: perChain }, () => makeCall(chain))).slice(0, calls);
}

function withInvocation({ body }: Exchange, change: (jwt: string) => string): string {
  const bundle = JSON.parse(body) as { invocation: string };
  return JSON.stringify({ ...bundle, invocation: change(bundle.invocation) });
}

/** The same bundle with one bit of the invocation's signature changed. */
export const forge = (call: Exchange): string =>
  withInvocation(call, (jwt) => jwt.slice(0, -40) + (jwt.at(-40) === 'A' ? 'B' : 'A') + jwt.slice(-39));

/** The same bundle with an invocation that is not a JWT. */
export const garble = (call: Exchange): string => withInvocation(call, (jwt) => jwt.replaceAll('.', '-'));
