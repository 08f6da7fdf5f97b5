import type { FrontEndName, OpenFrontEnd } from './front-end.js';

/** A front end that can be opened here. */
export interface LoadedFrontEnd {
  readonly name: FrontEndName;
  /** Why this front end was chosen, for the log. */
  readonly reason: string;
  /** Whether uWebSockets.js is installed but does not run, so that the choice is second best. */
  readonly isFallback: boolean;
  readonly open: OpenFrontEnd;
}

/** Adds uWebSockets.js, an optional peer. It is not on the registry under its own name. */
const INSTALL_UWS = 'npm install uWebSockets.js@npm:uwebsockets@3.0.6';

/**
 * Loads the requested front end. For `auto`: uWebSockets.js if it runs here, else `node:http`.
 *
 * @throws Error if uWebSockets.js is requested and does not load
 */
export async function loadFrontEnd(wanted: FrontEndName | 'auto'): Promise<LoadedFrontEnd> {
  if (wanted === 'node') return loadNode('FRONT_END asks for it', false);
  try {
    const { openUws } = await import('./uws.js');
    const why = wanted === 'auto' ? 'it loads, and is the faster one' : 'FRONT_END asks for it';
    const reason = `${why}; it answers HTTP/1.0 with 505, which FRONT_END=node speaks`;
    return { name: 'uws', reason, isFallback: false, open: openUws };
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND';
    if (isMissing) {
      const fault = `uWebSockets.js is not installed; \`${INSTALL_UWS}\` adds it`;
      if (wanted === 'auto') return loadNode(fault, false);
      throw new Error(`FRONT_END is uws, but ${fault}, or set FRONT_END to auto or node`, { cause: error });
    }
    const fault = `uWebSockets.js does not load: ${lastLineOf(error)}`;
    if (wanted === 'auto') return loadNode(fault, true);
    throw new Error(
      `FRONT_END is uws, but ${fault}; set FRONT_END to auto or node, ` +
        'or see "Which front end" in docs/operations.md for where it runs',
      { cause: error },
    );
  }
}

async function loadNode(reason: string, isFallback: boolean): Promise<LoadedFrontEnd> {
  const { openNode } = await import('./node/node.js');
  return { name: 'node', reason, isFallback, open: openNode };
}

/** The message of the system's loader, which uWebSockets.js appends to a paragraph of its own. */
function lastLineOf(error: unknown): string {
  const lines = (error instanceof Error ? error.message : String(error)).trim().split('\n');
  return (lines.find((line) => line.startsWith('Error: ')) ?? lines[0] ?? '').replace(/^Error: /, '');
}
