import type { GateContext } from './context.js';
import { encodeHeaderText } from './header-text.js';

/** The headers in which a gate tells a tool server of an allowed call. Nobody else may set one of them. */
export const CONTEXT_HEADERS = [
  'X-DRS-Root-Principal',
  'X-DRS-Agent',
  'X-DRS-Chain-Depth',
  'X-DRS-Command',
  'X-DRS-Tool',
  'X-DRS-Invocation',
  'X-DRS-Binding',
  'X-DRS-Context',
] as const;

/** A header of {@link CONTEXT_HEADERS}. */
export type ContextHeader = (typeof CONTEXT_HEADERS)[number];

/** What a proxy has to do with the headers of a request before it goes on. */
export interface HeaderChanges {
  /** To be set, in place of whatever the caller sent. */
  readonly set: Readonly<Partial<Record<ContextHeader, string>>>;
  /** To be taken off: the others of {@link CONTEXT_HEADERS}. Proxies that remove last would lose what was set. */
  readonly remove: readonly ContextHeader[];
}

/** The changes for a request that passes: the gate says nothing of it, so nobody else may. */
export const NO_CONTEXT: HeaderChanges = { set: {}, remove: CONTEXT_HEADERS };

/**
 * The changes for an allowed call.
 *
 * @param token the signed context, where the gate signs
 * @example contextHeaders(context, null).set['X-DRS-Agent']; // 'did:key:z6Mk…'
 */
export function contextHeaders(context: GateContext, token: string | null): HeaderChanges {
  const { tool } = context;
  const set: Partial<Record<ContextHeader, string>> = {
    'X-DRS-Root-Principal': encodeHeaderText(context.root_principal),
    'X-DRS-Agent': encodeHeaderText(context.agent),
    'X-DRS-Chain-Depth': String(context.chain_depth),
    'X-DRS-Command': encodeHeaderText(context.command),
    'X-DRS-Invocation': encodeHeaderText(context.invocation),
    'X-DRS-Binding': context.binding ?? 'none',
  };
  if (tool !== null) set['X-DRS-Tool'] = encodeHeaderText(tool);
  if (token !== null) set['X-DRS-Context'] = token;
  return { set, remove: CONTEXT_HEADERS.filter((name) => set[name] === undefined) };
}
