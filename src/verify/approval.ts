/** The public key of a passkey, as a JWK (RFC 7517) with exactly these members. */
export type PasskeyKey =
  | { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }
  | { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string }
  | { readonly kty: 'RSA'; readonly n: string; readonly e: string };

/** Somebody who may say yes to calls, with one passkey. See docs/spec/approval.md. */
export interface Approver {
  /** Of the person: somebody with two passkeys has it twice. */
  readonly name: string;
  /** The id of the credential, in base64url. */
  readonly id: string;
  readonly key: PasskeyKey;
  /** Of the page on which the passkey signs. Its host is the RP ID. */
  readonly origin: string;
}

/** Who may say yes to calls under a root, as the operator's entry says now. */
export interface Approvers {
  readonly approvers: readonly Approver[];
  /** How many persons must say yes. */
  readonly needed: number;
}
