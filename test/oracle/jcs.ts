import type { Json } from './json.js';

/** The double that a JSON number means. */
export const toDouble = (text: string): number => Number(text);

/**
 * The RFC 8785 form of a value; `undefined` if it has none: a repeated member name, a lone surrogate, or a number that
 * overflows a double.
 */
export function canonical(json: Json): string | undefined {
  switch (json.kind) {
    case 'null':
      return 'null';
    case 'boolean':
      return json.value ? 'true' : 'false';
    case 'number':
      return canonicalNumber(json.text);
    case 'string':
      return canonicalString(json.value);
    case 'array':
      return joined(json.items.map(canonical), '[', ']');
    case 'object': {
      const names = json.members.map(([name]) => name);
      if (new Set(names).size < names.length) return undefined;
      // sort() orders by UTF-16 code units, as RFC 8785 requires.
      const members = json.members
        .map(([name, value]) => ({ name, value }))
        .sort((a, b) => (a.name < b.name ? -1 : 1))
        .map(({ name, value }) => joined([canonicalString(name), canonical(value)], '', '', ':'));
      return joined(members, '{', '}');
    }
  }
}

/** The RFC 8785 form; `undefined` also if the form of an integer denotes another integer. */
export function faithful(json: Json): string | undefined {
  return everyNumber(json, isFaithfulNumber) ? canonical(json) : undefined;
}

/** Whether a number is the same after it was read as a double and written again, as far as it must: below 2^53, fractions may round. */
function isFaithfulNumber(text: string): boolean {
  const form = canonicalNumber(text);
  if (form === undefined) return false;
  const written = decimal(text);
  // No integer.
  if (written.digits !== '0' && written.exponent < 0n && Math.abs(toDouble(text)) < 2 ** 53) return true;
  const printed = decimal(form);
  return written.digits === printed.digits && written.exponent === printed.exponent;
}

/** A decimal number without its sign: digits without leading and trailing zeros, times 10^exponent. */
export function decimal(text: string): { digits: string; exponent: bigint } {
  const [mantissa = '', power = '0'] = text.toLowerCase().replace('-', '').split(/e/);
  const [whole = '', fraction = ''] = mantissa.split('.');
  let digits = (whole + fraction).replace(/^0+/, '');
  let exponent = BigInt(text.toLowerCase().split('e')[1] ?? power) - BigInt(fraction.length);
  while (digits.endsWith('0')) {
    digits = digits.slice(0, -1);
    exponent += 1n;
  }
  return digits === '' ? { digits: '0', exponent: 0n } : { digits, exponent };
}

function everyNumber(json: Json, test: (text: string) => boolean): boolean {
  if (json.kind === 'number') return test(json.text);
  if (json.kind === 'array') return json.items.every((item) => everyNumber(item, test));
  if (json.kind === 'object') return json.members.every(([, value]) => everyNumber(value, test));
  return true;
}

export function canonicalNumber(text: string): string | undefined {
  const value = toDouble(text);
  if (!Number.isFinite(value)) return undefined;
  return String(value === 0 ? 0 : value);
}

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

function canonicalString(value: string): string | undefined {
  if (!value.isWellFormed()) return undefined;
  let text = '"';
  for (const character of value) {
    const short = SHORT[character];
    if (short !== undefined) text += short;
    else if (character < ' ') text += `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    else text += character;
  }
  return `${text}"`;
}

function joined(parts: readonly (string | undefined)[], open: string, close: string, between = ',') {
  return parts.includes(undefined) ? undefined : open + parts.join(between) + close;
}
