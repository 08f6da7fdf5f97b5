import { gateFailure, type Protocol } from './codes.js';
import { shorten, type Denial, type GateRequest } from './request.js';
import { denier } from './rpc-gate.js';

const HARMLESS: ReadonlySet<string> = new Set(['close', 'keep-alive', '']);

/**
 * Denies a request that would become another one on its way, for gates that proxies ask. After an upgrade, the proxy
 * forwards bytes that no gate sees, and it removes headers that `Connection` names.
 *
 * @returns `null` if it will not
 * @example denyHopByHop('mcp', request); // null
 */
export function denyHopByHop(protocol: Protocol, { headers }: Pick<GateRequest, 'headers'>): Denial | null {
  const deny = (message: string) =>
    denier(protocol, null, null)(gateFailure('HOP_BY_HOP_HEADER', protocol, message));
  const [upgrade] = headers('upgrade');
  if (upgrade !== undefined)
    return deny(`the header Upgrade is ${JSON.stringify(shorten(upgrade))}, expected none`);
  for (const value of headers('connection')) {
    const named = value.split(',').map((name) => name.trim());
    const other = named.find((name) => !HARMLESS.has(name.toLowerCase()));
    if (other !== undefined)
      return deny(
        `the header Connection names ${JSON.stringify(shorten(other))}, expected close or keep-alive`,
      );
  }
  return null;
}
