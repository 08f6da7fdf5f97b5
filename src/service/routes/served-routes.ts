import { RouteTable } from '../../gate/routes.js';
import { writtenText } from '../../protocol/written-text.js';
import { readAtMost } from '../configuration/secret-files.js';

const MAX_BYTES = 1024 * 1024;

/**
 * Reads the routes of the gate over `http` (`GATE_ROUTES`).
 *
 * @param setting the path of a file, or `any`
 * @returns the table; `any` if none is wanted; `null` if none is configured
 * @throws Error if the file cannot be read or used
 */
export function readRoutes(setting: string | undefined): RouteTable | 'any' | null {
  if (setting === undefined || setting === 'any') return setting ?? null;
  try {
    return RouteTable.parse(writtenText(readAtMost(setting, MAX_BYTES)));
  } catch (error) {
    throw new Error(
      `GATE_ROUTES is ${JSON.stringify(setting)}: ${(error as Error).message}. Expected a file of routes (docs/spec/gate.md#routes), or "any".`,
      { cause: error },
    );
  }
}
