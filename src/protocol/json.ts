import { BACKSLASH, COLON, endOfString, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './json-defects.js';
import { findJsonDefect, MAX_JSON_DEPTH, MAX_LARGE_NUMBERS, type JsonDefect } from './json-defects.js';

/** Any value that JSON can denote. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;

/** A JSON object. `__proto__` is an ordinary member name in it. */
export interface JsonObject {
  [member: string]: JsonValue;
}

const COMMA = 0x2c;

/** Maximum number of objects, arrays and members in one JSON text. Each takes about 1 µs to read, and 1 MiB can hold 350,000. */
export const MAX_JSON_NODES = 12_288;

/**
 * Maximum number of commas outside of strings, which bounds the elements of all arrays together: a text of 1 MiB can hold half a
 * million. Real arguments are below it: a table of 3,000 rows with 10 columns, or 20 vectors of 1,536 numbers.
 */
export const MAX_JSON_COMMAS = 32_768;

/** What a JSON text may not have more of, for messages. */
export const jsonLimits = (maxNodes = MAX_JSON_NODES) =>
  `${maxNodes} JSON objects, arrays and members, or ${MAX_JSON_COMMAS} commas`;

/**
 * Parses JSON and refuses what `JSON.parse` hides: a member name that occurs twice in an object (also when written
 * with escapes), nesting deeper than `MAX_JSON_DEPTH`, a lone surrogate, a number that overflows a double, and
 * an integer that a double does not hold; and more objects, arrays, members and elements than a limit.
 *
 * @param text JSON text
 * @param maxNodes maximum number of objects, arrays and members; a quarter of it is that of large numbers
 * @returns the value, or the first defect, and what `JSON.parse` makes of the text
 * @see RFC 8259, RFC 7493 (I-JSON), RFC 8785 §3.1
 * @example parseStrictJson('{"a":1,"\\u0061":2}').defect?.kind; // 'duplicate'
 */
export function parseStrictJson(
  text: string,
  maxNodes = MAX_JSON_NODES,
):
  | { value: JsonValue; defect?: never; parsed?: never }
  | { defect: JsonDefect; parsed?: JsonValue; value?: never } {
  if (hasMoreNodes(text, maxNodes))
    return { defect: { kind: 'size', message: `it holds more than ${jsonLimits(maxNodes)}` } };
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch (error) {
    return { defect: { kind: 'syntax', message: (error as SyntaxError).message } };
  }
  // In proportion: a bundle may have many receipts, each with its own.
  const maxLargeNumbers = maxNodes / (MAX_JSON_NODES / MAX_LARGE_NUMBERS);
  const defect = isPlainlyFaithful(text, value) ? null : findJsonDefect(text, { maxLargeNumbers });
  if (defect !== null) return { defect, parsed: value };
  // Somebody may add members to it at any time.
  const isExtended = Object.keys(Object.prototype).length > 0;
  return { value: isExtended ? (JSON.parse(text, withoutPrototype) as JsonValue) : value };
}

/**
 * Whether a JSON text holds more objects, arrays and members than a limit, or too many commas. One pass, before it is parsed.
 *
 * @example hasMoreNodes('[{"a":1},[]]', 3); // true: two arrays, an object, a member
 */
export function hasMoreNodes(text: string, limit = MAX_JSON_NODES): boolean {
  // Each takes at least one character.
  if (text.length <= limit) return false;
  let nodes = 0;
  let commas = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(text, at) - 1;
    else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY || unit === COLON) {
      if (++nodes > limit) return true;
    } else if (unit === COMMA && ++commas > MAX_JSON_COMMAS) return true;
  }
  return false;
}

/** Whether the value is a JSON object: neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Leaves an object only the members of its text: no claim may come from a prototype that somebody extended. */
function withoutPrototype(_name: string, value: unknown): unknown {
  return isJsonObject(value) ? Object.setPrototypeOf(value, null) : value;
}

