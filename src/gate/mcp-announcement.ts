import type { McpRules } from './mcp.js';
import { GATED_METHODS, MCP_COMMAND_PREFIX, TOOLS_CALL } from './mcp-methods.js';

/** The experimental capability by which an MCP server says that it needs delegations. */
export const CAPABILITY = 'xyz.okeyamy.drs/delegation';

/**
 * What an MCP server says about the delegations that it needs: the value of {@link CAPABILITY}.
 *
 * @param options `optional`: requests without a bundle pass; `askAt`: a URL at which a delegation can be asked for
 */
export function announcementOf(
  { methods, serverIdentity, passMethods }: McpRules,
  { optional, askAt }: { readonly optional?: boolean; readonly askAt?: string | URL | undefined } = {},
): object {
  const gated = methods === 'tools' ? [TOOLS_CALL] : GATED_METHODS;
  return {
    required: optional !== true,
    methods: gated.filter((method) => passMethods?.has(method) !== true),
    commandPrefix: MCP_COMMAND_PREFIX,
    ...(typeof serverIdentity === 'string' ? { toolServer: serverIdentity } : {}),
    ...(askAt === undefined ? {} : { askAt: String(askAt) }),
  };
}
