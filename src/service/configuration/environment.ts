import type { Kind } from '../../protocol/options.js';
import { nearestName } from '../../protocol/nearest-name.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The name of an option's environment variable: `MAX_BODY_BYTES` for `maxBodyBytes`. */
export function variableOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['1', true],
  ['true', true],
  ['0', false],
  ['false', false],
]);

/** What the text of a variable stands for. One that stands for no value of its kind stays as it is, and is refused. */
export function valueOf(text: string, { form }: Kind<unknown>): unknown {
  switch (form) {
    case 'number':
      return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
    case 'flag':
      return FLAGS.get(text) ?? text;
    case 'list': {
      const items = text.split(',').map((item) => item.trim());
      return items.filter((item) => item !== '');
    }
    default:
      return text;
  }
}

/** Variables of the public DRS implementation, and what to set instead. */
const FOREIGN: Readonly<Record<string, string>> = {
  NONCE_STORE_BACKEND: 'set REPLAY_PROTECTION to memory or redis',
  NONCE_STORE_TTL_SECS: 'set REPLAY_WINDOW_SECS',
  LISTEN_ADDR: 'set HOST and PORT, or LISTEN',
  DRS_REQUIRE_BINDING: 'set REQUIRE_BINDING',
};

/** Warns about variables that only another implementation reads, so that nobody believes they have an effect. */
export function findForeign(env: Environment): string[] {
  return Object.entries(FOREIGN)
    .filter(([name]) => isSet(env, name))
    .map(([name, instead]) => `${name} is not a variable of drs-verify and does nothing here: ${instead}`);
}

const MIN_LENGTH = 8;

/** First words of our variables with which other programs begin theirs, such as `REDIS_PASSWORD` and `LOG_FORMAT`. */
const COMMON: ReadonlySet<string> = new Set(
  'HOST PORT LISTEN TLS LOG METRICS RATE MAX REQUEST WORKER REDIS'.split(' '),
);

/** Variables that begin as ours do: of the command, of the gRPC library, and what Kubernetes sets for a service called `gate`. */
const OTHERS =
  /^DRS_(?:VERIFY_URL|ADMIN_URL|KEY_PASSPHRASE|COMMIT)$|^GRPC_(?:(?:NODE_)?(?:TRACE|VERBOSITY)|SSL_|DEFAULT_|EXPERIMENTAL_)|_(?:SERVICE_HOST|(?:SERVICE_)?PORT(?:_\w+)?)$/;

/** Whether a variable begins with a word with which only ours do. */
function beginsAsOurs(found: string, names: readonly string[]): boolean {
  const word = found.slice(0, found.indexOf('_'));
  const isForFile = names.includes(found.replace(/_FILE$/, ''));
  if (!found.includes('_') || COMMON.has(word) || OTHERS.test(found) || isForFile) return false;
  return !Object.hasOwn(FOREIGN, found) && names.some((name) => name.startsWith(`${word}_`));
}

/**
 * Whether one typing error makes one name of the other: a character that is wrong, missing or too many, or two that are
 * swapped. Of names without what both begin and end with, that is at most one character each. On Kubernetes there may be
 * thousands of variables.
 */
export function differsByOneTypo(left: string, right: string): boolean {
  let [from, leftEnd, rightEnd] = [0, left.length, right.length];
  if (Math.abs(leftEnd - rightEnd) > 1) return false;
  while (from < leftEnd && left[from] === right[from]) from++;
  while (Math.min(leftEnd, rightEnd) > from && left[leftEnd - 1] === right[rightEnd - 1])
    [leftEnd, rightEnd] = [leftEnd - 1, rightEnd - 1];
  const [one, other] = [left.slice(from, leftEnd), right.slice(from, rightEnd)];
  return Math.max(one.length, other.length) <= 1 || (one.length === 2 && other === `${one[1]}${one[0]}`);
}

/**
 * Finds variables whose names differ from one of ours by one typing error, and those that begin as ours do, such as `GATE_POLICY`. If `TRUSTED_ROOT` were ignored, for example, the service would trust everybody.
 *
 * @param names the names of our variables
 */
export function findMisspelt(env: Environment, names: readonly string[]): string[] {
  const problems: string[] = [];
  for (const found of Object.keys(env)) {
    if (!isSet(env, found) || names.includes(found)) continue;
    const meant = names.find((name) => name.length >= MIN_LENGTH && differsByOneTypo(found, name));
    if (meant !== undefined)
      problems.push(`${found} is not a variable of drs-verify, expected ${meant}: rename it, or unset it`);
    else if (beginsAsOurs(found, names)) {
      const near = nearestName(found, names);
      const remedy = near === null ? 'unset it' : `did you mean ${near}? Rename it, or unset it`;
      problems.push(
        `${found} is not a variable of drs-verify (drs-verify serve --help lists them): ${remedy}`,
      );
    }
  }
  return problems;
}

/**
 * Finds variables that name a file for a variable which cannot come from a file. If `TRUSTED_ROOTS_FILE` were ignored,
 * the service would trust everybody.
 *
 * @param names the names of our variables, with those that name files
 */
export function findFileless(env: Environment, names: readonly string[]): string[] {
  const fileable = names.filter((name) => names.includes(`${name}_FILE`));
  return names
    .map((name) => ({ name, found: `${name}_FILE` }))
    .filter(({ found }) => isSet(env, found) && !names.includes(found))
    .map(
      ({ name, found }) =>
        `${found} is set, and ${name} cannot come from a file: set ${name} itself ` +
        `(only ${fileable.join(', ')} can come from files)`,
    );
}

function isSet(env: Environment, name: string): boolean {
  return (env[name] ?? '').trim() !== '';
}
