/**
 * Whether a list of resource entries covers a URI, or an entry of a narrower list: by an equal entry, by `*`, or by
 * `prefix/*`. What holds a `.` or `..` segment, also percent-encoded, is covered by no prefix.
 *
 * @example coversResource(['file:///data/*'], 'file:///data/a.txt'); // true
 * @example coversResource(['file:///data/*'], 'file:///data/%2e%2e/etc/passwd'); // false
 */
export function coversResource(entries: readonly string[], resource: string): boolean {
  return entries.some(
    (entry) =>
      entry === resource ||
      entry === '*' ||
      (entry.endsWith('/*') && resource.startsWith(entry.slice(0, -1)) && !hasDotSegment(resource)),
  );
}

function hasDotSegment(resource: string): boolean {
  // An encoded separator may be decoded together with the dots beside it, so it separates here too.
  const decoded = resource.replace(/%2e/gi, '.').replace(/%2f|%5c/gi, '/');
  return decoded.split(/[/\\?#]/).some((segment) => segment === '.' || segment === '..');
}
