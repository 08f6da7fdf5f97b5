import type { FrontEndName } from './front-end.js';

/** Adds uWebSockets.js, an optional peer. It is not on the registry under its own name. */
const INSTALL_UWS = 'npm install uWebSockets.js@npm:uwebsockets@3.0.6';

/**
 * Loads the requested front end. For `auto`: uWebSockets.js if it runs here, else `node:http`.
 *
 * @returns why this one was chosen, and whether it is second best, since uWebSockets.js is installed but does not run
 * @throws Error if uWebSockets.js is requested and does not load
 */
export async function loadFrontEnd(wanted: FrontEndName | 'auto') {
  let [reason, isFallback] = ['FRONT_END asks for it', false];
  if (wanted !== 'node') {
    try {
      const { openUws } = await import('./uws.js');
      reason = 'it loads; it answers HTTP/1.0 with 505, which FRONT_END=node speaks';
      return { name: 'uws', reason, isFallback, open: openUws } as const;
    } catch (error) {
      isFallback = (error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND';
      reason = isFallback
        ? `uWebSockets.js does not load ("Which front end" in docs/operations.md says where): ${lastLineOf(error)}`
        : `uWebSockets.js is not installed; \`${INSTALL_UWS}\` adds it`;
      const remedy = `FRONT_END is uws; set it to auto or node, since ${reason}`;
      if (wanted === 'uws') throw new Error(remedy, { cause: error });
    }
  }
  const { openNode } = await import('./node/node.js');
  return { name: 'node', reason, isFallback, open: openNode } as const;
}

/** The message of the system's loader, which uWebSockets.js appends to a paragraph of its own. */
function lastLineOf(error: unknown): string {
  const lines = (error instanceof Error ? error.message : String(error)).trim().split('\n');
  return (lines.find((line) => line.startsWith('Error: ')) ?? lines[0] ?? '').replace(/^Error: /, '');
}
