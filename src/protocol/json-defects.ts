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
  const isWithin = () => within === undefined || within.includes(outermostMember);
  let largeNumbers = 0;
  let end = 0;
  for (let at = nextToken(text, end); at < text.length; at = nextToken(text, end)) {
    const unit = text.charCodeAt(at);
    const names = open.at(-1) ?? null;
    let defect: JsonDefect | null = null;
    end = at + 1;
    if (unit === QUOTE) {
      end = endOfString(text, at);
      const raw = text.slice(at + 1, end - 1);
      const isName = names !== null && isFollowedByColon(text, end);
      // A surrogate that has no other half is in the text, or is an escape.
      const maySplitPairs = !isWellFormed || raw.includes('\\u');
      if (isName || maySplitPairs) {
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
      if ((only === undefined || only === 'number') && isWithin() && isLarge(literal)) {
        if (++largeNumbers > maxLargeNumbers) {
          const message = `it holds more than ${maxLargeNumbers} numbers of more than ${MAX_EXACT_DIGITS} digits beyond 2^53`;
          defect = { kind: 'number', message };
        } else if (!isFaithfulNumber(literal)) {
          const message = `the number ${shorten(literal)} is not what a double holds of it`;
          defect = { kind: 'number', message };
        }
      }
    }
    if (defect !== null && (only === undefined || defect.kind === only) && isWithin()) return defect;
  }
  return null;
}

/** The position of the next bracket, string or number. */
function nextToken(text: string, start: number): number {
  let at = start;
  for (; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE || unit === MINUS || isDigit(unit)) break;
    if (unit === OPEN_OBJECT || unit === OPEN_ARRAY || unit === CLOSE_OBJECT || unit === CLOSE_ARRAY) break;
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

/** The position after a number, given that of its first character. */
function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  // A number consists of these, and none of them can follow one in valid JSON.
  while (at < text.length && (isDigit(text.charCodeAt(at)) || '+-.eE'.includes(text.charAt(at)))) at++;
  return at;
}

function isDigit(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39;
}

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
