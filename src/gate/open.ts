/**
 * Decides on whole protocol requests: plain HTTP requests, MCP messages and A2A messages. Pure: does no I/O. A
 * transport opens a request here, has its bundle verified, asks for the decision, and records the invocation last.
 */
import { openA2a } from './a2a.js';
import { type Protocol, gateFailure } from './codes.js';
import { openRouted } from './http.js';
import { openMcp, type McpRules, type OpenedRequest } from './mcp.js';
import { type GateRequest, shown, valuesOf, type Denial } from './request.js';
import type { RouteTable } from './routes.js';
import { splitPath } from './path.js';
import { denier } from './json-rpc.js';

export const GATE_PROTOCOLS = ['http', 'mcp', 'a2a'] as const satisfies readonly Protocol[];

/** The operator's settings for what a gate opens. */
export interface OpeningRules extends McpRules {
  /** The routes of `http`, or `any`. If left out, every request over `http` is refused. */
  readonly routes?: RouteTable | 'any' | null;
}

/** Opens a request of any protocol that a proxy asks about. */
export function openRequest(
  protocol: Protocol,
  request: GateRequest,
  rules: OpeningRules = {},
): OpenedRequest {
  const denial = denyHopByHop(protocol, request);
  if (denial !== null) return denial;
  // Over MCP, neither path nor query is signed. One endpoint has one path, which is the proxy's matter, and no query.
  if (protocol === 'mcp' && request.target !== null && splitPath(request.target)?.query !== null) {
    const message =
      'the path has a query, which is not signed over MCP, or servers could read it in two ways';
    return denier('mcp', null, null)(gateFailure('INVALID_PATH', 'mcp', message));
  }
  switch (protocol) {
    case 'http':
      return openRouted(request, rules.routes ?? null);
    case 'mcp':
      return openMcp(request, rules);
    case 'a2a':
      return openA2a(request);
  }
}

const HARMLESS: ReadonlySet<string> = new Set(['close', 'keep-alive', '']);

/**
 * Denies a request that would become another one on its way, for gates that proxies ask. After an upgrade, the proxy
 * forwards bytes that no gate sees, and it removes headers that `Connection` names.
 *
 * @returns `null` if it will not
 */
export function denyHopByHop(protocol: Protocol, { headers }: Pick<GateRequest, 'headers'>): Denial | null {
  const deny = (message: string) =>
    denier(protocol, null, null)(gateFailure('HOP_BY_HOP_HEADER', protocol, message));
  const [upgrade] = valuesOf(headers, 'upgrade');
  if (upgrade !== undefined) return deny(`the header Upgrade is ${shown(upgrade)}, expected none`);
  for (const value of valuesOf(headers, 'connection')) {
    const named = value.split(',').map((name) => name.trim());
    const other = named.find((name) => !HARMLESS.has(name.toLowerCase()));
    if (other !== undefined)
      return deny(`the header Connection names ${shown(other)}, expected close or keep-alive`);
  }
  return null;
}
