import type { BriefContext } from './context.js';
import { encodeHeaderText } from './header-text.js';

/** The headers that describe an allowed call to the tool server. Only the gate may set them. */
export const CONTEXT_HEADERS = [
  'X-DRS-Root-Principal',
  'X-DRS-Root-Name',
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

/** The header changes that a proxy makes before it forwards a request. */
export interface HeaderChanges {
  /** Headers to set. They replace what the caller sent. */
  readonly set: Readonly<Partial<Record<ContextHeader, string>>>;
  /**
   * The other {@link CONTEXT_HEADERS} in lower case, to remove. Not those in `set`: some proxies remove after they
   * set.
   */
  readonly remove: readonly string[];
}

/**
 * The changes for a request that passes unchecked: removes all {@link CONTEXT_HEADERS}, since a caller could forge
 * them.
 */
export const NO_CONTEXT: HeaderChanges = {
  set: {},
  remove: CONTEXT_HEADERS.map((name) => name.toLowerCase()),
};

/**
 * The changes for an allowed call.
 *
 * @param token the signed context; `null` if the gate does not sign
 * @example contextHeaders(context, null).set['X-DRS-Agent']; // 'did:key:z6Mk…'
 */
export function contextHeaders(context: BriefContext, token: string | null): HeaderChanges {
  const { tool, root_name: name } = context;
  const set: Partial<Record<ContextHeader, string>> = {
    'X-DRS-Root-Principal': encodeHeaderText(context.root_principal),
    'X-DRS-Agent': encodeHeaderText(context.agent),
    'X-DRS-Chain-Depth': String(context.chain_depth),
    'X-DRS-Command': encodeHeaderText(context.command),
    'X-DRS-Invocation': encodeHeaderText(context.invocation),
    'X-DRS-Binding': context.binding ?? 'none',
  };
  if (name !== undefined) set['X-DRS-Root-Name'] = encodeHeaderText(name);
  if (tool !== null) set['X-DRS-Tool'] = encodeHeaderText(tool);
  if (token !== null) set['X-DRS-Context'] = token;
  const remove: string[] = [];
  if (name === undefined) remove.push('x-drs-root-name');
  if (tool === null) remove.push('x-drs-tool');
  if (token === null) remove.push('x-drs-context');
  return { set, remove };
}
