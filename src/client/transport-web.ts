import { postByFetch, type Transport } from './post.js';

/**
 * `#transport` in package.json where Node's sockets are not (browsers, workers) or are imitated (Bun has an `undici` without
 * pools): there, `fetch` keeps connections itself.
 */
export function openTransport(url: URL, _connections: number): Transport {
  // Called as a function: some runtimes refuse it as a method of something else.
  return postByFetch(url, (input, init) => globalThis.fetch(input, init));
}
