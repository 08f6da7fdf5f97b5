import { randomUUID } from 'node:crypto';
import { utf8Length } from '#platform';
import { LRUCache } from 'lru-cache';
import { isJsonObject } from '../protocol/json.js';
import type { Body } from './binding.js';
import type { ReceiptMemory } from './parts.js';
import { Chain, type Receipt } from './receipt.js';

// Bytes of a receipt or chain besides its texts, its place in the cache included. All these numbers are a little above
// what the heap shows; test/verify/cache-memory.test.ts compares them.
const OVERHEAD_BYTES = 800;
// Bytes of a text, an item of a list or a limit besides its characters.
const ITEM_BYTES = 32;
// Bytes of an object or a list of a root's claims besides its items.
const OBJECT_BYTES = 96;
// Bytes of the counted limits of a receipt. The digest belongs to the receipt.
const LIMIT_BYTES = 96;
// About what a cached receipt takes. There is one mark for each receipt of this size that fits into the cache; a mark says
// that a receipt was seen once.
const ORDINARY_BYTES = 4_096;
// The cache counts as full from this share of its bytes on: it is never full to the last byte.
const FULL = 0.9;

/**
 * Receipts whose signature has verified, and chains whose receipts passed every check that concerns receipts alone. Both
 * are found by their exact JWTs, and depend only on these and the issuers' keys: see {@link keepFor}. The cache holds
 * nothing that depends on time or a call, and of revocation only `Chain.clearOf`.
 *
 * One LRU, bounded in bytes. An entry counts everything that it holds, and does not refer to other entries. Once the
 * cache is full, a receipt enters when it is seen for the second time. So a chain that is used once costs nothing, and
 * evicts nothing.
 */
export class ReceiptCache implements ReceiptMemory {
  readonly #entries: LRUCache<string, Receipt | Chain> | null;
  readonly #fullBytes: number;
  // Marks of receipts that were seen once. If two share a mark, one of them enters the cache one use later.
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

