/** The deepest nesting of arrays and objects that a strict document may have; the outermost counts as 1. */
export const MAX_JSON_DEPTH = 64;

/** What makes a text unfit as strict JSON, though `JSON.parse` may accept it. */
export interface JsonDefect {
  readonly kind: 'syntax' | 'duplicate' | 'depth' | 'surrogate' | 'number' | 'size';
  /** For a person: what was found. */
  readonly message: string;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LOWER_D = 0x64;
const LOWER_U = 0x75;
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
 * @param scope.only when given, only defects of this kind count: without it, one that comes first hides the others
 * @returns the defect, or `null` if there is none
 */
export function findJsonDefect(
  text: string,
  {
    within,
    depth = MAX_JSON_DEPTH,
    only,
  }: { within?: string; depth?: number; only?: JsonDefect['kind'] } = {},
): JsonDefect | null {
  // One entry for each open object or array, outermost first: the names seen so far, or null for an array.
  const open: (Set<string> | null)[] = [];
  const strings = new StringScanner(text);
  let outermostMember: string | undefined;
  let at = 0;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    let defect: JsonDefect | null = null;
    if (unit === QUOTE) {
      const names = open[open.length - 1];
      strings.scan(at);
      const { end, hasEscapes, maySplitPairs } = strings;
      const isName = names !== null && names !== undefined && isFollowedByColon(text, end);
      if (isName || maySplitPairs) {
        const inner = hasEscapes ? (JSON.parse(text.slice(at, end)) as string) : text.slice(at + 1, end - 1);
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
      at = end;
    } else if (unit === MINUS || isDigit(unit)) {
      const end = endOfNumber(text, at);
      // A double holds any integer of 15 digits. A number with an exponent may overflow.
      if (end - at > 15 || !isPlainInteger(text, at, end)) {
        const literal = text.slice(at, end);
        if (!isFaithfulNumber(literal)) {
          const message = `the number ${shorten(literal)} is not what a double holds of it`;
          defect = { kind: 'number', message };
        }
      }
      at = end;
    } else {
      at++;
      if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) {
        open.push(unit === OPEN_OBJECT ? new Set() : null);
        if (open.length > depth) {
          defect = { kind: 'depth', message: `arrays and objects nest deeper than ${depth}` };
        }
      } else if (unit === CLOSE_OBJECT || unit === CLOSE_ARRAY) open.pop();
    }
    if (defect === null || (only !== undefined && defect.kind !== only)) continue;
    if (within === undefined || within === outermostMember) return defect;
  }
  return null;
}

/**
 * Finds the ends of strings, from left to right. The results of a scan are members, not a new object, since a text may
 * hold 300,000 strings.
 */
class StringScanner {
  /** The position after the closing quote. */
  end = 0;
  hasEscapes = false;
  /** Whether half of a surrogate pair may stand alone: only then is the string worth decoding. */
  maySplitPairs = false;
  readonly #text: string;
  readonly #isWellFormed: boolean;
  #nextBackslash: number;

  constructor(text: string) {
    this.#text = text;
    this.#isWellFormed = text.isWellFormed();
    this.#nextBackslash = text.indexOf('\\');
  }

  /** Finds the end of a string, given the position of its opening quote. */
  scan(start: number): void {
    const text = this.#text;
    let quote = text.indexOf('"', start + 1);
    if (this.#nextBackslash >= 0 && this.#nextBackslash < start)
      this.#nextBackslash = text.indexOf('\\', start);
    this.hasEscapes = this.#nextBackslash >= 0 && this.#nextBackslash < quote;
    this.maySplitPairs = !this.#isWellFormed;
    this.end = quote + 1;
    if (!this.hasEscapes) return;
    for (quote = this.#nextBackslash; text.charCodeAt(quote) !== QUOTE; quote++) {
      if (text.charCodeAt(quote) !== BACKSLASH) continue;
      quote++;
      // Surrogates are escaped as \u and d800 to dfff.
      if (text.charCodeAt(quote) === LOWER_U && (text.charCodeAt(quote + 1) | 0x20) === LOWER_D)
        this.maySplitPairs = true;
    }
    this.end = quote + 1;
  }
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
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return true;
  if (!Number.isFinite(value)) return false;
  const written = new Decimal(literal);
  if (written.exponent < 0) return true;
  const held = new Decimal(String(value));
  return written.exponent === held.exponent && written.hasDigitsOf(held);
}

/** The text of a number as digits × 10^exponent, without the sign and without zeros at either end of the digits. */
class Decimal {
  readonly exponent: number;
  readonly #text: string;
  // Positions of the first digit that is not zero, and after the last one. A decimal point may be between them.
  readonly #start: number;
  readonly #end: number;

  constructor(text: string) {
    let power = text.length;
    let point = -1;
    let start = -1;
    let end = -1;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (unit === DOT) point = at;
      else if (unit > ZERO && unit <= NINE) {
        if (start < 0) start = at;
        end = at + 1;
      } else if (unit === 0x65 || unit === 0x45) {
        power = at;
        break;
      }
    }
    this.#text = text;
    this.#start = start;
    this.#end = end;
    const shift = power === text.length ? 0 : Number(text.slice(power + 1));
    // How many digits the last non-zero digit is from the units digit. Digits after the point count as negative.
    const units = point < 0 ? power : point;
    this.exponent = shift + units - end + (end > units ? 1 : 0);
  }

  hasDigitsOf(other: Decimal): boolean {
    let at = this.#start;
    let otherAt = other.#start;
    for (;;) {
      if (this.#text.charCodeAt(at) === DOT) at++;
      if (other.#text.charCodeAt(otherAt) === DOT) otherAt++;
      if (at >= this.#end || otherAt >= other.#end) return at >= this.#end && otherAt >= other.#end;
      if (this.#text.charCodeAt(at++) !== other.#text.charCodeAt(otherAt++)) return false;
    }
  }
}

function isDigit(unit: number): boolean {
  return unit >= ZERO && unit <= NINE;
}

function isPlainInteger(text: string, start: number, end: number): boolean {
  for (let at = start + 1; at < end; at++) if (!isDigit(text.charCodeAt(at))) return false;
  return true;
}

/** The position after a number, given that of its first character. */
function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  for (; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    // A number consists of digits, `+`, `-`, `.`, `e` and `E`, and none of these can follow one in valid JSON.
    if (!isDigit(unit) && unit !== DOT && unit !== MINUS && unit !== 0x2b && (unit | 0x20) !== 0x65) break;
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
