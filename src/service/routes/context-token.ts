import { createHash } from 'node:crypto';
import { sodium } from '../../signatures/sodium.js';
import type { GateParts } from '../../gate/decide.js';
import { decodeBase64url, encodeBase64url } from '#platform';
import { didKeyOf } from '../../protocol/did-key.js';
import { toJcs } from '../../protocol/jcs.js';
import { digestOf } from '../../protocol/jwt.js';
import { statedCostOf } from '../../verify/limits.js';
import type { Receipt } from '../../verify/receipt.js';
import { chargedOf, type RefundPart } from '../../usage/index.js';

/** The `typ` of a signed context. No other token has it, so none can be mistaken for a context. */
const CONTEXT_TOKEN_TYPE = 'drs-context+jwt';

/** The `typ` of what signs a body that is sent to a webhook. */
const WEBHOOK_TOKEN_TYPE = 'drs-webhook+jwt';

/** Lifetime of a signed context in seconds: covers the way from gate to tool server, and small clock differences. */
const LIFETIME_SECS = 30;

type ContextSigner = Exclude<GateParts['sign'], undefined>;

export type ContextClaims = ReturnType<typeof claimsOf>;

/** A delegate, and who delegated to it: the outermost is the current actor. */
interface Actor {
  readonly sub: string;
  readonly act?: Actor;
}

/**
 * Makes what signs contexts, so that a tool server behind a proxy can check that they come from the gate. Never exposes the key.
 *
 * @param seed the 32 bytes of an Ed25519 seed in base64url, like the member `d` of a key file
 * @param revocation called for each signed context: the revocation data that the gate has checked
 */
export function contextSignerOf(seed: string, revocation: () => object) {
  const publicKey = Buffer.alloc(sodium.crypto_sign_PUBLICKEYBYTES);
  const secretKey = sodium.sodium_malloc(sodium.crypto_sign_SECRETKEYBYTES);
  const bytes = decodeBase64url(seed);
  if (bytes === null) throw new TypeError('the signing key is not base64url');
  sodium.crypto_sign_seed_keypair(publicKey, secretKey, bytes);
  bytes.fill(0);
  const did = didKeyOf(publicKey);
  const x = encodeBase64url(publicKey);
  // RFC 7638
  const kid = createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest('base64url');
  const headerOf = (typ: string) => encodeText(JSON.stringify({ alg: 'EdDSA', kid, typ }));
  const header = headerOf(CONTEXT_TOKEN_TYPE);
  const webhookHeader = headerOf(WEBHOOK_TOKEN_TYPE);

  const jwtOf = (header: string, claims: object): string => {
    const input = `${header}.${encodeText(JSON.stringify(claims))}`;
    const signature = Buffer.alloc(sodium.crypto_sign_BYTES);
    sodium.crypto_sign_detached(signature, Buffer.from(input, 'latin1'), secretKey);
    return `${input}.${encodeBase64url(signature)}`;
  };

  /** Makes a compact JWT that is valid for one call and one tool server (`aud`). */
  const sign: ContextSigner = (...allowed) => jwtOf(header, claimsOf(did, revocation(), ...allowed));

  /** Makes a compact JWT over a body that is sent now. */
  const signBody = (body: string): string => {
    const iat = Math.floor(Date.now() / 1000);
    return jwtOf(webhookHeader, { iss: did, iat, exp: iat + LIFETIME_SECS, body_digest: digestOf(body) });
  };

  /** The claims of a context that this key has signed, whether it is still valid for a tool server or not; else `null`. */
  const read = (token: string): ContextClaims | null => {
    const end = token.lastIndexOf('.');
    const input = token.slice(0, end);
    const signature = decodeBase64url(token.slice(end + 1));
    if (signature?.length !== sodium.crypto_sign_BYTES || !input.startsWith(`${header}.`)) return null;
    const signed = Buffer.from(input, 'utf8');
    if (!sodium.crypto_sign_verify_detached(Buffer.from(signature), signed, publicKey)) return null;
    const payload = Buffer.from(input.slice(header.length + 1), 'base64url').toString('utf8');
    return JSON.parse(payload) as ContextClaims;
  };

  return {
    /** The public key in the form of `/.well-known/jwks.json`. */
    jwk: { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', kid, x } as const,
    sign,
    signBody,
    read,
  };
}

/**
 * What a context says of an allowed call, the registered claims of RFC 7519 first. What is `undefined` is left out.
 *
 * @param iss the `did:key` of the gate's signing key
 */
function claimsOf(
  iss: string,
  revocation: object,
  ...[call, { chain, invocation }, context, now]: Parameters<ContextSigner>
) {
  const { args, tool_server } = invocation.claims;
  const toClaim = ({ receipt, microUsd }: RefundPart) => ({ receipt, micro_usd: microUsd });
  const { root_name, labels, agent, chain_depth, command, tool, binding = 'none' } = context;
  const { root_type, consent_record, session_id, correlation_id, regulatory } = context;
  const { stated_by, unstated, cost_usd, approval } = context;
  return {
    iss,
    aud: tool_server,
    sub: context.root_principal,
    // The agent, who signed the call. RFC 9068 §2.2
    client_id: agent,
    // Who acts for the root principal. RFC 8693 §4.1
    act: actorOf(chain.receipts, agent),
    iat: now,
    exp: now + LIFETIME_SECS,
    // Each call has its own context.
    jti: context.invocation,
    verdict: 'valid',
    agent,
    root_name,
    labels,
    chain_depth,
    command,
    tool,
    binding,
    root_type,
    consent_record,
    session_id,
    correlation_id,
    regulatory,
    stated_by,
    unstated,
    cost_usd,
    approval,
    // Of the bundle's base64url text as it was sent.
    bundle_digest: digestOf(call.encoded),
    args_digest: digestOf(toJcs(args)),
    revocation,
    // Besides 1 call for each limited receipt, root first.
    charged: context.limits && chargedOf(statedCostOf(args, context), chain.limits).map(toClaim),
  };
}

/** The agent, and behind it each delegate between it and the root principal. */
function actorOf(receipts: readonly Receipt[], agent: string): Actor {
  const [, ...delegates] = receipts.map(({ claims }) => claims.iss);
  const parties = [...delegates, agent];
  return parties.reduce<Actor | null>((act, sub) => (act === null ? { sub } : { sub, act }), null) as Actor;
}

function encodeText(text: string): string {
  return encodeBase64url(Buffer.from(text, 'utf8'));
}
