import type { Protocol } from '../../gate/codes.js';
import { GATE_PROTOCOLS } from '../../gate/open.js';
import { PROXY_PATHS, valuesOf, type HeaderMap } from '../../gate/request.js';
import { hasDotSegment } from '../../protocol/resources.js';

// What proxies say of the requests about which they ask.

/**
 * The path and query of the caller's request. If nothing else says them, `X-Original-Url` does; otherwise it is one of the
 * headers that can name another path.
 *
 * @param known what the proxy has asked with; empty if it has asked with a path of its own
 * @returns `null` if nothing says the path, or if two disagree: a caller may have sent such a header
 */
export function callTargetOf(headers: HeaderMap, known: string): string | null {
  const said = PROXY_PATHS.flatMap((name) => valuesOf(headers, name));
  const [target, ...others] = known === '' ? said : [known, ...said];
  if (others.some((other) => other !== target)) return null;
  return target ?? valuesOf(headers, 'x-original-url')[0] ?? null;
}

/** Whether the proxy says that it has sent only a part of the body. */
export function isPartial(headers: HeaderMap): boolean {
  return valuesOf(headers, 'x-envoy-auth-partial-body').some((value) => value.toLowerCase() !== 'false');
}

const PREFIX = '/gate/';

/**
 * The protocol in a path `/gate/<protocol>` or a path below it: proxies append the caller's path.
 *
 * @returns `null` for any other path, and for a path with a `.` or `..` segment in any spelling: a proxy that resolves
 *   such a segment could see another protocol
 * @example gateProtocolOf('/gate/mcp/tools?x=1'); // 'mcp'
 */
export function gateProtocolOf(path: string): Protocol | null {
  if (!path.startsWith(PREFIX)) return null;
  const end = path.indexOf('/', PREFIX.length);
  const name = path.slice(PREFIX.length, end < 0 ? undefined : end);
  const protocol = GATE_PROTOCOLS.find((known) => known === name) ?? null;
  return path.includes('\\') || hasDotSegment(path) ? null : protocol;
}
