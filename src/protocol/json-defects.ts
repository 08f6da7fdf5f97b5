/** The deepest nesting of arrays and objects that a strict document may have; the outermost counts as 1. */
export const MAX_JSON_DEPTH = 64;

/** How many numbers of more than 15 digits beyond ±2^53 a document may have: comparing one takes 3 µs, and 1 MiB can hold 60,000. */
export const MAX_LARGE_NUMBERS = 3_072;

/** What makes a text unfit as strict JSON, though `JSON.parse` may accept it. */
export interface JsonDefect {
  readonly kind: 'syntax' | 'duplicate' | 'depth' | 'surrogate' | 'number' | 'size';
  /** For a person: what was found. */
  readonly message: string;
}

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COLON = 0x3a;
export const OPEN_OBJECT = 0x7b;
export const OPEN_ARRAY = 0x5b;
const CLOSE_OBJECT = 0x7d;
const CLOSE_ARRAY = 0x5d;
const MINUS = 0x2d;

/** A double holds every integer of at most so many digits, whatever zeros follow it (DBL_DIG in C). */
const MAX_EXACT_DIGITS = 15;

/**
 * Finds the first thing in a text that `JSON.parse` accepts and strict JSON does not. This is the exact, slow check,
 * which is needed only if `isPlainlyFaithful` could not decide. Linear in the length of the text.
 *
 * @param text JSON that `JSON.parse` has accepted
 * @param scope.within when given, only defects of these members of the outermost object count: in a value, or a second one
 * @param scope.depth the maximum nesting that is not a defect
 * @param scope.maxLargeNumbers how many large numbers are not a defect
 * @param scope.only when given, only defects of this kind count: without it, one that comes first hides the others
 * @returns the defect, or `null` if there is none
 */
export function findJsonDefect(
  text: string,
  {
    within,
    depth = MAX_JSON_DEPTH,
    only,
    maxLargeNumbers = MAX_LARGE_NUMBERS,
  }: { within?: readonly string[]; depth?: number; only?: JsonDefect['kind']; maxLargeNumbers?: number } = {},
): JsonDefect | null {
  // One entry for each open object or array, outermost first: the names seen so far, or null for an array.
  const open: (Set<string> | null)[] = [];
  const isWellFormed = text.isWellFormed();
  let outermostMember = '';
  const counts = (kind: JsonDefect['kind']) =>
    (only === undefined || only === kind) && (within === undefined || within.includes(outermostMember));
  let largeNumbers = 0;
  let end = 0;
  for (let at = nextToken(text, end); at < text.length; at = nextToken(text, end)) {
    const unit = text.charCodeAt(at);
    let defect: JsonDefect | null = null;
    end = at + 1;
    if (unit === QUOTE) {
      end = endOfString(text, at);
      // Only names are followed by a colon.
      const names = isFollowedByColon(text, end) ? (open.at(-1) as Set<string>) : null;
      const inner = readString(text, at, end, names !== null || !isWellFormed);
      if (inner !== null) {
        if (names !== null && open.length === 1) outermostMember = inner;
        defect = findTextDefect(inner, names);
      }
    } else if (isOpening(unit)) {
      open.push(unit === OPEN_OBJECT ? new Set() : null);
      if (open.length > depth)
        defect = { kind: 'depth', message: `arrays and objects nest deeper than ${depth}` };
    } else if (isClosing(unit)) {
      open.pop();
    } else {
      end = endOfNumber(text, at);
      const literal = text.slice(at, end);
      if (counts('number') && isLarge(literal))
        defect = findNumberDefect(literal, ++largeNumbers, maxLargeNumbers);
    }
    if (defect !== null && counts(defect.kind)) return defect;
  }
  return null;
}

/** A string without quotes and escapes; `null` if no look at it is needed: without an escape it holds no lone surrogate. */
function readString(text: string, start: number, end: number, isNeeded: boolean): string | null {
  const raw = text.slice(start + 1, end - 1);
  if (!isNeeded && !raw.includes('\\u')) return null;
  return raw.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : raw;
}

