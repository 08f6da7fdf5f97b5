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
  if (text === undefined || /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(text)) {
    throw new RangeError('the value has no RFC 8785 form: it is undefined or holds a lone surrogate');
  }
  return text;
}

/**
 * Whether two JSON values have the same RFC 8785 form, without writing either form. The values must be faithful
 * (see {@link parseStrictJson}); numbers compare by value, so that `-0` equals `0` as its canonical form does.
 *
 * @example equalsByJcs({ a: 1, b: [2] }, { b: [2], a: 1 }); // true
 */
export function equalsByJcs(left: JsonValue, right: JsonValue): boolean {
  if (left === right) return true;
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false;
  if (Array.isArray(left)) {
    if (!Array.isArray(right) || left.length !== right.length) return false;
    for (let at = 0; at < left.length; at++) {
      if (!equalsByJcs(left[at] as JsonValue, right[at] as JsonValue)) return false;
    }
    return true;
  }
  if (Array.isArray(right)) return false;
  const names = Object.keys(left);
  if (names.length !== Object.keys(right).length) return false;
  for (const name of names) {
    if (!Object.hasOwn(right, name)) return false;
    if (!equalsByJcs(left[name] as JsonValue, right[name] as JsonValue)) return false;
  }
  return true;
}
