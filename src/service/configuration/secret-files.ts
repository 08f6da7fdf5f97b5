import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { writtenText } from '../../protocol/written-text.js';
import { variableOf, type Environment } from './environment.js';

const MAX_BYTES = 4096;

/**
 * Reads the secrets that are in files. Files are safer than variables, which show up in process lists, crash reports
 * and container settings. They are read as {@link writtenText} gives them, since editors and `echo` add line ends.
 *
 * @param options the names of the options that are secrets
 * @example readSecretFiles(process.env, ['drsAdminToken']).secrets.get('drsAdminToken'); // of DRS_ADMIN_TOKEN_FILE
 */
export function readSecretFiles(env: Environment, options: readonly string[]) {
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
      const secret = writtenText(readAtMost(path, MAX_BYTES));
      if (secret === '') throw new Error('it is empty, expected a file with the secret');
      secrets.set(option, secret);
    } catch (error) {
      problems.push(`${variable} is ${JSON.stringify(path)}: ${(error as Error).message}`);
    }
  }
  return { secrets, problems };
}

/** Reads a file whose size is not known before, such as a pipe. @throws Error if it is larger than that, or no file */
export function readAtMost(path: string, maxBytes: number): Buffer {
  const file = openSync(path, 'r');
  try {
    if (fstatSync(file).isDirectory()) throw new Error('it is a directory, expected a file');
    const bytes = Buffer.alloc(maxBytes + 1);
    const length = readSync(file, bytes, 0, bytes.length, null);
    if (length > maxBytes) throw new Error(`it is larger than ${maxBytes} bytes, expected at most as many`);
    return bytes.subarray(0, length);
  } finally {
    closeSync(file);
  }
}
