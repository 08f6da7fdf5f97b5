import { GATE_PROTOCOLS, type GateProtocol } from '../gate/index.js';
import { hasDotSegment } from '../protocol/resources.js';

const PREFIX = '/gate/';

/**
 * The protocol of a path `/gate/<protocol>` or of one below it: proxies put the caller's path behind it.
 *
 * @returns `null` for any other path, and for one with a `.` or `..` segment in any spelling: a proxy on the way that
 *   resolves it could make another protocol of it
 * @example gateProtocolOf('/gate/mcp/tools?x=1'); // 'mcp'
 */
export function gateProtocolOf(path: string): GateProtocol | null {
  if (!path.startsWith(PREFIX)) return null;
  const end = path.indexOf('/', PREFIX.length);
  const name = path.slice(PREFIX.length, end < 0 ? undefined : end);
  const protocol = GATE_PROTOCOLS.find((known) => known === name) ?? null;
  return protocol === null || path.includes('\\') || hasDotSegment(path) ? null : protocol;
}
