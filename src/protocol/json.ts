import { findJsonDefect, MAX_JSON_DEPTH, type JsonDefect } from './json-defects.js';

/** Any value that JSON can denote. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;

/** A JSON object. `__proto__` is an ordinary member name in it. */
export interface JsonObject {
  [member: string]: JsonValue;
}

/**
 * Maximum number of objects, arrays and members in one JSON text. Reading one takes about a microsecond, and a text of
 * 1 MiB can hold some 350,000. Strings and numbers are cheap and not counted.
 */
export const MAX_JSON_NODES = 16_384;

/** The outcome of {@link parseStrictJson}. */
export type StrictJson =
  | { readonly value: JsonValue; readonly defect?: never }
  | { readonly defect: JsonDefect; readonly value?: never };

/**
 * Parses JSON and refuses what `JSON.parse` hides: a member name that occurs twice in an object (also when written
 * with escapes), nesting deeper than {@link MAX_JSON_DEPTH}, a lone surrogate, a number that overflows a double, and
 * an integer that a double does not hold; and more objects, arrays and members than a limit.
 *
 * @param text JSON text
 * @param maxNodes maximum number of objects, arrays and members
 * @returns the value, or the first defect
 * @see RFC 8259, RFC 7493 (I-JSON), RFC 8785 §3.1
 * @example parseStrictJson('{"a":1,"\\u0061":2}').defect?.kind; // 'duplicate'
 */
export function parseStrictJson(text: string, maxNodes = MAX_JSON_NODES): StrictJson {
  if (hasMoreNodes(text, maxNodes)) {
    return {
      defect: { kind: 'size', message: `it holds more than ${maxNodes} objects, arrays and members` },
    };
  }
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch (error) {
    return { defect: { kind: 'syntax', message: (error as SyntaxError).message } };
  }
  const defect = isPlainlyFaithful(text, value) ? null : findJsonDefect(text);
  if (defect !== null) return { defect };
  return { value: isPrototypeExtended() ? (JSON.parse(text, withoutPrototype) as JsonValue) : value };
}

/**
 * Whether a JSON text holds more objects, arrays and members than a limit. One pass, before the text is parsed.
 *
 * @example hasMoreNodes('[{"a":1},[]]', 3); // true: two arrays, an object, a member
 */
export function hasMoreNodes(text: string, limit = MAX_JSON_NODES): boolean {
  // Each takes at least one character.
  if (text.length <= limit) return false;
  let nodes = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) isInString = !isInString;
    else if (isInString) {
      if (unit === BACKSLASH) at++;
    } else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY || unit === COLON) {
      if (++nodes > limit) return true;
    }
  }
  return false;
}

/** Whether the value is a JSON object: neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Whether `value`, which `JSON.parse` made of `text`, plainly holds all that the text says. `false` means only that a
 * closer look is needed.
 *
 * If two members have the same name, `JSON.parse` drops the earlier one. So if the text is exactly as long as the
 * shortest JSON for its value, no member was dropped. Most programs write JSON that way.
 *
 * If the text has white space or escapes, strings (names and values) are counted instead: there is no duplicate if the
 * text has as many strings as the value. Half the number of unescaped quotes is the number of strings in the text, so
 * the text need not be split into tokens.
 */
export function isPlainlyFaithful(text: string, value: JsonValue): boolean {
  if (!text.isWellFormed()) return false;
  if (text.length <= SHORT_TEXT && fewestCharacters(value, 0) === text.length && !isPrototypeExtended())
    return true;
  // Without an escape, the strings of the value are in the text as they are, and the text is well-formed.
  const hasEscapes = text.includes('\\');
  const strings = countStrings(value, 0, hasEscapes);
  return strings >= 0 && 2 * strings === countUnescapedQuotes(text, hasEscapes || strings > text.length / 16);
}

/**
 * For longer texts, the length of the shortest JSON is not computed: a text of 1 MiB can hold 200,000 fractions, and the
 * length of one is known only after it was written.
 */
const SHORT_TEXT = 65_536;

/** The length of the shortest JSON for a value; less than 0 if something in the value needs a closer look. */
function fewestCharacters(value: JsonValue, depth: number): number {
  switch (typeof value) {
    case 'string':
      return value.length + 2;
    case 'number':
      return fewestDigits(value);
    case 'boolean':
      return value ? 4 : 5;
    default:
  }
  if (value === null) return 4;
  if (depth >= MAX_JSON_DEPTH) return -Infinity;
  // The opening bracket, and after each item a comma or the closing bracket.
  let characters = 1;
  if (Array.isArray(value)) {
    for (const item of value) characters += fewestCharacters(item, depth + 1) + 1;
  } else {
    // V8 reads the members in such a loop without looking each of them up.
    for (const name in value) {
      characters += name.length + 3 + fewestCharacters(value[name] as JsonValue, depth + 1) + 1;
    }
  }
  return characters === 1 ? 2 : characters;
}

/** The length of the shortest JSON for a number if that is its ordinary decimal form; otherwise less than 0. */
function fewestDigits(value: number): number {
  const size = Math.abs(value);
  const sign = value < 0 ? 1 : 0;
  if (Number.isInteger(value)) {
    // From 2^53 on the digits must be compared. With three zeros at the end, an exponent is shorter.
    if (size > Number.MAX_SAFE_INTEGER || (size >= 1000 && size % 1000 === 0)) return -Infinity;
    let digits = 1;
    for (let limit = 10; size >= limit; limit *= 10) digits++;
    return sign + digits;
  }
  // Below 0.01 an exponent is shorter. A number that is not an integer is below 2^53, or it is Infinity.
  return size >= 0.01 && size <= Number.MAX_SAFE_INTEGER ? String(value).length : -Infinity;
}

/** Whether somebody has added members to `Object.prototype`. Asked for each text: it can happen at any time. */
function isPrototypeExtended(): boolean {
  let inherited = 0;
  for (const name in NOTHING) inherited += name.length + 1;
  return inherited > 0;
}

const NOTHING = {};

/** Leaves an object only the members of its text: no claim may come from a prototype that somebody extended. */
function withoutPrototype(_name: string, value: unknown): unknown {
  return isJsonObject(value) ? Object.setPrototypeOf(value, null) : value;
}

const BACKSLASH = 0x5c;
const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;

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
  switch (typeof value) {
    case 'string':
      return !hasEscapes || value.isWellFormed() ? 1 : -Infinity;
    case 'number':
      // Below 2^53 every integer is a double. From there on, and for Infinity, the digits must be compared.
      return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? 0 : -Infinity;
    case 'boolean':
      return 0;
    default:
  }
  if (value === null) return 0;
  if (depth >= MAX_JSON_DEPTH) return -Infinity;
  let strings = 0;
  if (Array.isArray(value)) {
    for (const item of value) {
      strings += countStrings(item, depth + 1, hasEscapes);
      // An array may have 200,000 more items.
      if (strings < 0) return strings;
    }
    return strings;
  }
  const names = Object.keys(value);
  for (const name of names) {
    if (hasEscapes && !name.isWellFormed()) return -Infinity;
    strings += 1 + countStrings(value[name] as JsonValue, depth + 1, hasEscapes);
  }
  return strings;
}
