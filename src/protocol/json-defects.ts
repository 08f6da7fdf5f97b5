/** The deepest nesting of arrays and objects that a strict document may have; the outermost counts as 1. */
export const MAX_JSON_DEPTH = 64;

/**
 * How many numbers of more than 15 digits beyond ±2^53 a document may have. Comparing one with what the double made of
 * it takes about 3 µs, and a text of 1 MiB can hold 60,000.
 */
export const MAX_LARGE_NUMBERS = 4_096;

/** What makes a text unfit as strict JSON, though `JSON.parse` may accept it. */
export interface JsonDefect {
  readonly kind: 'syntax' | 'duplicate' | 'depth' | 'surrogate' | 'number' | 'size';
  /** For a person: what was found. */
  readonly message: string;
  /** Where, as an offset in characters; absent for defects of the text as a whole, and of its syntax. */
  readonly at?: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LOWER_D = 0x64;
const LOWER_E = 0x65;
const LOWER_U = 0x75;
// Doubles overflow above 1.7 × 10^308.
const MAX_EXPONENT = 300;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/**
 * Finds the first thing in a text that `JSON.parse` accepts and strict JSON does not. This is the exact, slow check,
 * which is needed only if `isPlainlyFaithful` could not decide. Linear in the length of the text.
 *
 * @param text JSON that `JSON.parse` has accepted
 * @param scope.within when given, only defects of this member of the outermost object count: in its value, or that it
 *   occurs twice
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
  }: { within?: string; depth?: number; only?: JsonDefect['kind']; maxLargeNumbers?: number } = {},
): JsonDefect | null {
  // One entry for each open object or array, outermost first: the names seen so far, or null for an array.
  const open: (Set<string> | null)[] = [];
  const isWellFormed = text.isWellFormed();
  let outermostMember: string | undefined;
  let largeNumbers = 0;
  for (let at = skipPlain(text, 0, false); at < text.length;) {
    const unit = text.charCodeAt(at);
    const names = open.at(-1) ?? null;
    let end = at + 1;
    let defect: JsonDefect | null = null;
    if (unit === QUOTE) {
      end = endOfString(text, at);
      const isName = names !== null && isFollowedByColon(text, end);
      const maySplitPairs = !isWellFormed || holdsSurrogate(text, at, end);
      if (isName || maySplitPairs) {
        const raw = text.slice(at + 1, end - 1);
        const inner = raw.includes('\\') ? (JSON.parse(text.slice(at, end)) as string) : raw;
        if (isName) {
          if (open.length === 1) outermostMember = inner;
          if (names.has(inner)) {
            const message = `the member name ${quote(inner)} occurs twice in one object`;
            defect = { kind: 'duplicate', message };
          }
          names.add(inner);
        }
        if (maySplitPairs && !inner.isWellFormed())
          defect ??= { kind: 'surrogate', message: `the string ${quote(inner)} holds a lone surrogate` };
      }
    } else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) {
      open.push(unit === OPEN_OBJECT ? new Set() : null);
      if (open.length > depth)
        defect = { kind: 'depth', message: `arrays and objects nest deeper than ${depth}` };
    } else if (unit === CLOSE_OBJECT || unit === CLOSE_ARRAY) {
      open.pop();
    } else {
      end = endOfNumber(text, at);
      const literal = text.slice(at, end);
      const isInScope = within === undefined || within === outermostMember;
      if (isInScope && ++largeNumbers > maxLargeNumbers) {
        const message = `it holds more than ${maxLargeNumbers} numbers of more than 15 digits beyond 2^53`;
        defect = { kind: 'number', message };
      } else if (isInScope && !isFaithfulNumber(literal)) {
        const message = `the number ${shorten(literal)} is not what a double holds of it`;
        defect = { kind: 'number', message };
      }
    }
    if (defect !== null && (only === undefined || defect.kind === only)) {
      if (within === undefined || within === outermostMember) return { ...defect, at };
    }
    at = skipPlain(text, end, open.at(-1) === null && isWellFormed);
  }
  return null;
}

/**
 * The position of the next token that matters for a defect: a bracket, a string, or a number that a double may not hold.
 * With `skipsStrings`, only those strings count that may split a surrogate pair.
 *
 * A text may hold 300,000 strings in a few arrays. V8 compiles this small loop within a millisecond. The loop that calls
 * it takes V8 ten, and would be interpreted until then.
 */
function skipPlain(text: string, start: number, skipsStrings: boolean): number {
  let at = start;
  while (at < text.length) {
    const token = at;
    const unit = text.charCodeAt(at++);
    if (unit === QUOTE) {
      if (!skipsStrings) return token;
      at = endOfString(text, token);
      if (holdsSurrogate(text, token, at)) return token;
    } else if (unit === MINUS || isDigit(unit)) {
      at = endOfNumber(text, token);
      if (!isShort(text, token, at) && !isSafe(Number(text.slice(token, at)))) return token;
    } else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY || unit === CLOSE_OBJECT || unit === CLOSE_ARRAY)
      return token;
  }
  return at;
}

