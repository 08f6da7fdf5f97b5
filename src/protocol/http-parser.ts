/** Loading undici, Node's `fetch` too, ends the process where it has no WebAssembly (`node --jitless`). @throws Error before that */
export function requireHttpParser(): void {
  if (!('WebAssembly' in globalThis))
    throw new Error('Node has no WebAssembly, without which it cannot fetch: start it without --jitless');
}
