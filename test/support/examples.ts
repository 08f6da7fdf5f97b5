import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Does what `npm install` does for `"drs-verify": "file:../.."`; the rest is found in the repository.
 *
 * @returns the folder of the example
 */
export function linkExample(example: string): string {
  const folder = fileURLToPath(new URL(`../../examples/${example}`, import.meta.url));
  const packages = path.join(folder, 'node_modules');
  mkdirSync(packages, { recursive: true });
  try {
    symlinkSync('../../..', path.join(packages, 'drs-verify'), 'dir');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return folder;
}
