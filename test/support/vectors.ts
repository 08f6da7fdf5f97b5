import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

/** Public test vectors; they lie beside the project and are not part of it. */
const folder = fileURLToPath(new URL('../../../shared/vectors', import.meta.url));

/** Whether the vectors are there. Where they are not, the tests that need them are reported as skipped. */
export const hasVectors = existsSync(folder);

export const vectorPath = (...parts: string[]) => path.join(folder, ...parts);