/** The position after a string, given that of its opening quote. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at + 1;
    if (unit === BACKSLASH) at++;
  }
  return text.length;
}

/** Whether an escape of a string may be half of a surrogate pair: those are \ud800 to \udfff. */
function holdsSurrogate(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (text.charCodeAt(at) !== BACKSLASH) continue;
    at++;
    if (text.charCodeAt(at) === LOWER_U && (text.charCodeAt(at + 1) | 0x20) === LOWER_D) return true;
  }
  return false;
}

/** Whether a number has at most 15 digits and does not overflow. A double holds each of them (DBL_DIG in C). */
function isShort(text: string, start: number, end: number): boolean {
  let at = start;
  while (at < end && (text.charCodeAt(at) | 0x20) !== LOWER_E) at++;
  const digits = at - start;
  if (digits > 15) return false;
  if (at === end || text.charCodeAt(at + 1) === MINUS) return true;
  let exponent = 0;
  for (at++; at < end && exponent < MAX_EXPONENT; at++)
    if (isDigit(text.charCodeAt(at))) exponent = 10 * exponent + text.charCodeAt(at) - ZERO;
  return digits + exponent < MAX_EXPONENT;
}

/**
 * Whether a JSON number means what the double made of it prints as: false for an overflow, and for an integer value
 * (in any notation) that the RFC 8785 form of its double does not denote. Fractions may round.
 *
 * @example isFaithfulNumber('9007199254740993'); // false: a double holds …992
 * @example isFaithfulNumber('1E30'); // true
 */
export function isFaithfulNumber(literal: string): boolean {
  const value = Number(literal);
  if (isSafe(value)) return true;
  if (!Number.isFinite(value)) return false;
  const { digits, exponent } = decimalOf(literal);
  // The double is near what is written, so with the same digits it has the same exponent.
  return exponent < 0 || digits === decimalOf(String(value)).digits;
}

/** Whether no integer near this value is rounded. */
function isSafe(value: number): boolean {
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
}

/** A number as digits × 10^exponent, without the sign and without zeros at either end of the digits. */
function decimalOf(text: string): { digits: string; exponent: number } {
  let power = text.length;
  let point = -1;
  // Positions of the first digit that is not zero, and after the last one. A decimal point may be between them.
  let start = -1;
  let end = -1;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === DOT) point = at;
    else if (unit > ZERO && unit <= NINE) {
      if (start < 0) start = at;
      end = at + 1;
    } else if ((unit | 0x20) === LOWER_E) {
      power = at;
      break;
    }
  }
  // How many digits the last non-zero digit is from the units digit. Digits after the point count as negative.
  const units = point < 0 ? power : point;
  const exponent = Number(text.slice(power + 1)) + units - end + (end > units ? 1 : 0);
  return { digits: text.slice(start, end).replace('.', ''), exponent };
}

function isDigit(unit: number): boolean {
  return unit >= ZERO && unit <= NINE;
}

/** The position after a number, given that of its first character. */
function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  for (; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    // A number consists of digits, `+`, `-`, `.`, `e` and `E`, and none of these can follow one in valid JSON.
    if (!isDigit(unit) && unit !== DOT && unit !== MINUS && unit !== 0x2b && (unit | 0x20) !== LOWER_E) break;
  }
  return at;
}

function isFollowedByColon(text: string, position: number): boolean {
  let at = position;
  // In valid JSON, the only characters up to 0x20 at this place are white space.
  while (at < text.length && text.charCodeAt(at) <= 0x20) at++;
  return text.charCodeAt(at) === COLON;
}

const shorten = (text: string) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
const quote = (text: string) => JSON.stringify(shorten(text));
