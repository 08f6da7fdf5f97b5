import { readFileSync, statSync } from 'node:fs';
import type { OpeningRules } from '../../gate/open.js';
import { RouteTable } from '../../gate/routes.js';
import type { Configuration } from '../configuration/configuration.js';

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
   * Reads the file again, if there is one.
   *
   * @throws Error if it cannot be used; the old table stays
   */
  reload(): void {
    if (this.file !== null) this.current = readTable(this.file);
  }
}

/** What a gate opens by its configuration. The routes are those at the time of a request: they can be reloaded. */
export function openingRulesOf(
  configuration: Pick<Configuration, 'gatePassMethods' | 'gateMethods'>,
  routes: Pick<ServedRoutes, 'current'>,
): OpeningRules {
  return {
    passMethods: new Set(configuration.gatePassMethods),
    methods: configuration.gateMethods,
    get routes() {
      return routes.current;
    },
  };
}

function readTable(file: string): RouteTable {
  try {
    const { size } = statSync(file);
    if (size > MAX_BYTES) throw new Error(`it has ${size} bytes, expected at most ${MAX_BYTES}`);
    return RouteTable.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `GATE_ROUTES is ${JSON.stringify(file)}: ${message}. Expected a file of routes (docs/spec/gate.md#routes), or "any".`,
      { cause: error },
    );
  }
}
