import { announcementOf, CAPABILITY } from '../../gate/mcp-announcement.js';
import type { McpRules } from '../../gate/mcp.js';
import { innerOf, type Connectable } from './transport.js';

/** What a server announces. */
export interface Announcement {
  readonly options: { readonly optional?: boolean; readonly askAt?: string };
  readonly rules: McpRules;
}

/** Adds to the capabilities of a server that it needs delegations, and for what. */
export function announce(server: Connectable, { options, rules }: Announcement): void {
  const inner: unknown = innerOf(server);
  if (!canRegister(inner)) return;
  inner.registerCapabilities({ experimental: { [CAPABILITY]: announcementOf(rules, options) } });
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
