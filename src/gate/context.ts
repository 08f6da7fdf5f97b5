import { decodeBase64, decodeUtf8, encodeBase64, encodeUtf8, sha256Hex } from '#platform';
import { labelIn, rulesIn, type Consent, type Regulatory, type StatedClaims } from '../protocol/consent.js';
import type { Approved } from '../verify/approval.js';
import type { Binding } from '../verify/binding.js';
import type { Proof } from '../verify/judge.js';
import { limitNamesOf, type CountedLimits, type LimitLeft } from '../verify/limits.js';
import { copyOfConsent, type KeptClaims, type VerdictContext } from '../verify/receipt.js';
import { statedOf, type Stated } from '../verify/tools.js';

/** What was agreed, by the word of the principal and the agent: nothing here has decided anything. */
export interface Agreement {
  /** The root's `drs_root_type`, such as `human`; `null` if it has none. */
  readonly root_type: string | null;
  /** What the person saw, and how they agreed: the root's consent; absent if there is none. */
  readonly consent_record?: Consent;
  /** The session of the call, by the invocation or else by the root; absent if neither names one. */
  readonly session_id?: string;
  /** The id under which the call is found elsewhere, by the invocation or else by the root; absent if neither has one. */
  readonly correlation_id?: string;
  /** The rules that are held to apply, by the root or else by the invocation; absent if neither names any. */
  readonly regulatory?: Regulatory;
}

/** The facts about a verified call, besides the three members of a verdict's context. */
export interface CallContext extends Agreement, Stated {
  /** The DID of the last delegate, who signed the call: the invocation's `iss`. */
  readonly agent: string;
  /** The invocation's `cmd`. */
  readonly command: string;
  /** `args.tool`; `null` if the call names none. */
  readonly tool: string | null;
  /** The invocation's `jti`. */
  readonly invocation: string;
  /** The receipts' `jti`s, root first. */
  readonly receipts: readonly string[];
  /** The earliest `exp` of the receipts, in Unix seconds; `null` if none of them expires. */
  readonly expires_at: number | null;
  /** What the operator calls the root principal, never what a bundle says; absent if it has no name. */
  readonly root_name?: string;
  /** What else the operator says of the root principal; absent if there is nothing. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The yes that the call has used; absent if it needs none. */
  readonly approval?: Approved;
}

/** Everything that the handler gets to know about an allowed call. */
export interface GateContext extends CallContext, VerdictContext {
  /** How the body compares with the signed arguments; absent if they were not compared. */
  readonly binding?: Binding;
  /** What is left of the chain's limits after this call; absent if there are none, or they are not counted. */
  readonly limits?: readonly LimitLeft[];
}

/** A context without the policy: reading that again takes longer than all the rest, and few need it. */
export type BriefContext = Omit<GateContext, 'leaf_policy'>;

/** What was agreed on a call. The objects are copies: receivers may change them, or freeze them. */
export function agreementOf(
  root: Pick<KeptClaims, 'drs_root_type' | 'drs_consent'> & StatedClaims,
  invocation: StatedClaims,
): Agreement {
  const session = labelIn(invocation.session_id) ?? labelIn(root.session_id);
  const correlation = labelIn(invocation.correlation_id) ?? labelIn(root.correlation_id);
  // An agent must not replace what its principal says.
  const regulatory = rulesIn(root.drs_regulatory) ?? rulesIn(invocation.drs_regulatory);
  return {
    root_type: root.drs_root_type,
    ...(root.drs_consent && { consent_record: copyOfConsent(root.drs_consent) }),
    ...(session !== null && { session_id: session }),
    ...(correlation !== null && { correlation_id: correlation }),
    ...(regulatory && { regulatory }),
  };
}

/** What a handler gets to know of a call, besides the members of a verdict's context. */
export function callContextOf({ chain, invocation, root, tool, stated }: Proof): CallContext {
  const { receipts } = chain;
  const { iss, cmd, jti, args } = invocation.claims;
  const { name, labels } = root;
  let expiresAt: number | null = null;
  for (const { claims } of receipts)
    if (claims.exp !== null) expiresAt = Math.min(claims.exp, expiresAt ?? claims.exp);
  return {
    agent: iss,
    command: cmd,
    tool: typeof args['tool'] === 'string' ? args['tool'] : null,
    invocation: jti,
    receipts: receipts.map(({ claims }) => claims.jti),
    ...agreementOf(chain.root.claims, invocation.claims),
    expires_at: expiresAt,
    ...(name !== null && { root_name: name }),
    // A copy: receivers may change it, or freeze it.
    ...(labels !== null && { labels: { ...labels } }),
    ...(stated ?? statedOf(receipts, args, tool)),
  };
}

