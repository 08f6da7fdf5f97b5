import { createHash } from 'node:crypto';
import fastify from 'fastify';
import { LRUCache } from 'lru-cache';
import sodium from 'sodium-native';
import { publicKeyOf } from '../../dist/protocol/did-key.js';

// What an experienced engineer would write: Fastify, libsodium, and a cache of verified receipts. Invocations are not
// cached, since each call has a new one.
const verified = new LRUCache({ maxSize: 64 * 1024 * 1024, sizeCalculation: (_, jwt) => jwt.length });
const keys = new LRUCache({ max: 10_000, memoMethod: (did) => Buffer.from(publicKeyOf(did) ?? []) });

function check(jwt, did, isInvocation) {
  // A receipt names its issuer, so its text also determines the key.
  if (!isInvocation && verified.has(jwt)) return true;
  const end = jwt.lastIndexOf('.');
  const signature = Buffer.from(jwt.slice(end + 1), 'base64url');
  const key = keys.memo(did);
  if (signature.length !== 64 || key.length !== 32) return false;
  if (!sodium.crypto_sign_verify_detached(signature, Buffer.from(jwt.slice(0, end)), key)) return false;
  if (!isInvocation) verified.set(jwt, true);
  return true;
}

// The verification as an engineer would write it from docs/spec in an afternoon: blocks A to F one after the other. It
// leaves out strict JSON and base64url, duplicate members, resources, data classes and replay, so it does less than the
// product.
const revoked = new Set();

/** The verdict of `/verify`; an error has only its code. */
function verify({ receipts, invocation }) {
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
    if (!check(jwt, claims[at].iss, false)) return refuse('INVALID_SIGNATURE');
  }
  if (!check(invocation, call.iss, true)) return refuse('INVALID_INVOCATION_SIGNATURE');
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

const app = fastify();
app.post('/verify', (request) => verify(request.body));
await app.listen({ port: 0, host: '127.0.0.1' });
process.on('SIGTERM', () => process.exit(0));
console.log(JSON.stringify({ port: app.server.address().port }));
