import { findJsonDefect, MAX_JSON_DEPTH, type JsonDefect } from './json-defects.js';

/** Any value that JSON can denote. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;

/** A JSON object. `__proto__` is an ordinary member name in it. */
export interface JsonObject {
  [member: string]: JsonValue;
}

/**
 * The most objects, arrays and members of one JSON text. A reader spends about a microsecond on each, and a text of 1 MiB
 * can hold some 350,000; strings and numbers are cheap.
 */
export const MAX_JSON_NODES = 32_768;

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
 * @param maxNodes the most objects, arrays and members
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
 * Whether a JSON text holds more objects, arrays and members than a limit: found before it is parsed, in one pass.
 *
 * @example hasMoreNodes('[{"a":1},[]]', 3); // true: two arrays, an object, a member
 */
export function hasMoreNodes(text: string, limit = MAX_JSON_NODES): boolean {
  // Each takes a character at least.
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
 * `JSON.parse` drops the earlier of two members of one name, and its characters with it: a text that is no longer than
 * its value must be hides nothing. Most programs write JSON so. Of a text with white space or escapes the strings are
 * counted: it has no duplicate anywhere exactly when it has as many (names and values) as the parsed value, and the
 * strings of a text are counted by its unescaped quotes, without any tokenising.
 */
export function isPlainlyFaithful(text: string, value: JsonValue): boolean {
  if (!text.isWellFormed()) return false;
  if (fewestCharacters(value, 0) === text.length && !isPrototypeExtended()) return true;
  // Without an escape, what is in the value stands in the text.
  const hasEscapes = text.includes('\\');
  const strings = countStrings(value, 0, hasEscapes);
  return strings >= 0 && 2 * strings === countUnescapedQuotes(text, hasEscapes);
}

/** The fewest characters in which JSON can say a value; less than 0 where something in it needs a closer look. */
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
  // The opening bracket, and behind each item a comma or the closing bracket.
  let characters = 1;
  if (Array.isArray(value)) {
    for (const item of value) characters += fewestCharacters(item, depth + 1) + 1;
  } else {
    // An engine reads the members in such a loop without looking them up.
    for (const name in value) {
      characters += name.length + 3 + fewestCharacters(value[name] as JsonValue, depth + 1) + 1;
    }
  }
  return characters === 1 ? 2 : characters;
}

/** The fewest characters in which JSON can say a number, where its ordinary decimal form is that; else less than 0. */
function fewestDigits(value: number): number {
  const size = Math.abs(value);
  const sign = value < 0 ? 1 : 0;
  if (Number.isInteger(value)) {
    // At and above 2^53 the digits must be looked at; with three zeros at the end an exponent is shorter.
    if (size > Number.MAX_SAFE_INTEGER || (size >= 1000 && size % 1000 === 0)) return -Infinity;
    let digits = 1;
    for (let limit = 10; size >= limit; limit *= 10) digits++;
    return sign + digits;
  }
  // Below that an exponent is shorter; what is not an integer lies below 2^53, or is Infinity.
  return size >= 0.01 && size <= Number.MAX_SAFE_INTEGER ? String(value).length : -Infinity;
}

/** Whether objects have members that nobody gave them. Asked for each text, since it may become so at any time. */
function isPrototypeExtended(): boolean {
  let inherited = 0;
  for (const name in NOTHING) inherited += name.length + 1;
  return inherited > 0;
}

const NOTHING = {};

/** Makes an object hold what its text says and nothing else: no claim may come from a prototype that someone extended. */
function withoutPrototype(_name: string, value: unknown): unknown {
  return isJsonObject(value) ? Object.setPrototypeOf(value, null) : value;
}

const BACKSLASH = 0x5c;
const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;

function countUnescapedQuotes(text: string, hasEscapes: boolean): number {
  let quotes = 0;
  if (!hasEscapes) {
    // From quote to quote: the searches in between are the engine's, and several characters at a time.
    for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) quotes++;
    return quotes;
  }
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) quotes++;
    // Valid JSON has a backslash only inside a string, and there it takes the next character with it.
    else if (unit === BACKSLASH) at++;
  }
  return quotes;
}

/** The number of strings in a value, names included; less than 0 where something in it needs a closer look. */
function countStrings(value: JsonValue, depth: number, hasEscapes: boolean): number {
  switch (typeof value) {
    case 'string':
      return !hasEscapes || value.isWellFormed() ? 1 : -Infinity;
    case 'number':
      // Below 2^53 every integer is a double; at and above it, and at Infinity, the digits must be looked at.
      return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? 0 : -Infinity;
    case 'boolean':
      return 0;
    default:
  }
  if (value === null) return 0;
  if (depth >= MAX_JSON_DEPTH) return -Infinity;
  let strings = 0;
  if (Array.isArray(value)) {
    for (const item of value) strings += countStrings(item, depth + 1, hasEscapes);
    return strings;
  }
  const names = Object.keys(value);
  for (const name of names) {
    if (hasEscapes && !name.isWellFormed()) return -Infinity;
    strings += 1 + countStrings(value[name] as JsonValue, depth + 1, hasEscapes);
  }
  return strings;
}
