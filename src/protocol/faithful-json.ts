import type { JsonValue } from './json.js';
import { MAX_JSON_DEPTH } from './json-defects.js';

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
export function isPrototypeExtended(): boolean {
  let inherited = 0;
  for (const name in NOTHING) inherited += name.length + 1;
  return inherited > 0;
}

const NOTHING = {};

const BACKSLASH = 0x5c;
const QUOTE = 0x22;

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

/**
 * Whether JSON can express a value. `JSON.stringify` writes `null` for an infinity, for example, which could then equal
 * a signed `null`. What is nested deeper than a payload may be is not looked at: it cannot equal signed arguments, and
 * a value that contains itself has no end.
 */
export function denotesJson(value: unknown, depth = 0): boolean {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed();
    case 'number':
      return Number.isFinite(value);
    case 'boolean':
      return true;
    case 'object':
      break;
    default:
      return false;
  }
  if (value === null || depth >= MAX_JSON_DEPTH) return true;
  let items: readonly unknown[];
  if (Array.isArray(value)) {
    items = value;
  } else {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return false;
    if (!Object.keys(value).every((name) => name.isWellFormed())) return false;
    items = Object.values(value);
  }
  // Unlike every(), this reads a hole as the undefined that it stands for.
  for (const item of items) if (!denotesJson(item, depth + 1)) return false;
  return true;
}
