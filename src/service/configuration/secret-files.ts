import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { variableOf } from './environment.js';

type Environment = Readonly<Record<string, string | undefined>>;

const MAX_BYTES = 4096;

/**
 * Reads the secrets that are in files. Files are safer than variables, which show up in process lists, crash reports
 * and container settings. A line break at the end of a file is dropped, since editors and `echo` add one.
 *
 * @param options the names of the options that are secrets
 * @example readSecretFiles(process.env, ['drsAdminToken']).secrets.get('drsAdminToken'); // of DRS_ADMIN_TOKEN_FILE
 */
export function readSecretFiles(
  env: Environment,
  options: readonly string[],
): {
  readonly secrets: ReadonlyMap<string, string>;
  readonly problems: readonly string[];
} {
  const secrets = new Map<string, string>();
  const problems: string[] = [];
  for (const option of options) {
    const variable = `${variableOf(option)}_FILE`;
    const path = env[variable]?.trim() ?? '';
    if (path === '') continue;
    if ((env[variableOf(option)] ?? '').trim() !== '') {
      problems.push(
        `${variable} and ${variableOf(option)} are both set, expected one of them: unset the other`,
      );
      continue;
    }
    try {
      secrets.set(option, readSecret(path));
    } catch (error) {
      problems.push(`${variable} is ${JSON.stringify(path)}: ${(error as Error).message}`);
    }
  }
  return { secrets, problems };
}

function readSecret(path: string): string {
  const file = openSync(path, 'r');
  try {
    if (fstatSync(file).isDirectory()) throw new Error('it is a directory, expected a file with the secret');
    const bytes = Buffer.alloc(MAX_BYTES + 1);
    const length = readSync(file, bytes, 0, bytes.length, null);
    if (length > MAX_BYTES)
      throw new Error(`it is larger than ${MAX_BYTES} bytes, expected a secret on one line`);
    const secret = bytes.toString('utf8', 0, length).replace(/\r?\n$/, '');
    if (secret === '') throw new Error('it is empty, expected a file with the secret');
    return secret;
  } finally {
    closeSync(file);
  }
}
