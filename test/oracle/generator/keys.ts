import { createHash, createPrivateKey, createPublicKey, sign, type KeyObject } from 'node:crypto';
import { toBase58 } from '../encoding.js';

const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
const L = 2n ** 252n + 27742317777372353535851937790883648493n;

interface Pair {
  readonly seed: Buffer;
  readonly privateKey: KeyObject;
  readonly bytes: Buffer;
}

/** The same keys in every run. */
const pairs: readonly Pair[] = Array.from({ length: 10 }, (_, number) => {
  const seed = createHash('sha256').update(`drs-verify oracle key ${number}`).digest();
  const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), type: 'pkcs8', format: 'der' });
  const spki = createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
  return { seed, privateKey, bytes: spki.subarray(-32) };
});

export const KEYS = pairs.length;

const toDid = (key: Uint8Array): string =>
  `did:key:z${toBase58(Buffer.concat([Buffer.from([0xed, 0x01]), key]))}`;

const dids = pairs.map(({ bytes }) => toDid(bytes));

function pairOf(key: number): Pair {
  const pair = pairs[key];
  if (pair === undefined) throw new RangeError(`no key ${key}`);
  return pair;
}

export const didOf = (key: number): string => dids[key] ?? '';

// Ed25519 is deterministic, and a run signs the same receipts over and over.
const known = new Map<string, Buffer>();
const MAX_KNOWN = 20_000;

export function signWith(key: number, signed: string): Buffer {
  const name = `${key} ${signed}`;
  let signature = known.get(name);
  if (signature === undefined) {
    if (known.size >= MAX_KNOWN) known.clear();
    signature = sign(null, Buffer.from(signed, 'ascii'), pairOf(key).privateKey);
    known.set(name, signature);
  }
  return signature;
}

/** DIDs of keys for which anyone can make signatures: points of order 1, 2 and 8, and one that is not canonical. */
export const WEAK_DIDS: readonly string[] = [
  '0100000000000000000000000000000000000000000000000000000000000000',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
].map((hex) => toDid(Buffer.from(hex, 'hex')));

/** DIDs that do not name an Ed25519 key. */
export const ODD_DIDS: readonly string[] = [
  'did:web:example.com',
  `${didOf(0)}#${didOf(0).slice(8)}`,
  didOf(0).replace('did:key:z', 'did:key:'),
  didOf(0).replace('did:key:z', 'did:key:z1'),
  didOf(0).replace('did:', 'DID:'),
  `${didOf(0)}1`,
  `${didOf(0).slice(0, -1)}0`,
  ` ${didOf(0)}`,
  `did:key:z${toBase58(Buffer.concat([Buffer.from([0xec, 0x01]), pairOf(0).bytes]))}`,
  `did:key:z${toBase58(Buffer.concat([Buffer.from([0xed, 0x01]), pairOf(0).bytes.subarray(1)]))}`,
  'did:key:z',
  '',
];

/** Signatures that some Ed25519 implementations accept, but not libsodium, and others that all must refuse. */
export const FORGERIES = [
  's+l',
  'small-r',
  'identity-key',
  'flip',
  'short',
  'long',
  'zero',
  'other-key',
] as const;
export type Forgery = (typeof FORGERIES)[number];

export function forge(kind: Forgery, key: number, signed: string): Buffer {
  const signature = Buffer.from(signWith(key, signed));
  const { seed, bytes } = pairOf(key);
  const [scalar, prefix] = expand(seed);
  switch (kind) {
    case 's+l':
      return Buffer.concat([signature.subarray(0, 32), toBytes(toNumber(signature.subarray(32)) + L)]);
    case 'small-r': {
      // R is the neutral element, so S is h times the secret scalar.
      const r = Buffer.from(`01${'00'.repeat(31)}`, 'hex');
      const h = hash(r, bytes, Buffer.from(signed, 'ascii'));
      return Buffer.concat([r, toBytes((h * scalar) % L)]);
    }
    case 'identity-key': {
      // Under the neutral element as key, any R with its own logarithm as S verifies.
      const r = hash(prefix, Buffer.from(signed, 'ascii'));
      return Buffer.concat([signature.subarray(0, 32), toBytes(r)]);
    }
    case 'flip':
      signature[5] = (signature[5] ?? 0) ^ 4;
      return signature;
    case 'short':
      return signature.subarray(0, 63);
    case 'long':
      return Buffer.concat([signature, Buffer.from([0])]);
    case 'zero':
      return Buffer.alloc(64);
    case 'other-key':
      return signWith((key + 1) % KEYS, signed);
  }
}

/** The secret scalar, and the prefix from which the nonce is made (RFC 8032, section 5.1.5). */
function expand(seed: Buffer): [bigint, Buffer] {
  const digest = createHash('sha512').update(seed).digest();
  const low = Buffer.from(digest.subarray(0, 32));
  low[0] = (low[0] ?? 0) & 248;
  low[31] = ((low[31] ?? 0) & 127) | 64;
  return [toNumber(low), digest.subarray(32)];
}

const hash = (...parts: Buffer[]) => toNumber(createHash('sha512').update(Buffer.concat(parts)).digest()) % L;
const toNumber = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
const toBytes = (number: bigint) => Buffer.from(number.toString(16).padStart(64, '0'), 'hex').reverse();