/** @param names of the object that were before this one, to which it is added; `null` if it is no name */
function findTextDefect(text: string, names: Set<string> | null): JsonDefect | null {
  if (names?.has(text) === true)
    return { kind: 'duplicate', message: `the member name ${quote(text)} occurs twice in one object` };
  names?.add(text);
  if (text.isWellFormed()) return null;
  return { kind: 'surrogate', message: `the string ${quote(text)} holds a lone surrogate` };
}

/** @param count how many large numbers there are with this one */
function findNumberDefect(literal: string, count: number, max: number): JsonDefect | null {
  if (count <= max && isFaithfulNumber(literal)) return null;
  const message =
    count > max
      ? `it holds more than ${max} numbers of more than ${MAX_EXACT_DIGITS} digits beyond 2^53`
      : `the number ${shorten(literal)} is not what a double holds of it`;
  return { kind: 'number', message };
}

/** The position of the next bracket, string or number. */
function nextToken(text: string, start: number): number {
  let at = start;
  for (; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE || unit === MINUS || isDigit(unit) || isOpening(unit) || isClosing(unit)) break;
  }
  return at;
}

/** The position after a string, given that of its opening quote. Most are long, and indexOf compares several characters at a time. */
export function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let escapes = at;
    while (text.charCodeAt(escapes - 1) === BACKSLASH) escapes--;
    // Of an even number of backslashes, each second one is escaped itself, and the quote is not.
    if ((at - escapes) % 2 === 0) return at + 1;
  }
  return text.length;
}

/** The position after a number, given that of its first character. */
function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  // A number consists of these, and none of them can follow one in valid JSON.
  while (at < text.length && (isDigit(text.charCodeAt(at)) || '+-.eE'.includes(text.charAt(at)))) at++;
  return at;
}

const isDigit = (unit: number) => unit >= 0x30 && unit <= 0x39;
const isOpening = (unit: number) => unit === OPEN_OBJECT || unit === OPEN_ARRAY;
const isClosing = (unit: number) => unit === CLOSE_OBJECT || unit === CLOSE_ARRAY;

function isFollowedByColon(text: string, position: number): boolean {
  let at = position;
  // In valid JSON, the only characters up to 0x20 at this place are white space.
  while (at < text.length && text.charCodeAt(at) <= 0x20) at++;
  return text.charCodeAt(at) === COLON;
}

/** Whether a double may not hold a number, or print another one: its digits must be compared, which takes time. */
function isLarge(literal: string): boolean {
  const value = Math.abs(Number(literal));
  return value > Number.MAX_SAFE_INTEGER && (value === Infinity || literal.search(/e|$/i) > MAX_EXACT_DIGITS);
}

/**
 * Whether a JSON number means what the double made of it prints as: false for an overflow, and for a number beyond 2^53 that
 * the RFC 8785 form of its double does not denote: there, doubles are integers. Smaller fractions may round.
 *
 * @example isFaithfulNumber('9007199254740993'); // false: a double holds …992
 * @example isFaithfulNumber('1E30'); // true
 */
export function isFaithfulNumber(literal: string): boolean {
  const value = Number(literal);
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return true;
  if (!Number.isFinite(value)) return false;
  // The double is near what is written, so with the same digits it has the same exponent.
  return digitsOf(literal) === digitsOf(String(value));
}

/** The digits of a number, without the sign and without zeros at either end. */
function digitsOf(literal: string): string {
  const [mantissa = ''] = literal.toLowerCase().split('e');
  const digits = mantissa.replace('.', '');
  let [start, end] = [0, digits.length];
  while (digits[start] === '0' || digits[start] === '-') start++;
  while (digits[end - 1] === '0') end--;
  return digits.slice(start, end);
}

const shorten = (text: string) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
const quote = (text: string) => JSON.stringify(shorten(text));
