import { GATE_PROTOCOLS, type GateProtocol } from '../../gate/open.js';
import { hasDotSegment } from '../../protocol/resources.js';

const PREFIX = '/gate/';

/**
 * The protocol in a path `/gate/<protocol>` or a path below it: proxies append the caller's path.
 *
 * @returns `null` for any other path, and for a path with a `.` or `..` segment in any spelling: a proxy that resolves
 *   such a segment could see another protocol
 * @example gateProtocolOf('/gate/mcp/tools?x=1'); // 'mcp'
 */
export function gateProtocolOf(path: string): GateProtocol | null {
  if (!path.startsWith(PREFIX)) return null;
  const end = path.indexOf('/', PREFIX.length);
  const name = path.slice(PREFIX.length, end < 0 ? undefined : end);
  const protocol = GATE_PROTOCOLS.find((known) => known === name) ?? null;
  return protocol === null || path.includes('\\') || hasDotSegment(path) ? null : protocol;
}
