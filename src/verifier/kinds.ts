import { typeName } from '../protocol/known-options.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { readGivenRoots } from '../trust/given-roots.js';
import type { TrustedRoot } from '../trust/read-root.js';

/** A value that is in order, or what is wrong with it. */
export type Reading<T> = { readonly value: T } | { readonly problem: string };

/** A kind of values that options can have. */
export interface Kind<T> {
  /** The values, in Markdown, for the documents. */
  readonly values: string;
  /** What a text stands for. A text that stands for no value of this kind stays as it is. */
  readonly fromText: (text: string) => unknown;
  /** Checks a value; a problem says what was expected. */
  readonly check: (value: unknown) => Reading<T>;
}

const asItIs = (text: string): unknown => text;
const toNumber = (text: string) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text);
const toFlag = (text: string) => FLAGS.get(text) ?? text;
const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['1', true],
  ['true', true],
  ['0', false],
  ['false', false],
]);
const toList = (text: string) =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

function kindOf<T>(
  values: string,
  accepts: (value: unknown) => boolean,
  { fromText = asItIs, expected = plain(values) } = {},
): Kind<T> {
  const check = (value: unknown): Reading<T> =>
    accepts(value) ? { value: value as T } : { problem: `expected ${expected}` };
  return { values, fromText, check };
}

/** Whole numbers. The unit is shown where values are described; a value has none. */
export function count(min: number, max = Number.MAX_SAFE_INTEGER, unit = ''): Kind<number> {
  const range = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `${min} to ${max}`;
  return kindOf(
    `${range} ${unit}`.trimEnd(),
    (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
    { fromText: toNumber, expected: `a whole number${unit && ` of ${unit}`}, ${range}` },
  );
}

/** On or off. */
export const flag: Kind<boolean> = kindOf('`0`, `1`', (value) => typeof value === 'boolean', {
  fromText: toFlag,
  expected: 'true or false',
});

/** One of these names. */
export function oneOf<const Name extends string>(...names: readonly Name[]): Kind<Name> {
  return kindOf(names.map((name) => `\`${name}\``).join(', '), (value) => names.includes(value as Name), {
    expected: `one of ${names.map((name) => JSON.stringify(name)).join(', ')}`,
  });
}

/** What an option is read as, and what it is if it is not given. A function gets the options before it. */
export interface Option {
  readonly kind: Kind<unknown>;
  readonly default?: string | number | boolean | ((options: Readonly<Record<string, unknown>>) => unknown);
}

type ValueOf<Row> = Row extends { readonly kind: Kind<infer T> } ? T : never;
type WithDefault<Rows> = {
  [Name in keyof Rows]: Rows[Name] extends { default: unknown } ? Name : never;
}[keyof Rows];

/** Options that may be given. */
export type GivenOptions<Rows> = { [Name in keyof Rows]?: ValueOf<Rows[Name]> | undefined };

/** Options with defaults filled in. */
export type FilledOptions<Rows> = { [Name in WithDefault<Rows>]: ValueOf<Rows[Name]> } & Omit<
  GivenOptions<Rows>,
  WithDefault<Rows>
>;

/** Reads an option, given or not. */
export function readOption(
  { kind, default: standard }: Option,
  value: unknown,
  before: Readonly<Record<string, unknown>>,
): Reading<unknown> {
  if (value !== undefined) return kind.check(value);
  return { value: typeof standard === 'function' ? standard(before) : standard };
}

/** Any text, or those that a function accepts. The hint says more to whoever gives another. */
export function text(
  values: string,
  accepts: (text: string) => boolean = (value) => value !== '',
  hint = '',
): Kind<string> {
  const expected = `${plain(values)}${hint && `; ${hint}`}`;
  return kindOf(values, (value) => typeof value === 'string' && accepts(value), { expected });
}

/** A list of at least one. */
export function listOf<T>(item: Kind<T>): Kind<T[]> {
  const check = (value: unknown): Reading<T[]> => {
    if (!Array.isArray(value) || value.length === 0)
      return { problem: `expected a list of at least one, each ${plain(item.values)}` };
    const list: T[] = [];
    const problems: string[] = [];
    for (const found of value as readonly unknown[]) {
      const reading = item.check(found);
      if ('problem' in reading) problems.push(`${reading.problem}, found ${shown(found)}`);
      else list.push(reading.value);
    }
    return problems.length > 0 ? { problem: problems.join('; ') } : { value: list };
  };
  return { values: `list, each ${item.values}`, fromText: toList, check };
}

/** A DID that resolves. */
export const did = text(DEFAULT_KEYS.expected, (value) => DEFAULT_KEYS.publicKeyOf(value) !== null);

/** DIDs, or, from a program, entries as in a file. */
export const roots: Kind<(string | TrustedRoot)[]> = {
  ...listOf(did),
  check: (value) => {
    if (!Array.isArray(value) || !value.some((one) => typeof one === 'object'))
      return listOf(did).check(value);
    const given = value as (string | TrustedRoot)[];
    const read = readGivenRoots(given);
    return 'problem' in read ? read : { value: given };
  },
};

const shown = (value: unknown) => (typeof value === 'string' ? JSON.stringify(value) : typeof value);

const MAX_SHOWN = 60;

/**
 * What is wrong with the value of an option. It is shown, or its type if it is long or may be a secret, such as a URL with
 * a password. The problem of a list shows what it is about.
 */
export function problemOf(name: string, value: unknown, problem: string): string {
  if (Array.isArray(value)) return `${name}: ${problem}`;
  const isText = typeof value === 'string' && value.length <= MAX_SHOWN && !value.includes('@');
  const isShown = isText || typeof value === 'number' || typeof value === 'boolean';
  const shown = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return `${name} is ${isShown ? shown : typeName(value)}: ${problem}`;
}

/** A text that a function reads; it returns the value, or what is wrong with the text. */
export function parsed<T extends object>(
  values: string,
  read: (text: string) => T | { readonly problem: string },
): Kind<T> {
  const check = (value: unknown): Reading<T> => {
    const found = read(String(value));
    return 'problem' in found ? found : { value: found };
  };
  return { values, fromText: asItIs, check };
}

/** Markdown as plain text. */
export function plain(markdown: string): string {
  return markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '');
}
