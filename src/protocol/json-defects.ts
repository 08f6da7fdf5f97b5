/** The deepest nesting of arrays and objects that a strict document may have; the outermost counts as 1. */
export const MAX_JSON_DEPTH = 64;

/** What makes a text unfit as strict JSON, though `JSON.parse` may accept it. */
export interface JsonDefect {
  readonly kind: 'syntax' | 'duplicate' | 'depth' | 'surrogate' | 'number';
  /** For a person: what was found. */
  readonly message: string;
}

const WHITE_SPACE = /[\t\n\r ]/;
const NUMBER = /[-+.\deE]*/y;

/**
 * Finds the first thing in a text that `JSON.parse` accepts and strict JSON does not. This is the exact, slow
 * check: the fast path only asks for it when counting strings did not settle the matter.
 *
 * @param text JSON that `JSON.parse` has accepted
 * @param scope.within when given, only defects of this member of the outermost object count: in its value, or that it
 *   occurs twice
 * @param scope.depth the deepest nesting that is no defect
 * @returns the defect, or `null` where there is none
 */
export function findJsonDefect(
  text: string,
  { within, depth = MAX_JSON_DEPTH }: { within?: string; depth?: number } = {},
): JsonDefect | null {
  // One entry for each open object or array, outermost first: the names seen so far, or null for an array.
  const open: (Set<string> | null)[] = [];
  let outermostMember: string | undefined;
  let at = 0;
  while (at < text.length) {
    const character = text[at] as string;
    let defect: JsonDefect | null = null;
    if (character === '"') {
      const end = endOfString(text, at);
      const value = JSON.parse(text.slice(at, end)) as string;
      at = end;
      const names = open.at(-1);
      if (names && isFollowedByColon(text, at)) {
        if (open.length === 1) outermostMember = value;
        if (names.has(value)) {
          defect = {
            kind: 'duplicate',
            message: `the member name ${quote(value)} occurs twice in one object`,
          };
        }
        names.add(value);
      }
      if (!value.isWellFormed()) {
        defect ??= { kind: 'surrogate', message: `the string ${quote(value)} holds a lone surrogate` };
      }
    } else if (character === '-' || (character >= '0' && character <= '9')) {
      NUMBER.lastIndex = at;
      const literal = NUMBER.exec(text)?.[0] ?? '';
      at += literal.length;
      if (!isFaithfulNumber(literal)) {
        defect = {
          kind: 'number',
          message: `the number ${shorten(literal)} is not what a double holds of it`,
        };
      }
    } else {
      at++;
      if (character === '{' || character === '[') {
        open.push(character === '{' ? new Set() : null);
        if (open.length > depth) {
          defect = { kind: 'depth', message: `arrays and objects nest deeper than ${depth}` };
        }
      } else if (character === '}' || character === ']') open.pop();
    }
    if (defect !== null && (within === undefined || within === outermostMember)) return defect;
  }
  return null;
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
  const written = toDecimal(literal);
  if (written.exponent < 0) return true;
  const held = toDecimal(String(value));
  return written.digits === held.digits && written.exponent === held.exponent;
}

/** The value as digits × 10^exponent, sign left out, with no zero at either end of the digits. */
function toDecimal(literal: string): { digits: string; exponent: number } {
  const [mantissa = '', power = '0'] = literal.replace(/^-/, '').toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = whole + fraction;
  let start = 0;
  let end = all.length;
  while (start < end && all[start] === '0') start++;
  while (end > start && all[end - 1] === '0') end--;
  return { digits: all.slice(start, end), exponent: Number(power) - fraction.length + all.length - end };
}

/** The position behind a string's closing quote, given that of its opening one. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

function isFollowedByColon(text: string, position: number): boolean {
  let at = position;
  while (at < text.length && WHITE_SPACE.test(text[at] as string)) at++;
  return text[at] === ':';
}

const shorten = (text: string) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
const quote = (text: string) => JSON.stringify(shorten(text));
