import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** `docs/openapi.yaml` as JSON text. The build converts it. */
export const OPENAPI_JSON: string = readFileSync(createRequire(import.meta.url).resolve('#openapi'), 'utf8');
