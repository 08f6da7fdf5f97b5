import { createPublicKey, verify as verifyWithNode, webcrypto } from 'node:crypto';
import { verifyEd25519 } from '../../src/signatures/in-thread.js';

/** Checks signatures under one key. The key was prepared in advance, as in a service that knows its callers. */
export type CheckUnderKey = (signature: Buffer, message: Buffer) => boolean | Promise<boolean>;

/** An implementation of Ed25519. */
export interface Engine {
  readonly name: string;
  /** Prepares a key. Throws if the engine refuses the key. */
  readonly under: (publicKey: Buffer) => CheckUnderKey | Promise<CheckUnderKey>;
}

const jwkOf = (publicKey: Buffer) => ({
  kty: 'OKP',
  crv: 'Ed25519',
  x: publicKey.toString('base64url'),
});

const BUILT_IN: readonly Engine[] = [
  {
    name: 'sodium-native',
    under: (publicKey) => (signature, message) => verifyEd25519(signature, message, publicKey),
  },
  {
    name: 'node-crypto',
    under: (publicKey) => {
      const key = createPublicKey({ key: jwkOf(publicKey), format: 'jwk' });
      return (signature, message) => verifyWithNode(null, message, key, signature);
    },
  },
  {
    name: 'webcrypto',
    under: async (publicKey) => {
      const { subtle } = webcrypto;
      const key = await subtle.importKey('jwk', jwkOf(publicKey), 'Ed25519', false, ['verify']);
      return (signature, message) => subtle.verify('Ed25519', key, signature, message);
    },
  },
];

/** The packages to try, by name. Packages that are not installed are left out. */
const PACKAGES: readonly (readonly [name: string, open: (module: Module) => Engine['under'] | null])[] = [
  [
    '@noble/curves/ed25519',
    ({ ed25519 }) =>
      ed25519 === undefined
        ? null
        : (publicKey) => (signature, message) =>
            // Without this it follows ZIP 215, which accepts more than RFC 8032.
            ed25519.verify(signature, message, publicKey, { zip215: false }),
  ],
  [
    '@noble/ed25519',
    ({ verifyAsync, verify }) => {
      const check = verifyAsync ?? verify;
      return check === undefined
        ? null
        : (publicKey) => (signature, message) => check(signature, message, publicKey);
    },
  ],
  [
    'tweetnacl',
    ({ default: nacl }) =>
      nacl?.sign === undefined
        ? null
        : (publicKey) => (signature, message) =>
            nacl.sign?.detached.verify(message, signature, publicKey) === true,
  ],
];

type Verify = (
  signature: Uint8Array,
  message: Uint8Array,
  publicKey: Uint8Array,
  options?: object,
) => boolean | Promise<boolean>;

/** The parts of these packages that are used here. Each package has some of them. */
interface Module {
  readonly ed25519?: { readonly verify: (...args: Parameters<Verify>) => boolean };
  readonly verify?: Verify;
  readonly verifyAsync?: Verify;
  readonly default?: {
    readonly sign?: {
      readonly detached: {
        verify(message: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean;
      };
    };
  };
}

/** All Ed25519 implementations on this machine. @param missing called with each package that is not installed */
export async function availableEngines(missing: (name: string) => void): Promise<Engine[]> {
  const engines = [...BUILT_IN];
  for (const [name, open] of PACKAGES) {
    try {
      const under = open((await import(name)) as Module);
      if (under !== null) engines.push({ name: name.replace('@', '').replaceAll('/', '-'), under });
      else missing(name);
    } catch {
      missing(name);
    }
  }
  return engines;
}

/** A published signature that must verify or must not. */
export interface Vector {
  readonly key: Buffer;
  readonly message: Buffer;
  readonly signature: Buffer;
  readonly valid: boolean;
}

/** How many published vectors an engine got wrong. */
export interface VectorResult {
  readonly acceptedWrongly: number;
  readonly refusedWrongly: number;
}

/** Checks an engine against vectors. An error counts as a refusal. */
export async function checkEngine({ under }: Engine, vectors: readonly Vector[]): Promise<VectorResult> {
  let acceptedWrongly = 0;
  let refusedWrongly = 0;
  for (const { key, message, signature, valid } of vectors) {
    let accepted = false;
    try {
      accepted = await (await under(key))(signature, message);
    } catch {
      // Refused.
    }
    if (accepted && !valid) acceptedWrongly++;
    if (!accepted && valid) refusedWrongly++;
  }
  return { acceptedWrongly, refusedWrongly };
}