  /** Counters, of which the first three only grow. */
  get stats() {
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

  /** The receipts of the known chain whose list, without its brackets, stands in a text from here to there; else `null`. */
  findJwts(text: string, from: number, to: number): readonly string[] | null {
    // `getChain` follows, and says that it was used.
    const chain = this.#entries?.peek(chainKeyOf(text.slice(from, to - 1)));
    if (!(chain instanceof Chain)) return null;
    let at = from;
    for (const { jwt } of chain.receipts) {
      const end = at + 1 + jwt.length;
      // `startsWith` would take thirty times as long.
      if (text[at] !== '"' || text.slice(at + 1, end) !== jwt || text[end] !== '"') return null;
      if (end + 1 < to && text[end + 1] !== ',') return null;
      at = end + 2;
    }
    // The cache's own strings: to compare them with themselves later costs nothing.
    return at === to + 1 ? chain.receipts.map(({ jwt }) => jwt) : null;
  }

  /** Adds a receipt whose signature has just verified, and shrinks it. */
  addReceipt(receipt: Receipt): void {
    if (this.#entries === null) return;
    if (this.#entries.calculatedSize > this.#fullBytes && !this.#wasSeen(receipt)) return;
    // An existing entry stays. Its key may be a slice of its text: replacing the value would keep the old text alive,
    // uncounted.
    if (this.#entries.has(keyOf(receipt.jwt))) return;
    receipt.shrink();
    this.#entries.set(keyOf(receipt.jwt), receipt);
  }

  /**
   * Adds a chain whose receipts passed every check that concerns receipts alone, and shrinks these. If its last
   * receipt is not in the cache, the chain does not enter either.
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

  /** Whether the marks show that a receipt was seen before. From now on it counts as seen. */
  #wasSeen({ signature }: Receipt): boolean {
    if (signature === null) return false;
    // A signature's first half is as good as random, and cannot be chosen without the issuer's key.
    const slot = uint32At(signature, 0) % this.#seen.length;
    const mark = uint32At(signature, 4);
    if (this.#seen[slot] === mark) return true;
    this.#seen[slot] = mark;
    return false;
  }
}

// The key is the end of the text, which is its signature. A hit is only a candidate: the whole text is compared. The
// whole text is not the key, because hashing it takes a microsecond, and V8 hashes texts above 16 Ki characters by their
// length alone.
const KEY_CHARACTERS = 64;

function keyOf(jwt: string): string {
  return jwt.slice(-KEY_CHARACTERS);
}

// Shorter than the key of any receipt.
function chainKeyOf(leaf: string): string {
  return leaf.slice(-KEY_CHARACTERS + 1);
}

function sizeOf(entry: Receipt | Chain): number {
  if (!(entry instanceof Chain)) return sizeOfReceipt(entry);
  // The chain may be the only one that still holds its receipts.
  let bytes = OVERHEAD_BYTES + textBytes(entry.contextJson) + entry.limits.length * LIMIT_BYTES;
  for (const receipt of entry.receipts) bytes += sizeOfReceipt(receipt);
  return bytes;
}

function sizeOfReceipt({ jwt, claims, limits }: Receipt): number {
  const { drs_consent, drs_regulatory, listed, ...others } = claims;
  let bytes = OVERHEAD_BYTES + jwt.length;
  const lists = typeof listed === 'string' ? [] : (listed ?? []);
  for (const part of [others, drs_consent, drs_regulatory, drs_regulatory?.frameworks, ...lists]) {
    if ((part ?? null) !== null && part !== others) bytes += OBJECT_BYTES;
    for (const text of Object.values(part ?? {}) as readonly unknown[])
      if (typeof text === 'string') bytes += textBytes(text);
  }
  for (const { value } of limits) {
    bytes += 2 * ITEM_BYTES;
    if (typeof value === 'object') for (const item of value) bytes += textBytes(item);
  }
  return bytes;
}

/** V8 uses one byte a character if all are Latin-1, else two. Here only ASCII counts one: that is quick to detect. */
function textBytes(text: string): number {
  return ITEM_BYTES + (utf8Length(text) === text.length ? text.length : 2 * text.length);
}

/** Four bytes of a signature as a number, the lowest first. */
function uint32At(bytes: Uint8Array, at: number): number {
  const byte = (offset: number) => bytes[at + offset] as number;
  return (byte(0) | (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24)) >>> 0;
}

const START = '"receipts":[';
// Nobody outside this process knows it, so only the replacement below puts it into a text.
const PLACEHOLDER = randomUUID();

/**
 * Parses a bundle, but not the receipts of a chain in the cache, which are most of its text: a placeholder takes the place of
 * their list, and the rest is parsed. If the value of `receipts` is then the placeholder, the list stood in that very place.
 * Anywhere else (in the body, in a string, under a name that comes again), the whole text is parsed.
 *
 * @returns the bundle, about which nothing has been checked, and its member `body`, with the text in which its faults can be seen
 * @throws SyntaxError if the text is not JSON
 */
export function parseBundleText(
  text: string,
  cache: ReceiptCache,
): { readonly bundle: unknown; readonly body: Body | null } {
  const start = text.indexOf(START) + START.length;
  const end = start < START.length ? 0 : text.indexOf('"]', start) + 1;
  const receipts = end === 0 ? null : cache.findJwts(text, start, end);
  if (receipts !== null) {
    const rest = `${text.slice(0, start - 1)}"${PLACEHOLDER}"${text.slice(end + 1)}`;
    let document: unknown;
    try {
      document = JSON.parse(rest);
    } catch {
      // The error would quote the placeholder. The whole text is parsed next.
    }
    if (isJsonObject(document) && document['receipts'] === PLACEHOLDER)
      return { bundle: { ...document, receipts }, body: bodyIn(rest, document) };
  }
  const bundle: unknown = JSON.parse(text);
  return { bundle, body: bodyIn(text, bundle) };
}

function bodyIn(text: string, document: unknown): Body | null {
  const hasBody = isJsonObject(document) && Object.hasOwn(document, 'body');
  return hasBody ? { kind: 'member', text, document } : null;
}