/**
 * The members of a context that tell of the chain's limits.
 *
 * @param left what is left of them; `null` if nobody counts
 */
export function countedOf(
  limits: readonly CountedLimits[],
  left: readonly LimitLeft[] | null,
): Pick<GateContext, 'limits' | 'unenforced'> {
  if (limits.length === 0) return {};
  return left === null ? { unenforced: limitNamesOf(limits) } : { limits: left };
}

/** The headers that only the gate may set, with the members of the context that they tell. */
const HEADERS = {
  'X-DRS-Root-Principal': 'root_principal',
  'X-DRS-Root-Name': 'root_name',
  'X-DRS-Root-Type': 'root_type',
  'X-DRS-Agent': 'agent',
  'X-DRS-Chain-Depth': 'chain_depth',
  'X-DRS-Command': 'command',
  'X-DRS-Tool': 'tool',
  'X-DRS-Invocation': 'invocation',
  'X-DRS-Session-Id': 'session_id',
  'X-DRS-Correlation-Id': 'correlation_id',
  'X-DRS-Approved-By': null,
  'X-DRS-Binding': 'binding',
  'X-DRS-Context': null,
  'X-DRS-Observed': null,
} as const satisfies Readonly<Record<string, keyof BriefContext | null>>;

export type ContextHeader = keyof typeof HEADERS;

export const CONTEXT_HEADERS = /* @__PURE__ */ Object.keys(HEADERS) as readonly ContextHeader[];

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

function changesTo(set: HeaderChanges['set']): HeaderChanges {
  const others = CONTEXT_HEADERS.filter((name) => set[name] === undefined);
  return { set, remove: others.map((name) => name.toLowerCase()) };
}

/** The changes for a request that passes unchecked: a caller could forge a context. */
export const NO_CONTEXT: HeaderChanges = /* @__PURE__ */ changesTo({});

/**
 * The changes for a request that passes.
 *
 * @param observed the code for which a gate that is not on trial would have denied it
 */
export function passHeaders(observed: string | undefined): HeaderChanges {
  return observed === undefined ? NO_CONTEXT : changesTo({ 'X-DRS-Observed': observed });
}

/**
 * The changes for an allowed call.
 *
 * @param token the signed context; `null` if the gate does not sign
 */
export function contextHeaders(context: BriefContext, token: string | null): HeaderChanges {
  const set: Partial<Record<ContextHeader, string>> = { 'X-DRS-Binding': 'none' };
  for (const name of CONTEXT_HEADERS) {
    const member = HEADERS[name];
    const value = member === null ? null : (context[member] ?? null);
    if (value !== null) set[name] = encodeHeaderText(String(value));
  }
  const { approval } = context;
  if (approval !== undefined) {
    // Somebody with two passkeys may have said it twice.
    const names = new Set(approval.by.map(({ name }) => name));
    set['X-DRS-Approved-By'] = encodeHeaderText([...names].join(', '));
  }
  if (token !== null) set['X-DRS-Context'] = token;
  return changesTo(set);
}

// Proxies limit a request's headers to a few kilobytes. Ids and names are far shorter than this.
const MAX_BYTES = 512;

/**
 * Encodes a text as the value of a header, in the way of the MCP header `Mcp-Name`. A text that a header cannot hold
 * becomes base64 of its UTF-8 (`=?base64?…?=`). A text longer than 512 bytes becomes its SHA-256 digest
 * (`=?sha256?<hex>?=`). No two texts have the same encoding.
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
  return isPlain(text) ? text : `=?base64?${encodeBase64(encodeUtf8(text))}?=`;
}

/** Decodes a header value, which is plain text or base64; `null` if the base64 is malformed. */
export function decodeHeaderText(value: string): string | null {
  const [, base64] = /^=\?base64\?(.*)\?=$/s.exec(value) ?? [];
  if (base64 === undefined) return value;
  const bytes = decodeBase64(base64);
  return bytes === null ? null : decodeUtf8(bytes);
}

/** Printable ASCII without spaces at either end and without the encoding mark: every HTTP parser reads it alike. */
function isPlain(text: string): boolean {
  return /^[!-~](?:[ -~]*[!-~])?$/.test(text) && !text.startsWith('=?');
}
