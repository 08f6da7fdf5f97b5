import { targetOf } from '../gate/a2a-rest.js';
import type { Protocol } from '../gate/codes.js';
import { RESOURCE_METADATA } from '../gate/json-rpc.js';
import { IssueError } from '../issue/index.js';
import { hasDotSegment } from '../protocol/resources.js';
import { printableUrl } from '../revocation/printable-url.js';

/** Where a server is, and which requests are for it. */
export interface Destination {
  readonly url: URL;
  /** The path with its query as the server gets it, for the method and the path of a request; `null` if it is not for it. */
  readonly pathFor: (method: string, target: string) => string | null;
}

/** What a {@link Destination} depends on, besides its address. */
export interface DestinationRules {
  readonly protocol: Protocol;
  /** Over `http`: whether a table says which paths there are. */
  readonly isRouted?: boolean;
  /** Whether it is a port for one agent, which also calls the root, and paths that a gate would refuse. */
  readonly isLocal?: boolean;
}

/** The agent cards of A2A 0.3 and 1.0 at the root. */
const ROOT_CARDS: ReadonlySet<string> = new Set(['/.well-known/agent-card.json', '/.well-known/agent.json']);

const isRead = (method: string) => ['GET', 'HEAD'].includes(method);

/** Whether a request, by its method and path, is for an agent card at the root of the host, which may be another agent's. */
export function isRootCard(method: string, target: string): boolean {
  return isRead(method) && ROOT_CARDS.has(target);
}

/**
 * Reads the address of a server. Only its own path is served: the exact one over MCP, over `http` without a table of
 * routes, and for the JSON-RPC endpoint of an agent; else those below it. The agent card may be at the root, too.
 *
 * @throws IssueError if the address cannot be used; it shows no secret
 * @example destinationOf('http://127.0.0.1:3000/mcp', { protocol: 'mcp' })
 */
export function destinationOf(
  text: string,
  { protocol, isRouted = false, isLocal = false }: DestinationRules,
): Destination {
  const url = URL.canParse(text) ? new URL(text) : null;
  const unusable = (expected: string) =>
    new IssueError(
      'INVALID_OPTION',
      `--to is ${JSON.stringify(printableUrl(text))}, expected ${expected}`,
      'give the address of the server; sign sends a password or a token as a header (--header-env)',
    );
  if (url === null || !/^https?:$/.test(url.protocol) || url.username + url.password + url.hash !== '')
    throw unusable('an http or https URL without user, password and fragment');
  const isExact = protocol === 'mcp' || (protocol === 'http' && !isRouted);
  if (!isExact && url.search !== '') throw unusable('a URL without a query');
  const own = url.pathname + url.search;
  const root = url.pathname.replace(/\/$/, '');
  const metadata = [RESOURCE_METADATA, RESOURCE_METADATA + root];
  const pathFor = (method: string, target: string) => {
    if (protocol === 'mcp' && !isLocal && isRead(method) && metadata.includes(target)) return target;
    if (isExact) return target === own || (isLocal && ['/', url.pathname].includes(target)) ? own : null;
    const [path = ''] = target.split('?', 1);
    if (!path.startsWith('/') || target.includes('\\') || hasDotSegment(path)) return null;
    const isRpc = protocol === 'a2a' && !isLocal && targetOf(method, target).kind === 'json-rpc';
    const isBelow = isRpc ? target === own : [own, root].includes(path) || path.startsWith(`${root}/`);
    return isBelow || (protocol === 'a2a' && isRootCard(method, target)) ? target : null;
  };
  return { url, pathFor };
}
