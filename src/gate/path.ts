import { hasDotSegment } from '../protocol/resources.js';

/** Path and query of a request, read strictly: what servers could read in two ways is refused. */

/** The longest path with its query. Front ends take no longer headers; gateways that describe a request could. */
const MAX_PATH = 65_536;

/** A path as it was sent, segment by segment, and its query; `null` if it has none. */
export interface SplitPath {
  readonly segments: readonly string[];
  readonly query: string | null;
}

/**
 * The segments of a path as sent, and its query; `null` if handlers could read another path from it, or if it is longer
 * than any header. Linear.
 */
export function splitPath(path: string): SplitPath | null {
  if (path.length > MAX_PATH) return null;
  const mark = path.indexOf('?');
  const segments = segmentsOf(mark === -1 ? path : path.slice(0, mark));
  return segments === null ? null : { segments, query: mark === -1 ? null : path.slice(mark + 1) };
}

/** The segments of a path without a query. */
export function segmentsOf(path: string): readonly string[] | null {
  if (!SEGMENTS.test(path) || hasDotSegment(path)) return null;
  const segments = path.slice(1).split('/');
  return segments.every(isDecodable) ? segments : null;
}

// RFC 3986's pchar without ";", before which some servers cut a segment. An encoded slash, backslash or control
// character is another path to some. What decodes a path before it reads it sees the end of a path or of a segment in an
// encoded "#", ";" or "?", and another escape in an encoded "%".
const SEGMENTS = /^(?:\/(?:[\w.~!$&'()*+,=:@-]|%(?!2[35F]|5C|3[BF]|[01]|7F)[0-9A-F]{2})*)+$/i;

// RFC 3986's query without ";" and "&", at which servers split it.
const VALUE = /^(?:[\w.~!$'()*+,=:@/?-]|%[0-9A-F]{2})*$/i;

/** Whether the escapes of a text are UTF-8. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Each costs some microseconds, and a query has room for 15,000. */
const MAX_PARAMETERS = 256;

/**
 * The parameters of a query, decoded: each at most once. A string says what is wrong.
 *
 * @param known the names that may come; `null` for any
 */
export function readQuery(query: string, known: ReadonlySet<string> | null): Record<string, string> | string {
  const parameters = Object.create(null) as Record<string, string>;
  if (query === '') return parameters;
  const pairs = query.split('&');
  // Of known names, each may come once.
  if (known === null && pairs.length > MAX_PARAMETERS)
    return `the query has more than ${MAX_PARAMETERS} parameters`;
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    const name = equals === -1 ? pair : pair.slice(0, equals);
    const shown = JSON.stringify(name.slice(0, 100));
    if (known === null && !isParameterName(name))
      return `the query has ${shown}, expected names of letters, digits, "_" and "-"`;
    if (known !== null && !known.has(name))
      return `the query has ${shown}, which is no argument here; expected ${[...known].join(', ') || 'no query'}`;
    if (equals === -1) return `the query has ${shown} without a value, expected ${name}=…`;
    if (name in parameters) return `the query has ${shown} more than once, expected it once`;
    const value = pair.slice(equals + 1);
    if (!VALUE.test(value) || !isDecodable(value))
      return `the value of ${shown} is not percent-encoded UTF-8`;
    parameters[name] = decodeURIComponent(value.replaceAll('+', ' '));
  }
  return parameters;
}

/** Whether a parameter in a path or a query can have a name. */
export function isParameterName(name: string): boolean {
  return NAME.test(name);
}

const NAME = /^[A-Za-z_][\w-]{0,63}$/;
