/**
 * Call this before undici is loaded, which is also Node's `fetch`. It reads HTTP by WebAssembly; where there is none
 * (`node --jitless`), loading it ends the process by an error that nobody can catch.
 *
 * @throws Error that can be caught
 */
export function requireHttpParser(): void {
  if (!('WebAssembly' in globalThis))
    throw new Error('Node has no WebAssembly, without which it cannot fetch: start it without --jitless');
}
