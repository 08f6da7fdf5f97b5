import { randomUUID } from 'node:crypto';
import { isJsonObject } from '../protocol/json.js';
import type { Body } from './binding.js';
import type { ReceiptCache } from './receipt-cache.js';

/** A bundle that was read from JSON text. */
export interface BundleText {
  /** What `JSON.parse` makes of the text. Nothing about it has been checked. */
  readonly bundle: unknown;
  /** The text, from which the receipts of a known chain may have been cut out. */
  readonly text: string;
  /** What `JSON.parse` makes of {@link text}. */
  readonly document: unknown;
}

const START = '"receipts":[';
// Nobody outside this process knows it, so it gets into a text only by the replacement below.
const PLACEHOLDER = randomUUID();
const QUOTED_PLACEHOLDER = JSON.stringify(PLACEHOLDER);

/**
 * Parses a bundle, but not the receipts of a chain in the cache, which are most of its text: a third of a microsecond
 * each.
 *
 * If an array in the text is, character for character, the receipts of a known chain, a placeholder takes its place, and
 * the rest is parsed. If the value of `receipts` is then the placeholder, the array stood in that very place. Anywhere
 * else (in the body, in a string, under a name that comes again), the whole text is parsed.
 *
 * @throws SyntaxError if the text is not JSON
 */
export function parseBundleText(text: string, cache: ReceiptCache): BundleText {
  const start = text.indexOf(START) + START.length;
  if (start >= START.length) {
    const end = text.indexOf('"]', start) + 1;
    const chain = cache.guessChain(text.slice(start, end - 1));
    const jwts = chain?.receipts.map(({ jwt }) => jwt);
    if (jwts !== undefined && isListOf(jwts, text, start, end)) {
      const rest = text.slice(0, start - 1) + QUOTED_PLACEHOLDER + text.slice(end + 1);
      const document = parseOrUndefined(rest);
      // The cache's own strings: to compare them with themselves later costs nothing.
      if (isJsonObject(document) && document['receipts'] === PLACEHOLDER)
        return { bundle: { ...document, receipts: jwts }, text: rest, document };
    }
  }
  const bundle: unknown = JSON.parse(text);
  return { bundle, text, document: bundle };
}

/** The body of the call: the bundle's member `body`, with the text in which its faults can be seen. */
export function bodyOf({ text, document }: BundleText): Body | null {
  return isJsonObject(document) && Object.hasOwn(document, 'body')
    ? { kind: 'member', text, document }
    : null;
}

/** Whether a part of the text is these strings, quoted, with nothing but commas between them. */
function isListOf(jwts: readonly string[], text: string, start: number, end: number): boolean {
  let at = start;
  let before = '"';
  for (const jwt of jwts) {
    const from = at + before.length;
    const to = from + jwt.length;
    // `startsWith` would take thirty times as long.
    if (text.slice(at, from) !== before || text.slice(from, to) !== jwt) return false;
    at = to;
    before = '","';
  }
  return text[at] === '"' && at + 1 === end;
}

/** The error does not matter: it would quote the placeholder, and the whole text is parsed next. */
function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
