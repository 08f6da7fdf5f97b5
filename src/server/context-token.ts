import { createHash } from 'node:crypto';
import sodium from 'sodium-native';
import type { GateContext, PendingCall } from '../gate/index.js';
import { decodeBase64url, encodeBase64url } from '../protocol/base64url.js';
import type { InvocationClaims } from '../protocol/claims.js';
import { didKeyOf } from '../protocol/did-key.js';
import { toJcs } from '../protocol/jcs.js';

/** The `typ` of a signed context, which no other token has. */
export const CONTEXT_TOKEN_TYPE = 'drs-context+jwt';

/** Seconds for which a signed context counts: the way from the gate to the tool server, and clocks that differ a little. */
const LIFETIME_SECS = 30;

/** The claims of a signed context. Those of RFC 7519 come first. */
export interface ContextClaims {
  /** The gate: the `did:key` of its signing key. */
  readonly iss: string;
  /** The tool server: the invocation's `tool_server`. */
  readonly aud: string;
  /** The root principal. */
  readonly sub: string;
  readonly iat: number;
  readonly exp: number;
  /** The invocation's `jti`: one call, one context. */
  readonly jti: string;
  readonly verdict: 'valid';
  readonly agent: string;
  readonly chain_depth: number;
  readonly command: string;
  readonly tool: string | null;
  readonly binding: string;
  /** `sha256:` and 64 hex digits of SHA-256 over the bundle's base64url text as it was carried. */
  readonly bundle_digest: string;
  /** The same over the RFC 8785 form of the signed arguments. */
  readonly args_digest: string;
  readonly revocation: RevocationClaims;
}

/** From what the gate knew that nothing was revoked. */
export interface RevocationClaims {
  /** Seconds since the status list was fetched; `null` where none is configured. */
  readonly list_age_secs: number | null;
  /** The status lists that were asked. */
  readonly lists: readonly string[];
}

/** What is signed. */
export interface SignedCall {
  readonly context: GateContext;
  readonly call: Pick<PendingCall, 'encoded'>;
  readonly invocation: Pick<InvocationClaims, 'tool_server' | 'args'>;
  /** Unix seconds. */
  readonly now: number;
}

/** A public key as `/.well-known/jwks.json` shows it. */
export interface ContextJwk {
  readonly kty: 'OKP';
  readonly crv: 'Ed25519';
  readonly alg: 'EdDSA';
  readonly use: 'sig';
  /** The thumbprint of RFC 7638. */
  readonly kid: string;
  readonly x: string;
}

/**
 * Whether a text is a signing key: the 32 bytes of an Ed25519 seed in base64url, as the member `d` of a key file holds
 * them.
 */
export function isSigningSeed(text: string): boolean {
  return decodeBase64url(text)?.length === sodium.crypto_sign_SEEDBYTES;
}

/** Signs contexts, so that a tool server behind a proxy can check that the gate spoke. The secret stays inside. */
export class ContextSigner {
  readonly jwk: ContextJwk;
  /** The gate's `did:key`. */
  readonly did: string;
  readonly #secretKey = sodium.sodium_malloc(sodium.crypto_sign_SECRETKEYBYTES);
  readonly #header: string;
  readonly #revocation: () => RevocationClaims;

  /**
   * @param seed for which {@link isSigningSeed} holds
   * @param revocation asked for each call
   */
  constructor(seed: string, revocation: () => RevocationClaims) {
    const publicKey = Buffer.alloc(sodium.crypto_sign_PUBLICKEYBYTES);
    const bytes = decodeBase64url(seed);
    if (bytes === null) throw new TypeError('the signing key is not base64url');
    sodium.crypto_sign_seed_keypair(publicKey, this.#secretKey, bytes);
    bytes.fill(0);
    const x = encodeBase64url(publicKey);
    const kid = createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest('base64url');
    this.jwk = { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', kid, x };
    this.did = didKeyOf(publicKey);
    this.#header = encodeText(JSON.stringify({ alg: 'EdDSA', kid, typ: CONTEXT_TOKEN_TYPE }));
    this.#revocation = revocation;
  }

  /** A compact JWT for one call, and for `aud` alone. */
  sign({ context, call, invocation, now }: SignedCall): string {
    const claims: ContextClaims = {
      iss: this.did,
      aud: invocation.tool_server,
      sub: context.root_principal,
      iat: now,
      exp: now + LIFETIME_SECS,
      jti: context.invocation,
      verdict: 'valid',
      agent: context.agent,
      chain_depth: context.chain_depth,
      command: context.command,
      tool: context.tool,
      binding: context.binding ?? 'none',
      bundle_digest: digestOf(call.encoded),
      args_digest: digestOf(toJcs(invocation.args)),
      revocation: this.#revocation(),
    };
    const input = `${this.#header}.${encodeText(JSON.stringify(claims))}`;
    const signature = Buffer.alloc(sodium.crypto_sign_BYTES);
    sodium.crypto_sign_detached(signature, Buffer.from(input, 'latin1'), this.#secretKey);
    return `${input}.${encodeBase64url(signature)}`;
  }
}

function encodeText(text: string): string {
  return encodeBase64url(Buffer.from(text, 'utf8'));
}

function digestOf(text: string): string {
  return `sha256:${createHash('sha256').update(text, 'utf8').digest('hex')}`;
}
