import canonicalize from 'canonicalize';
import type { JsonValue } from './json.js';

/**
 * The canonical form of a JSON value: sorted members, no white space, ECMAScript numbers.
 *
 * @throws RangeError if the value has no canonical form (a lone surrogate, `NaN`, an infinity, `undefined`)
 * @see RFC 8785
 * @example toJcs({ b: 1, a: 'x' }); // '{"a":"x","b":1}'
 */
export function toJcs(value: JsonValue): string {
  let text: string | undefined;
  try {
    text = canonicalize(value);
  } catch (error) {
    throw new RangeError(`the value has no RFC 8785 form: ${(error as Error).message}`, { cause: error });
  }
  // JSON.stringify writes a lone surrogate as an escape; an escaped backslash before `ud8` is something else.
  if (text === undefined || /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(text))
    throw new RangeError('the value has no RFC 8785 form: it is undefined or holds a lone surrogate');
  return text;
}
