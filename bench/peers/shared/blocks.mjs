import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { publicKeyOf } from '../../../dist/protocol/did-key.js';

// The verification as an engineer would write it from docs/spec in an afternoon: blocks A to F one after the other. What
// verifies a signature differs from peer to peer.
export const CHECKS = 'blocks A to F, with a memo of verified receipts, behind Fastify';
export const LEAVES_OUT =
  'strict JSON and base64url, duplicate members, resources, data classes, replay, limits on load';

const revoked = new Set();

/**
 * What gives the verdict of `/verify`; an error has only its code.
 *
 * @param prepare makes a key of its 32 bytes
 * @param isSigned whether the signature of a JWT is by a key; or a promise of it
 */
export function verifierWith(prepare, isSigned) {
  // Invocations are not remembered, since each call has a new one. A receipt names its issuer, so its text also determines the
  // key.
  const verified = new LRUCache({ maxSize: 64 * 1024 * 1024, sizeCalculation: (_, jwt) => jwt.length });
  const memoMethod = (did) => {
    const bytes = publicKeyOf(did);
    return bytes === null ? null : prepare(Buffer.from(bytes));
  };
  const keys = new LRUCache({ max: 10_000, memoMethod });
  const check = (jwt, did) => {
    const key = keys.memo(did);
    return key !== null && isSigned(jwt, key);
  };
  return (bundle) => verify(bundle, verified, check);
}

async function verify({ receipts, invocation }, verified, check) {
  if (!Array.isArray(receipts) || receipts.length === 0) return refuse('EMPTY_CHAIN');
  if (typeof invocation !== 'string') return refuse('MISSING_INVOCATION');
  let claims;
  let call;
  try {
    claims = receipts.map(decode);
  } catch {
    return refuse('MALFORMED_RECEIPT');
  }
  try {
    call = decode(invocation);
  } catch {
    return refuse('MALFORMED_INVOCATION');
  }
  const hashes = receipts.map((jwt) => `sha256:${createHash('sha256').update(jwt).digest('hex')}`);
  const linkage = findBrokenLink(claims, call, hashes);
  if (linkage !== null) return refuse(linkage);
  for (const [at, jwt] of receipts.entries()) {
    if (verified.has(jwt)) continue;
    if (!(await check(jwt, claims[at].iss))) return refuse('INVALID_SIGNATURE');
    verified.set(jwt, true);
  }
  if (!(await check(invocation, call.iss))) return refuse('INVALID_INVOCATION_SIGNATURE');
  const policy = findPolicyBreach(claims, call);
  if (policy !== null) return refuse(policy);
  const now = Date.now() / 1000;
  if (claims.some(({ nbf }) => now < nbf)) return refuse('NOT_YET_VALID');
  if (claims.some(({ exp }) => now > exp)) return refuse('EXPIRED');
  if (claims.some(({ drs_status_list_index: index }) => index !== undefined && revoked.has(index))) {
    return refuse('RECEIPT_REVOKED');
  }
  const [root] = claims;
  const leaf_policy = claims.at(-1).policy;
  const { tool_server } = call;
  const context = { root_principal: root.iss, chain_depth: claims.length, leaf_policy, tool_server };
  return { valid: true, context };
}

const refuse = (code) => ({ valid: false, error: { code, message: code, suggestion: '' } });

const decode = (jwt) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());

function findBrokenLink(claims, call, hashes) {
  for (const [at, { iss, prev_dr_hash }] of claims.entries()) {
    if (prev_dr_hash !== (hashes[at - 1] ?? null)) return 'CHAIN_BREAK';
    if (at > 0 && iss !== claims[at - 1].aud) return 'ISSUER_MISMATCH';
  }
  if (call.iss !== claims.at(-1).aud) return 'INVOKER_MISMATCH';
  const isWhole =
    call.dr_chain.length === hashes.length && call.dr_chain.every((hash, at) => hash === hashes[at]);
  return isWhole ? null : 'CHAIN_REFERENCE_MISMATCH';
}

function findPolicyBreach(claims, call) {
  for (const [at, { sub, cmd, policy }] of claims.entries()) {
    const parent = claims[at - 1];
    if (sub !== claims[0].iss) return 'SUBJECT_MISMATCH';
    if (parent !== undefined && !`${cmd}/`.startsWith(`${parent.cmd}/`)) return 'COMMAND_MISMATCH';
    const { allowed_tools = [], max_cost_usd = 0 } = parent?.policy ?? policy;
    if (policy.allowed_tools?.some((tool) => !allowed_tools.includes(tool))) return 'POLICY_ESCALATION';
    if ((policy.max_cost_usd ?? Infinity) > max_cost_usd) return 'POLICY_ESCALATION';
  }
  const { tool = '', estimated_cost_usd = 0 } = call.args;
  const isAllowed = claims.every(
    ({ policy }) =>
      policy.allowed_tools?.includes(tool) && estimated_cost_usd <= (policy.max_cost_usd ?? Infinity),
  );
  return isAllowed ? null : 'POLICY_VIOLATION';
}
