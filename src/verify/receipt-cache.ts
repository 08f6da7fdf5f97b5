import { Buffer } from 'node:buffer';
import { LRUCache } from 'lru-cache';
import { Chain, type Receipt } from './receipt.js';

/** Figures of a {@link ReceiptCache}; the first three only grow. */
export interface ReceiptCacheFigures {
  readonly hits: number;
  readonly misses: number;
  readonly evictions: number;
  readonly receipts: number;
  readonly chains: number;
  readonly bytes: number;
}

// Of a receipt or chain beside its texts, with its place in the cache. A little above what the heap shows, as all these
// figures are: test/verify/cache-memory.test.ts compares.
const OVERHEAD_BYTES = 704;
// Of a text, an item of a list or a limit beside its characters.
const ITEM_BYTES = 32;
// What a cached receipt takes, about: where the cache is full, as many receipts are remembered to have been seen once.
const ORDINARY_BYTES = 4_096;
// From this share of its bytes on the cache is full: it never is to the last byte.
const FULL = 0.9;

/**
 * Receipts whose signature has verified, and chains of which everything is proved that concerns their receipts alone,
 * both by their exact JWTs. Both are pure functions of these bytes, so that an entry never goes stale; nothing that
 * depends on time, revocation or a call is in here.
 *
 * One LRU bounded in bytes. An entry counts all that it holds, and holds on to no other entry. Once it is full, a receipt
 * enters when it is seen for the second time, so that chains that come once neither cost anything nor drive others out.
 */
export class ReceiptCache {
  readonly #entries: LRUCache<string, Receipt | Chain> | null;
  readonly #fullBytes: number;
  // Marks of receipts that were seen once. A collision only costs another look.
  readonly #seen: Uint32Array;
  /** See {@link keepFor}. */
  #keysVersion = 0;
  #hits = 0;
  #misses = 0;
  #evictions = 0;
  #chains = 0;

  /** @param maxBytes 0 turns the cache off */
  constructor(maxBytes: number) {
    this.#fullBytes = FULL * maxBytes;
    this.#seen = new Uint32Array(Math.ceil(maxBytes / ORDINARY_BYTES));
    this.#entries =
      maxBytes === 0
        ? null
        : new LRUCache({
            maxSize: maxBytes,
            sizeCalculation: sizeOf,
            dispose: (entry, _key, reason) => {
              if (entry instanceof Chain) this.#chains--;
              if (reason === 'evict') this.#evictions++;
            },
          });
  }

  get figures(): ReceiptCacheFigures {
    const entries = this.#entries?.size ?? 0;
    return {
      hits: this.#hits,
      misses: this.#misses,
      evictions: this.#evictions,
      receipts: entries - this.#chains,
      chains: this.#chains,
      bytes: this.#entries?.calculatedSize ?? 0,
    };
  }

  /**
   * Call this before a verification asks for entries: they are kept while the keys stay the same, and all forgotten
   * when a key has changed, since their signatures were verified under the old ones.
   */
  keepFor(keysVersion: number): void {
    if (keysVersion === this.#keysVersion) return;
    this.#keysVersion = keysVersion;
    this.#entries?.clear();
  }

  /** The receipt with exactly this JWT, if its signature is known to verify. */
  getReceipt(jwt: string): Receipt | null {
    const entry = this.#entries?.get(keyOf(jwt));
    if (entry === undefined || entry instanceof Chain || entry.jwt !== jwt) {
      this.#misses++;
      return null;
    }
    this.#hits++;
    return entry;
  }

  /** The chain of exactly these receipts, if all that concerns them alone is proved. */
  getChain(jwts: readonly string[]): Chain | null {
    const entry = this.#entries?.get(chainKeyOf(jwts.at(-1) ?? ''));
    if (!(entry instanceof Chain) || !entry.consistsOf(jwts)) return null;
    this.#hits += jwts.length;
    return entry;
  }

  /** Takes in a receipt whose signature has just verified, and shrinks it. */
  addReceipt(receipt: Receipt): void {
    // What is there stays: its key may be a slice of its text, which would otherwise outlive it uncounted.
    if (this.#entries === null || this.#entries.has(keyOf(receipt.jwt))) return;
    if (this.#entries.calculatedSize > this.#fullBytes && !this.#wasSeen(receipt)) return;
    receipt.shrink();
    this.#entries.set(keyOf(receipt.jwt), receipt);
  }

  /**
   * Takes in a chain of which everything is proved that concerns its receipts alone, and shrinks these; where its last
   * receipt has not entered, neither does the chain.
   */
  addChain(chain: Chain): void {
    if (this.#entries?.has(keyOf(chain.leaf.jwt)) !== true) return;
    if (this.#entries.has(chainKeyOf(chain.leaf.jwt))) return;
    for (const receipt of chain.receipts) receipt.shrink();
    const key = chainKeyOf(chain.leaf.jwt);
    this.#entries.set(key, chain);
    // A chain that is larger than the cache does not enter it.
    if (this.#entries.has(key)) this.#chains++;
  }

  /** Whether a receipt was seen before, as far as the marks tell; it is from now on. */
  #wasSeen({ signature }: Receipt): boolean {
    if (signature === null) return false;
    // A signature's first half is as good as random, and cannot be chosen without the issuer's key.
    const slot = signature.readUInt32LE(0) % this.#seen.length;
    const mark = signature.readUInt32LE(4);
    if (this.#seen[slot] === mark) return true;
    this.#seen[slot] = mark;
    return false;
  }
}

// The end of the text, which is its signature, proposes an entry; the whole text is compared. Not the whole as the key,
// because hashing a long text takes a microsecond, and because V8 hashes texts above 16 Ki characters by their length.
const KEY_CHARACTERS = 64;

function keyOf(jwt: string): string {
  return jwt.slice(-KEY_CHARACTERS);
}

// No JWT has a blank in it, so no receipt has such a key.
function chainKeyOf(leaf: string): string {
  return `${keyOf(leaf)} `;
}

function sizeOf(entry: Receipt | Chain): number {
  if (!(entry instanceof Chain)) return sizeOfReceipt(entry);
  // Its receipts may be held by nobody else.
  let bytes = OVERHEAD_BYTES + textBytes(entry.contextJson);
  for (const receipt of entry.receipts) bytes += sizeOfReceipt(receipt);
  return bytes;
}

function sizeOfReceipt({ jwt, claims, limits }: Receipt): number {
  const { iss, aud, sub, cmd, jti, prev_dr_hash, drs_root_type, session_id } = claims;
  let bytes = OVERHEAD_BYTES + jwt.length;
  for (const text of [iss, aud, sub, cmd, jti, prev_dr_hash ?? '', drs_root_type ?? '', session_id ?? ''])
    bytes += textBytes(text);
  for (const { limit } of limits) {
    bytes += 2 * ITEM_BYTES;
    if (typeof limit.value === 'object') for (const item of limit.value) bytes += textBytes(item);
  }
  return bytes;
}

/** V8 keeps a text in two bytes a character unless all are Latin-1, and does not tell; ASCII can be told at once. */
function textBytes(text: string): number {
  return ITEM_BYTES + (Buffer.byteLength(text) === text.length ? text.length : 2 * text.length);
}
