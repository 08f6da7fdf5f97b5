import { RouteTable } from '../../gate/routes.js';
import { readAtMost } from '../configuration/secret-files.js';

const MAX_BYTES = 1024 * 1024;

/** The routes of the gate over `http` (`GATE_ROUTES`). They can be reloaded from the same file. */
export class ServedRoutes {
  readonly #setting: string | undefined;
  /** The table; `any` if none is wanted; `null` if none is configured. Only {@link reload} replaces it. */
  current: RouteTable | 'any' | null = null;

  /**
   * @param setting the path of a file, or `any`
   * @throws Error if the file cannot be read or used
   */
  constructor(setting: string | undefined) {
    this.#setting = setting;
    this.reload();
  }

  /**
   * Reads the file again.
   *
   * @returns what to log; `null` if there is no file
   * @throws Error if it cannot be used; the old table stays
   */
  reload(): object | null {
    const file = this.#setting;
    if (file === undefined || file === 'any') {
      this.current = file ?? null;
      return null;
    }
    try {
      this.current = RouteTable.parse(readAtMost(file, MAX_BYTES).toString('utf8'));
      return { file };
    } catch (error) {
      throw new Error(
        `GATE_ROUTES is ${JSON.stringify(file)}: ${(error as Error).message}. Expected a file of routes (docs/spec/gate.md#routes), or "any".`,
        { cause: error },
      );
    }
  }
}
