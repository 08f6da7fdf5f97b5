/** A value that is in order, or what is wrong with it. */
export type Reading<T> = { readonly value: T } | { readonly problem: string };

/** A kind of values that options can have. */
export interface Kind<T> {
  /** The values, in Markdown, for the documents. */
  readonly values: string;
  /** What a text of the environment stands for, if not for itself. */
  readonly form?: 'number' | 'flag' | 'list';
  /** Checks a value; a problem says what was expected. */
  readonly check: (value: unknown) => Reading<T>;
}

/** What an option is read as, and what it is if it is not given. A default that is a function gets the options before it. */
export interface Option<T = unknown> {
  readonly kind: Kind<T>;
  readonly default?: string | number | boolean | ((options: Readonly<Record<string, unknown>>) => unknown);
  readonly required?: true;
  /** Its value is never shown. */
  readonly isSecret?: true;
}

/** The options of a door, by their names. */
export type Table = Readonly<Record<string, Option>>;

type ValueOf<Row> = Row extends { readonly kind: Kind<infer T> } ? T : never;
type Names<Rows, Row> = { [Name in keyof Rows]: Rows[Name] extends Row ? Name : never }[keyof Rows];
type With<Rows, Sure extends keyof Rows> = {
  readonly [Name in keyof Rows as Name extends Sure ? Name : never]: ValueOf<Rows[Name]>;
} & { readonly [Name in keyof Rows as Name extends Sure ? never : Name]?: ValueOf<Rows[Name]> | undefined };

export type GivenOptions<Rows> = With<Rows, Names<Rows, { required: true }>>;

export type FilledOptions<Rows> = With<Rows, Names<Rows, { required: true } | { default: unknown }>>;

/**
 * Reads the options of a door: own members only, since what others add to `Object.prototype` is no option. Names that
 * are not in the table are refused: a misspelt option would have no effect, and nobody would notice.
 *
 * @param isUndefinedRefused a value that is undefined is refused: for options that open something if they are left out
 * @param say makes the sentence about a value
 * @returns a copy without a prototype, in which a wrong value is undefined, and all problems
 * @example readOptions({ retrys: 1 }, { retries: { kind: count(0), default: 2 } }).problems; // ['retrys is not an option here, expected one of retries']
 */
export function readOptions<Rows extends Table>(
  given: unknown,
  rows: Rows,
  isUndefinedRefused = false,
  say = problemOf,
): { readonly options: FilledOptions<Rows>; readonly problems: readonly string[] } {
  const options = Object.create(null) as FilledOptions<Rows> & Record<string, unknown>;
  const names = Object.keys(rows);
  // Not shown: a URL in place of the options may have a password.
  if (typeof given !== 'object' || given === null)
    return {
      options,
      problems: [`the options are ${typeName(given)}, expected an object with ${names.join(', ')}`],
    };
  const problems = Object.keys(given)
    .filter((name) => !Object.hasOwn(rows, name))
    .map((name) => `${name.slice(0, MAX_SHOWN)} is not an option here, expected one of ${names.join(', ')}`);
  for (const name of names) {
    const row = rows[name] as Option;
    const isGiven = Object.hasOwn(given, name);
    const value = isGiven ? (given as Record<string, unknown>)[name] : undefined;
    if (value !== undefined || Object.hasOwn(row, 'required')) {
      const reading = row.kind.check(value);
      const [right, problem] = 'problem' in reading ? [undefined, reading.problem] : [reading.value, null];
      if (value !== undefined) Object.assign(options, { [name]: right });
      if (problem !== null) problems.push(say(name, value, problem, Object.hasOwn(row, 'isSecret')));
    } else if (isGiven && isUndefinedRefused)
      problems.push(`${name}: it is undefined, expected a value; for the default, leave it out`);
    else if (Object.hasOwn(row, 'default')) {
      const { default: standard } = row;
      Object.assign(options, { [name]: typeof standard === 'function' ? standard(options) : standard });
    }
  }
  return { options, problems };
}

/** Reads options like {@link readOptions}. @throws TypeError with all problems, one per line */
export function checkedOptions<Rows extends Table>(given: unknown, rows: Rows): FilledOptions<Rows> {
  const { options, problems } = readOptions(given, rows);
  if (problems.length > 0) throw new TypeError(problems.join('\n'));
  return options;
}

/** What a value is, without showing it: it may be a secret. */
function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'missing';
  if (value instanceof Promise) return 'a promise (await it)';
  if (typeof value === 'object') return Array.isArray(value) ? 'an array' : 'an object';
  return `a ${typeof value}`;
}

const MAX_SHOWN = 60;

function shown(value: unknown): string {
  const isText = typeof value === 'string' && value.length <= MAX_SHOWN && !value.includes('@');
  if (isText) return JSON.stringify(value);
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : typeName(value);
}

/** What is wrong with an option. Its value is shown, or its type where the value is long or may be a secret. */
function problemOf(name: string, value: unknown, problem: string, isSecret: boolean): string {
  // The problem of a list shows what it is about.
  if (Array.isArray(value)) return `${name}: ${problem}`;
  return `${name} is ${isSecret ? typeName(value) : shown(value)}: ${problem}`;
}

/**
 * Values that a function accepts.
 *
 * @param values in Markdown, as the documents and the problem name them
 */
export function kindOf<T>(
  values: string,
  accepts: (value: unknown) => boolean,
  expected = plain(values),
): Kind<T> {
  const check = (value: unknown): Reading<T> =>
    accepts(value) ? { value: value as T } : { problem: `expected ${expected}` };
  return { values, check };
}

/** Whole numbers. The unit is shown where values are described; a value has none. */
export function count(min: number, max = Number.MAX_SAFE_INTEGER, unit = ''): Kind<number> {
  const range = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `${min} to ${max}`;
  const kind = kindOf<number>(
    `${range} ${unit}`.trimEnd(),
    (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
    `a whole number${unit && ` of ${unit}`}, ${range}`,
  );
  return { ...kind, form: 'number' };
}

export const flag: Kind<boolean> = {
  ...kindOf('`0`, `1`', (value) => typeof value === 'boolean', 'true or false'),
  form: 'flag',
};

export function oneOf<const Name extends string>(...names: readonly Name[]): Kind<Name> {
  return kindOf(
    names.map((name) => `\`${name}\``).join(', '),
    (value) => names.includes(value as Name),
    `one of ${names.map((name) => JSON.stringify(name)).join(', ')}`,
  );
}

/** Any text but an empty one, or those that a function accepts. */
export function text(values: string, accepts: (text: string) => boolean = (value) => value !== '') {
  return kindOf<string>(values, (value) => typeof value === 'string' && accepts(value));
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
  return { values: `list, each ${item.values}`, form: 'list', check };
}

export function callback<T>(values = 'a function'): Kind<T> {
  return kindOf(values, (value) => typeof value === 'function');
}

/** An object with a method. */
export function having<T>(method: string, values: string): Kind<T> {
  const accepts = (value: unknown) =>
    typeof value === 'object' && typeof (value as Record<string, unknown> | null)?.[method] === 'function';
  return kindOf(values, accepts);
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
  return { values, check };
}

/** Markdown as plain text. */
export function plain(markdown: string): string {
  return markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '');
}
