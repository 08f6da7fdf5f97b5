import { RouteTable } from '../../gate/routes.js';
import { readAtMost } from '../configuration/secret-files.js';

const MAX_BYTES = 1024 * 1024;

/** The routes of the gate over `http` (`GATE_ROUTES`). They can be reloaded from the same file. */
export class ServedRoutes {
  readonly file: string | null;
  /** The table; `any` if none is wanted; `null` if none is configured. Only {@link reload} replaces it. */
  current: RouteTable | 'any' | null;

  /**
   * @param setting the path of a file, or `any`
   * @throws Error if the file cannot be read or used
   */
  constructor(setting: string | undefined) {
    this.file = setting === undefined || setting === 'any' ? null : setting;
    this.current = setting === 'any' ? 'any' : null;
    this.reload();
  }

  /**
   * Reads the file again.
   *
   * @returns what to log; `null` if there is no file
   * @throws Error if it cannot be used; the old table stays
   */
  reload(): object | null {
    const { file } = this;
    if (file === null) return null;
    this.current = readTable(file);
    return { file };
  }
}

function readTable(file: string): RouteTable {
  try {
    return RouteTable.parse(readAtMost(file, MAX_BYTES).toString('utf8'));
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `GATE_ROUTES is ${JSON.stringify(file)}: ${message}. Expected a file of routes (docs/spec/gate.md#routes), or "any".`,
      { cause: error },
    );
  }
}
