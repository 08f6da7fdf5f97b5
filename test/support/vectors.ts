import { readFileSync } from 'node:fs';

/** An Ed25519 signature that must verify or must not. Key, message and signature are base64url. */
export interface SignatureVector {
  readonly id: number;
  readonly key: string;
  readonly message: string;
  readonly signature: string;
  readonly valid: boolean;
}

/** A JSON text and its RFC 8785 form. */
export interface CanonicalVector {
  readonly id: number;
  readonly json: string;
  readonly canonical: string;
}

/** A double and its RFC 8785 form. */
export interface NumberVector {
  /** The 64 bits of the double, big-endian, in hex. */
  readonly bits: string;
  /** `null` if the double has no canonical form. */
  readonly canonical: string | null;
  /** Set for the doubles with which the long sequence in test/protocol/jcs.test.ts begins, in their order. */
  readonly seed?: true;
}

/** What a JSON parser must do with some bytes. */
export interface JsonVector {
  readonly id: number;
  readonly expect: 'accept' | 'refuse' | 'either';
  /** The defect that a strict parser finds in a text that an ordinary parser accepts. */
  readonly strict?: 'duplicate';
  /** UTF-8 text, or base64 in `bytes` where the bytes are not UTF-8. */
  readonly text?: string;
  readonly bytes?: string;
  /** How often the text is repeated, and the text after the repetitions. */
  readonly times?: number;
  readonly then?: string;
}

/** A DID and the Ed25519 key that it names. */
export interface DidVector {
  readonly did: string;
  /** 32 bytes in hex; `null` if the DID must not resolve. */
  readonly key: string | null;
  readonly from: 'w3c' | 'here';
  /** How many `z` follow the text of `did`. */
  readonly times?: number;
}

/** An assertion of a passkey. All but `id` and `key` are base64url. */
export interface PasskeyVector {
  /** The anchor of its section in the specification. */
  readonly id: string;
  readonly credential: string;
  /** A JWK. */
  readonly key: Readonly<Record<string, string>>;
  readonly challenge: string;
  readonly clientDataJSON: string;
  readonly authenticatorData: string;
  readonly signature: string;
}

/** A Token Status List without its token. */
export interface TokenListVector {
  readonly from: string;
  readonly entries: number;
  readonly bits: number;
  readonly lst: string;
  /** Those that are not 0. */
  readonly values: Readonly<Record<string, number>>;
}

interface Sets {
  ed25519: SignatureVector;
  'ed25519-edge': SignatureVector;
  jcs: CanonicalVector;
  'jcs-numbers': NumberVector;
  json: JsonVector;
  'did-key': DidVector;
  webauthn: PasskeyVector;
  'token-status-lists': TokenListVector;
}

/** Reads a set of test vectors. `test/vectors/README.md` says where each comes from. */
export function readVectors<S extends keyof Sets>(set: S): Sets[S][] {
  const text = readFileSync(new URL(`../vectors/${set}.jsonl`, import.meta.url), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Sets[S]);
}