/**
 * What keeps a value of this process from being arguments. `JSON.stringify` writes `null` for an infinity, for example, which
 * could then equal a signed `null`; and a value can be in itself, or be a list of 10^8 holes, and then takes for ever to read.
 *
 * @returns `not JSON` if JSON cannot express it; `size` if it is more than arguments may be, and is read no further; else `null`
 */
export function findValueDefect(value: unknown): 'not JSON' | 'size' | null {
  let [nodes, commas] = [0, 0];
  const left: object[] = [];
  let items: readonly unknown[] = [value];
  for (;;) {
    // Unlike every(), this reads a hole as the undefined that it stands for.
    for (const item of items) {
      if (typeof item === 'object' && item !== null) left.push(item);
      else if (!isJsonScalar(item)) return 'not JSON';
    }
    const next = left.pop();
    if (next === undefined) return null;
    if (Array.isArray(next)) {
      items = next;
      nodes += 1;
    } else {
      if (!isPlainObject(next)) return 'not JSON';
      if (!Object.keys(next).every((name) => name.isWellFormed())) return 'not JSON';
      items = Object.values(next);
      nodes += 1 + items.length;
    }
    commas += Math.max(0, items.length - 1);
    if (nodes > MAX_JSON_NODES || commas > MAX_JSON_COMMAS) return 'size';
  }
}

/** Whether an object is like those that JSON makes, in any realm: tests (Jest) and `vm` have an `Object` of their own. */
function isPlainObject(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return (
    prototype === null ||
    (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf'))
  );
}

function isJsonScalar(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  return typeof value === 'number' ? Number.isFinite(value) : value === null || typeof value === 'boolean';
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
    if (!Object.hasOwn(right, name) || !equalsByJcs(left[name] as JsonValue, right[name] as JsonValue))
      return false;
  }
  return true;
}

/**
 * Whether `value`, which `JSON.parse` made of `text`, plainly holds all of it. `false` only means that a closer look is needed.
 *
 * If two members have the same name, `JSON.parse` drops the earlier one with its strings. So there is no duplicate if the text has as
 * many strings, names and values, as the value: half as many as it has unescaped quotes, for which it need not be split into tokens.
 */
export function isPlainlyFaithful(text: string, value: JsonValue): boolean {
  if (!text.isWellFormed()) return false;
  // Without an escape, the strings of the value are in the text as they are, and the text is well-formed.
  const hasEscapes = text.includes('\\');
  const strings = countStrings(value, 0, hasEscapes);
  return strings >= 0 && 2 * strings === countUnescapedQuotes(text, hasEscapes || strings > text.length / 16);
}

/** @param isDense whether to look at each character: needed where there are escapes, and quicker for short strings */
function countUnescapedQuotes(text: string, isDense: boolean): number {
  let quotes = 0;
  if (!isDense) {
    // indexOf compares several characters at a time.
    for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) quotes++;
    return quotes;
  }
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) quotes++;
    // Valid JSON has backslashes only in strings, and each one escapes the next character.
    else if (unit === BACKSLASH) at++;
  }
  return quotes;
}

/** The number of strings in a value, names included; less than 0 if something in it needs a closer look. */
function countStrings(value: JsonValue, depth: number, hasEscapes: boolean): number {
  if (typeof value === 'string') return !hasEscapes || value.isWellFormed() ? 1 : -Infinity;
  // Below 2^53 every integer is a double. From there on, and for Infinity, the digits must be compared.
  if (typeof value === 'number') return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? 0 : -Infinity;
  if (typeof value === 'boolean' || value === null) return 0;
  if (depth >= MAX_JSON_DEPTH) return -Infinity;
  let strings = 0;
  if (Array.isArray(value)) {
    for (const item of value) {
      strings += countStrings(item, depth + 1, hasEscapes);
      if (strings < 0) return strings;
    }
    return strings;
  }
  for (const name of Object.keys(value)) {
    if (hasEscapes && !name.isWellFormed()) return -Infinity;
    strings += 1 + countStrings(value[name] as JsonValue, depth + 1, hasEscapes);
  }
  return strings;
}
