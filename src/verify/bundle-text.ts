import { randomUUID } from 'node:crypto';
import { isJsonObject } from '../protocol/json.js';
import type { ReceiptCache } from './receipt-cache.js';
import type { Chain } from './receipt.js';

/** A bundle that was read from JSON text. */
export interface BundleText {
  /** What `JSON.parse` makes of the text; nothing about it is checked. */
  readonly bundle: unknown;
  /** The text, where the receipts of a known chain may have been cut out. */
  readonly text: string;
  /** What `JSON.parse` makes of {@link text}. */
  readonly document: unknown;
}

const START = '"receipts":[';
// Nobody outside this process knows it, so no text can hold it but by the replacement below.
const PLACEHOLDER = randomUUID();
const QUOTED_PLACEHOLDER = JSON.stringify(PLACEHOLDER);

/**
 * Parses a bundle, and spares a chain that is known from parsing: its receipts are most of the text.
 *
 * Where the text of an array is, character for character, that of a known chain's receipts, it is replaced by a
 * placeholder and the rest is parsed. If the placeholder then turns up as the value of `receipts`, the array stood in
 * that very place: up to it both texts are read alike, and both values are complete. Wherever else such an array may
 * stand (in the body, in a string, under a name that occurs again), the whole text is parsed.
 *
 * @throws SyntaxError where the text is not JSON
 */
export function parseBundleText(text: string, cache: ReceiptCache): BundleText {
  const start = text.indexOf(START) + START.length;
  if (start >= START.length) {
    const end = text.indexOf('"]', start) + 1;
    const chain = cache.guessChain(text, end - 1);
    if (chain !== null && isListOf(chain, text, start, end)) {
      const rest = text.slice(0, start - 1) + QUOTED_PLACEHOLDER + text.slice(end + 1);
      const document = parseOrUndefined(rest);
      if (isJsonObject(document) && document['receipts'] === PLACEHOLDER) {
        // The cache's own strings: comparing them with themselves later costs nothing.
        return { bundle: { ...document, receipts: chain.jwts }, text: rest, document };
      }
    }
  }
  const bundle: unknown = JSON.parse(text);
  return { bundle, text, document: bundle };
}

/** Whether the text from `start` to `end` is a chain's receipts, quoted and separated by commas alone. */
function isListOf({ jwts }: Chain, text: string, start: number, end: number): boolean {
  let at = start;
  for (const jwt of jwts) {
    const from = at === start ? at + 1 : at + 2;
    const to = from + jwt.length;
    if (text.slice(at, from) !== (at === start ? '"' : ',"')) return false;
    if (text.slice(from, to) !== jwt || text[to] !== '"') return false;
    at = to + 1;
  }
  return at === end;
}

/** Nothing is said of the error: it would quote the placeholder, and the whole text will tell. */
function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
