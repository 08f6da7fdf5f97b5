import type { BriefContext } from './context.js';
import { decodeBase64, decodeUtf8, encodeBase64, encodeUtf8, sha256Hex } from '#platform';

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

// Texts that a header cannot hold as they are, in the way of the MCP header `Mcp-Name`.
const ENCODED_START = '=?base64?';
const ENCODED_END = '?=';
// Proxies limit a request's headers to a few kilobytes. Ids and names are far shorter than this.
const MAX_BYTES = 512;

/**
 * Encodes a text as the value of a header. A text that a header cannot hold becomes base64 of its UTF-8
 * (`=?base64?…?=`). A text longer than 512 bytes becomes its SHA-256 digest (`=?sha256?<hex>?=`). No two texts have
 * the same encoding.
 *
 * @example encodeHeaderText('search'); // 'search'
 * @example encodeHeaderText('Zürich'); // '=?base64?WsO8cmljaA==?='
 */
export function encodeHeaderText(text: string): string {
  if (text.length <= MAX_BYTES && isPlain(text)) return text;
  const bytes = encodeUtf8(text);
  if (bytes.length > MAX_BYTES) return `=?sha256?${sha256Hex(text)}?=`;
  return encodeNameHeader(text);
}

/** Encodes a text as the value of the MCP header `Mcp-Name`, however long it is: plain, or as base64 of its UTF-8. */
export function encodeNameHeader(text: string): string {
  return isPlain(text) ? text : `${ENCODED_START}${encodeBase64(encodeUtf8(text))}${ENCODED_END}`;
}

/** Decodes a header value, which is plain text or base64; `null` if the base64 is malformed. */
export function decodeHeaderText(value: string): string | null {
  const isEncoded =
    value.startsWith(ENCODED_START) &&
    value.endsWith(ENCODED_END) &&
    value.length >= ENCODED_START.length + ENCODED_END.length;
  if (!isEncoded) return value;
  const bytes = decodeBase64(value.slice(ENCODED_START.length, -ENCODED_END.length));
  return bytes === null ? null : decodeUtf8(bytes);
}

/** Printable ASCII without spaces at either end and without the encoding mark: every HTTP parser reads it alike. */
function isPlain(text: string): boolean {
  return /^[!-~](?:[ -~]*[!-~])?$/.test(text) && !text.startsWith('=?');
}
