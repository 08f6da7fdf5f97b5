// Spaces and control characters, some of which URL parsers drop and then see other segments; backslashes, which they take for slashes.
const FORBIDDEN = /[\x00-\x20\x7f\\]/;

// A whole segment `.` or `..`, with each dot and each separator plain or percent-encoded. Encoded separators count,
// since a program that decodes the dots may decode them too. Nothing in it repeats without a bound, so it is linear.
const DOT_SEGMENT = /(?:^|[/?#]|%2f|%5c)(?:\.|%2e){1,2}(?=[/?#]|%2f|%5c|$)/i;

/**
 * Whether a list of resource entries covers a URI: by an equal entry, `*`, or `prefix/*`. No prefix covers a URI with a `.` or `..`
 * segment (also percent-encoded), a backslash, a space or a control character. Linear in the size of both.
 *
 * @example coversResource(['file:///data/*'], 'file:///data/a.txt'); // true
 * @example coversResource(['file:///data/*'], 'file:///data/%2e%2e/etc/passwd'); // false
 */
export function coversResource(entries: readonly string[], uri: string): boolean {
  let isPlain: boolean | undefined;
  for (const entry of entries) {
    if (entry === uri || entry === '*') return true;
    if (entry.endsWith('/*') && uri.startsWith(entry.slice(0, -1)) && (isPlain ??= isPlainUri(uri)))
      return true;
  }
  return false;
}

/**
 * Whether each entry of a child's list is in its parent's, or covered by a `prefix/*` there. O(n log n) in the entries of both.
 *
 * @example coversEveryEntry(['file:///data/*'], ['file:///data/a/*']); // true
 */
export function coversEveryEntry(parent: readonly string[], child: readonly string[]): boolean {
  const entries = new Set(parent);
  if (entries.has('*')) return true;
  // Ascending, without those that another one covers: only the last prefix that sorts before an entry can cover it.
  const prefixes: string[] = [];
  const all = parent.filter((entry) => entry.endsWith('/*')).map((entry) => entry.slice(0, -1));
  for (const prefix of all.sort()) {
    const last = prefixes.at(-1);
    if (last === undefined || !prefix.startsWith(last)) prefixes.push(prefix);
  }
  return child.every((entry) => {
    if (entries.has(entry)) return true;
    const prefix = lastUpTo(prefixes, entry);
    return prefix !== undefined && entry.startsWith(prefix) && isPlainUri(entry);
  });
}

/**
 * Whether a URI or path is what it seems to be: without `.` and `..` segments, backslashes, spaces and control characters.
 *
 * @example isPlainUri('file:///data/../etc/passwd'); // false
 */
export function isPlainUri(uri: string): boolean {
  return !FORBIDDEN.test(uri) && !hasDotSegment(uri);
}

/**
 * Whether a URI or path has a segment `.` or `..`, each dot and separator plain or percent-encoded.
 *
 * @example hasDotSegment('/a/%2e%2E/b'); // true
 */
export function hasDotSegment(uri: string): boolean {
  return DOT_SEGMENT.test(uri);
}

/** The last of some ascending texts that is not greater than `text`. */
function lastUpTo(ascending: readonly string[], text: string): string | undefined {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as string) <= text) low = middle + 1;
    else high = middle;
  }
  return ascending[low - 1];
}
