import { editDistance } from '../../protocol/nearest-name.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The name of an option's environment variable: `MAX_BODY_BYTES` for `maxBodyBytes`. */
export function variableOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
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

/** Variables of earlier versions, and what to do instead. */
const REMOVED: ReadonlyMap<string, string> = new Map([
  ['VERIFY_NATIVE', 'unset it, and install with npm ci, which checks every package by its hash'],
]);

const MIN_LENGTH = 8;

/**
 * Finds variables that earlier versions had, and those whose names differ from one of ours by one typing error. If `TRUSTED_ROOT` were ignored, for example,
 * the service would trust everybody.
 *
 * @param names the names of our variables
 */
export function findMisspelt(env: Environment, names: readonly string[]): string[] {
  const problems: string[] = [];
  for (const found of Object.keys(env)) {
    if (!isSet(env, found) || names.includes(found)) continue;
    const instead = REMOVED.get(found);
    if (instead !== undefined) problems.push(`${found} is no variable of drs-verify any more: ${instead}`);
    const meant = names.find(
      (name) => name.length >= MIN_LENGTH && editDistance(found, name, { limit: 1 }) <= 1,
    );
    if (meant !== undefined)
      problems.push(`${found} is not a variable of drs-verify, expected ${meant}: rename it, or unset it`);
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
