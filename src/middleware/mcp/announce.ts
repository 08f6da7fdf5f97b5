import { GATED_METHODS, MCP_COMMAND_PREFIX, TOOLS_CALL } from '../../gate/mcp-methods.js';
import type { McpRules } from '../../gate/mcp.js';
import { innerOf, type Connectable } from './transport.js';

/** The experimental capability by which a server says that it needs delegations. */
const CAPABILITY = 'xyz.okeyamy.drs/delegation';

/** What a server announces. */
export interface Announcement {
  readonly options: { readonly optional?: boolean; readonly askAt?: string };
  readonly rules: McpRules;
}

/** Adds to the capabilities of a server that it needs delegations, and for what. */
export function announce(server: Connectable, { options, rules }: Announcement): void {
  const inner: unknown = innerOf(server);
  if (!canRegister(inner)) return;
  const { methods, serverIdentity, passMethods } = rules;
  const gated = methods === 'tools' ? [TOOLS_CALL] : GATED_METHODS;
  const needed = {
    required: options.optional !== true,
    methods: gated.filter((method) => passMethods?.has(method) !== true),
    commandPrefix: MCP_COMMAND_PREFIX,
    ...(typeof serverIdentity === 'string' ? { toolServer: serverIdentity } : {}),
    ...(options.askAt === undefined ? {} : { askAt: options.askAt }),
  };
  inner.registerCapabilities({ experimental: { [CAPABILITY]: needed } });
}

interface Registry {
  registerCapabilities(capabilities: object): void;
}

function canRegister(server: unknown): server is Registry {
  return (
    typeof server === 'object' &&
    server !== null &&
    'registerCapabilities' in server &&
    typeof server.registerCapabilities === 'function'
  );
}
