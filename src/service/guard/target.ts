import { targetOf } from '../../gate/a2a-rest.js';
import type { Protocol } from '../../gate/codes.js';
import { hasDotSegment } from '../../protocol/resources.js';

/** Where a tool server is, and which requests are for it. */
export interface Destination {
  /** Such as `http://127.0.0.1:3000`. */
  readonly origin: string;
  /** For an error: the path, or what is below it. */
  readonly expected: string;
  /** Whether a request is for it, by its method, and its path with its query. */
  readonly takes: (method: string, target: string) => boolean;
}

/**
 * Reads the address of a tool server. Only its own path is served: the exact one over MCP, over `http` without a table of
 * routes, and for the JSON-RPC endpoint of an agent; else those below it. The agent card may be at the root, too.
 *
 * @param isRouted whether a table says which paths there are
 * @returns `problem` says what is wrong with the address
 * @example destinationOf('http://127.0.0.1:3000/mcp', 'mcp', false)
 */
export function destinationOf(
  text: string,
  protocol: Protocol,
  isRouted: boolean,
): Destination | { readonly problem: string } {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username + url.password + url.hash !== '')
    return { problem: 'expected an http or https URL without user, password and fragment' };
  const own = url.pathname + url.search;
  const { origin } = url;
  if (protocol === 'mcp' || (protocol === 'http' && !isRouted))
    return { origin, expected: own, takes: (_, target) => target === own };
  if (url.search !== '') return { problem: 'expected a URL without a query' };
  const root = url.pathname.replace(/\/$/, '');
  const isBelow = (target: string) => [own, root].includes(pathOf(target)) || target.startsWith(`${root}/`);
  const takesAgent = (method: string, target: string) => {
    const { kind } = targetOf(method, target);
    if (kind === 'json-rpc') return target === own;
    return isBelow(target) || (kind === 'card' && target.startsWith('/.well-known/'));
  };
  return {
    origin,
    expected: `${own} or a path below it`,
    takes: (method, target) =>
      !target.includes('\\') &&
      !hasDotSegment(pathOf(target)) &&
      (protocol === 'a2a' ? takesAgent(method, target) : isBelow(target)),
  };
}

function pathOf(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? target : target.slice(0, mark);
}
