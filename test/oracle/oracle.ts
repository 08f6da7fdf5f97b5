import { readInvocation, readReceipt, recordOf, stringOf, type Invocation, type Receipt } from './claims.js';
import { verifyStrictly } from './ed25519.js';
import { keysFor, type Documents } from './documents.js';
import { digestOf } from './encoding.js';
import { faithful } from './jcs.js';
import { fromValue, member, type Json, type JsonObject } from './json.js';
import type { Jwt } from './jwt.js';
import { limitsOf, namesOf, type CountedLimit } from './limits.js';
import { allows, allowsDelegations, costOf, isAbove, isWithin, names, waitsFor } from './policy.js';
import { saidOf, statedOf, type Line } from './tools.js';

/** An entry of a file of trusted roots (docs/spec/trust.md), in order. */
export interface Entry {
  readonly did: string;
  readonly name?: string;
  readonly not_before?: string;
  readonly not_after?: string;
  readonly policy?: Readonly<Record<string, boolean | number | string[]>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly approve?: { readonly tools?: readonly string[]; readonly above_usd?: number };
  readonly status_lists?: readonly {
    readonly uri: string;
    readonly form: 'w3c' | 'token';
    readonly id?: string;
  }[];
  readonly addresses?: readonly string[];
}

/** The settings of a verifier. */
export interface Settings {
  readonly maxChainDepth?: number;
  readonly clockSkewSecs?: number;
  readonly expiryGraceSecs?: number;
  readonly serverIdentity?: string;
  /** DIDs, or entries. */
  readonly trustedRoots?: readonly (string | Entry)[];
  readonly requireBinding?: boolean;
  /** What the operator says of tools. */
  readonly tools?: readonly Line[];
  readonly unstatedArguments?: 'refuse' | 'allow';
}

/** The revocation state at the time of a question. */
export interface Revocation {
  /** The remote list: not configured, no usable copy, or its bytes. */
  readonly remote: 'none' | 'unavailable' | Uint8Array;
  /** Indices, digests of receipts, DIDs, `jti <iss> <jti>`, and `index <root> <index>`. */
  readonly local: ReadonlySet<number | string>;
  /** The lists of roots, by their names. */
  readonly lists?: Readonly<Record<string, ServedList>>;
}

/** A list as it is served; `bits` of an entry in a token, `null` in a bitstring of the W3C. */
export type ServedList = { readonly bits: 1 | 2 | 4 | 8 | null; readonly hex: string } | 'unavailable';

export interface Question {
  readonly bundle: Json;
  /** The body of the call: none, a text that is not JSON, or a value. */
  readonly body: Json | 'unreadable' | undefined;
  /** Whether the request asks for `details`. */
  readonly details?: boolean;
  /** Of a gate: it asks for a person's yes after its own checks. */
  readonly asksLater?: boolean;
  readonly now: number;
  readonly settings: Settings;
  readonly revocation: Revocation;
  /** Default: no entry has a `did:web`. */
  readonly documents?: Documents;
  /** Replaces the oracle's own check of a signature, for example by one with a cache. */
  readonly verifySignature?: typeof verifyStrictly;
}

export type Binding = 'match' | 'mismatch' | 'invalid_body';

/** The verdict, without the texts of messages. */
export type Answer =
  | {
      readonly valid: true;
      readonly context: {
        readonly root_principal: string;
        readonly chain_depth: number;
        readonly leaf_policy: JsonObject;
        readonly tool_server: string;
        /** Of a verifier without replay protection. */
        readonly unenforced?: readonly string[];
      };
      /** What a verifier with replay protection counts, and the arguments that it charges. */
      /** Of a gate: whether the call needs a yes, which nobody has. */
      readonly needsYes: boolean;
      readonly counted: { readonly limits: readonly CountedLimit[]; readonly cost: bigint };
      readonly binding?: Binding;
      readonly details?: Readonly<Record<string, unknown>>;
    }
  | { readonly valid: false; readonly code: string; readonly binding?: Binding };

/**
 * The verdict on a bundle, written from the specification alone. The first failure in the order of the blocks is the
 * verdict. It is slow, and keeps no state between questions.
 */
export function verify(question: Question): Answer {
  const { settings, revocation, now } = question;
  const structure = blockA(question.bundle, settings);
  if (typeof structure === 'string') return { valid: false, code: structure };
  const { receipts, invocation } = structure;
  const entry = entryOf(receipts[0]?.iss ?? '', settings);
  const code =
    blockB(receipts, invocation) ??
    blockC(receipts, invocation, question) ??
    blockD(receipts, invocation, settings, entry) ??
    blockE(receipts, now, settings, entry) ??
    blockF(receipts, revocation, entry);
  if (code !== undefined) return { valid: false, code };

  const binding = question.body === undefined ? undefined : bindingOf(question.body, invocation);
  if (settings.requireBinding === true) {
    if (binding === undefined) return { valid: false, code: 'BINDING_REQUIRED' };
    if (binding !== 'match') return { valid: false, code: 'BINDING_MISMATCH', binding };
  }
  const [root, leaf] = [receipts[0], receipts.at(-1)];
  if (root === undefined || leaf === undefined) throw new Error('block A lets no empty chain pass');
  const limits = limitsOf(receipts);
  const { args } = invocation;
  const said = saidOf(settings.tools ?? [], args);
  const { tools = [], above_usd: above } = entry?.approve ?? {};
  const most = fromValue(entry?.policy ?? {});
  const levels = [...receipts.map(({ policy }) => policy), ...(most.kind === 'object' ? [most] : [])];
  const needsYes =
    names(tools, args) ||
    (above !== undefined && isAbove(above, args, said)) ||
    levels.some((policy) => waitsFor(policy, args));
  if (needsYes && question.asksLater !== true) return { valid: false, code: 'APPROVAL_REQUIRED' };
  const open = limits.length === 0 ? {} : { unenforced: namesOf(limits) };
  return {
    valid: true,
    context: {
      ...{ root_principal: root.iss, chain_depth: receipts.length, leaf_policy: leaf.policy },
      ...{ tool_server: invocation.toolServer, ...open },
    },
    needsYes,
    counted: { limits, cost: costOf(invocation.args, said) },
    ...(binding !== undefined && { binding }),
    ...(question.details === true && {
      details: {
        ...detailsOf(receipts, invocation, binding, entry),
        ...statedOf(
          receipts.map(({ policy }) => policy),
          invocation.args,
          said,
        ),
        ...open,
      },
    }),
  };
}

/** Structure. A string is an error code. */
function blockA(bundle: Json, settings: Settings): string | { receipts: Receipt[]; invocation: Invocation } {
  if (bundle.kind !== 'object') return 'MALFORMED_BUNDLE';
  const version = member(bundle, 'bundle_version');
  const list = member(bundle, 'receipts');
  const last = member(bundle, 'invocation');
  if (version?.kind !== 'string') return 'MALFORMED_BUNDLE';
  if (list !== undefined && list.kind !== 'array') return 'MALFORMED_BUNDLE';
  if (last !== undefined && last.kind !== 'string') return 'MALFORMED_BUNDLE';
  const max = settings.maxChainDepth ?? 16;
  const items = list?.items ?? [];
  const texts = items.slice(0, max).map((item) => (item.kind === 'string' ? item.value : undefined));
  if (!texts.every((text) => text !== undefined)) return 'MALFORMED_BUNDLE';
  if (version.value !== '4.0') return 'VERSION_MISMATCH';
  if (texts.length === 0) return 'EMPTY_CHAIN';
  if (items.length > max) return 'CHAIN_TOO_DEEP';
  if (last === undefined || last.value === '') return 'MISSING_INVOCATION';

  const receipts: Receipt[] = [];
  for (const [index, text] of texts.entries()) {
    const root = receipts[0];
    const receipt = readReceipt(text, index, root === undefined ? undefined : root.rootType === 'human');
    if (typeof receipt === 'string') return receipt;
    receipts.push(receipt);
  }
  const invocation = readInvocation(last.value);
  return typeof invocation === 'string' ? invocation : { receipts, invocation };
}

/** Linkage. */
function blockB(receipts: readonly Receipt[], invocation: Invocation): string | undefined {
  for (const [index, receipt] of receipts.entries()) {
    const parent = receipts[index - 1];
    if (receipt.previous !== (parent && digestOf(parent.jwt.text))) return 'CHAIN_BREAK';
    if (parent !== undefined && receipt.iss !== parent.aud) return 'ISSUER_MISMATCH';
  }
  if (invocation.iss !== receipts.at(-1)?.aud) return 'INVOKER_MISMATCH';
  const hashes = receipts.map((receipt) => digestOf(receipt.jwt.text));
  const same =
    hashes.length === invocation.chain.length && hashes.every((hash, at) => hash === invocation.chain[at]);
  return same ? undefined : 'CHAIN_REFERENCE_MISMATCH';
}

/** Signatures. */
function blockC(
  receipts: readonly Receipt[],
  invocation: Invocation,
  question: Question,
): string | undefined {
  for (const receipt of receipts) {
    const code = signatureFault(receipt.jwt, receipt.iss, 'INVALID_SIGNATURE', question);
    if (code !== undefined) return code;
  }
  return signatureFault(invocation.jwt, invocation.iss, 'INVALID_INVOCATION_SIGNATURE', question);
}

function signatureFault(
  jwt: Jwt,
  iss: string,
  code: string,
  { documents = new Map(), now, verifySignature = verifyStrictly }: Question,
): string | undefined {
  const algorithm = stringOf(jwt.header, 'alg');
  if (algorithm !== 'EdDSA' && algorithm !== 'Ed25519') return 'UNSUPPORTED_ALGORITHM';
  const keys = keysFor(jwt, iss, documents, now);
  if (typeof keys === 'string') return keys;
  return keys.some((key) => verifySignature(key, jwt.signed, jwt.signature)) ? undefined : code;
}

/** What the operator says of a root; `undefined` if it is not trusted. */
function entryOf(did: string, { trustedRoots }: Settings): Entry | undefined {
  if (trustedRoots === undefined) return { did };
  return trustedRoots
    .map((one) => (typeof one === 'string' ? { did: one } : one))
    .find((one) => one.did === did);
}

/** Policy. */
function blockD(
  receipts: readonly Receipt[],
  call: Invocation,
  settings: Settings,
  entry: Entry | undefined,
): string | undefined {
  const most = fromValue(entry?.policy ?? {});
  if (most.kind !== 'object') throw new Error('a policy is an object');
  const root = receipts[0];
  for (const [index, receipt] of receipts.entries()) {
    const parent = receipts[index - 1];
    if (receipt.subject !== (parent === undefined ? receipt.iss : root?.subject)) return 'SUBJECT_MISMATCH';
    if (parent !== undefined && !isBelow(receipt.cmd, parent.cmd)) return 'COMMAND_MISMATCH';
    if (parent === undefined && entry === undefined) return 'UNTRUSTED_ROOT';
    if (parent === undefined && !isWithin(receipt.policy, most)) return 'ROOT_POLICY_EXCEEDED';
    if (!receipts.slice(0, index).every(({ policy }, at) => allowsDelegations(policy, index - at)))
      return 'DELEGATION_NOT_ALLOWED';
    if (parent !== undefined && !isWithin(receipt.policy, parent.policy)) return 'POLICY_ESCALATION';
  }
  if (call.subject !== root?.subject) return 'INVOCATION_SUBJECT_MISMATCH';
  if (!isBelow(call.cmd, receipts.at(-1)?.cmd ?? '')) return 'COMMAND_MISMATCH';
  if (settings.serverIdentity !== undefined && call.toolServer !== settings.serverIdentity)
    return 'TOOL_SERVER_MISMATCH';
  const said = saidOf(settings.tools ?? [], call.args);
  const passes = (policy: JsonObject) =>
    allows(policy, call.args, said, settings.unstatedArguments === 'allow');
  if (!allowsDelegations(most, receipts.length - 1) || !passes(most)) return 'ROOT_POLICY_EXCEEDED';
  return receipts.every(({ policy }) => passes(policy)) ? undefined : 'POLICY_VIOLATION';
}

const isBelow = (cmd: string, parent: string) => cmd === parent || cmd.startsWith(`${parent}/`);

/** What the clock of an issuer may be ahead, by default. */
export const SKEW_SECS = 30;

/** Time. */
function blockE(
  receipts: readonly Receipt[],
  now: number,
  { clockSkewSecs: skew = SKEW_SECS, expiryGraceSecs: grace = 0 }: Settings,
  { not_before: first, not_after: last }: Entry = { did: '' },
): string | undefined {
  if (first !== undefined && now < secondsOf(first)) return 'ROOT_NOT_YET_VALID';
  // A day ends with its last second.
  if (last !== undefined && now > secondsOf(last) + (isDay(last) ? 86_399 : 0)) return 'ROOT_EXPIRED';
  for (const [index, receipt] of receipts.entries()) {
    if (now < receipt.nbf - skew) return 'NOT_YET_VALID';
    if (receipt.exp !== undefined && now > receipt.exp + grace) return 'EXPIRED';
    const parent = receipts[index - 1];
    if (parent === undefined) continue;
    if (receipt.nbf < parent.nbf) return 'TEMPORAL_BOUNDS_VIOLATION';
    if (parent.exp !== undefined && (receipt.exp === undefined || receipt.exp > parent.exp))
      return 'TEMPORAL_BOUNDS_VIOLATION';
  }
  return undefined;
}

const isDay = (time: string) => time.length === 10;
const secondsOf = (time: string) => Date.parse(isDay(time) ? `${time}T00:00:00Z` : time) / 1000;

type State = 'fine' | 'revoked' | 'out of range' | 'unavailable' | 'unknown';

/** Revocation. */
function blockF(
  receipts: readonly Receipt[],
  { remote, local, lists = {} }: Revocation,
  entry: Entry | undefined,
): string | undefined {
  const own = entry?.status_lists ?? [];
  const ofRoot = (list: (typeof own)[number], index: number) => stateIn(lists[list.id ?? list.uri], index);
  const ofOperator =
    remote instanceof Uint8Array ? { bits: null, hex: Buffer.from(remote).toString('hex') } : remote;
  for (const { statusIndex, named, iss, aud, jti, jwt } of receipts) {
    const states = named.map((one): State => {
      if (one === 'unreadable') return 'unknown';
      const list = own.find(({ uri, id = uri, form }) => id === one.list && form === (one.form ?? form));
      return list === undefined ? 'unknown' : ofRoot(list, one.index);
    });
    if (statusIndex !== undefined && own[0] !== undefined) states.push(ofRoot(own[0], statusIndex));
    else if (statusIndex !== undefined) {
      if (ofOperator !== 'none') states.push(stateIn(ofOperator, statusIndex));
      if (local.has(statusIndex)) states.push('revoked');
    }
    const indices = named.map((one) => (one === 'unreadable' ? undefined : one.index));
    const names = [statusIndex, ...indices].map((index) => `index ${receipts[0]?.iss} ${index}`);
    if (states.includes('revoked') || names.some((name) => local.has(name))) return 'RECEIPT_REVOKED';
    if (local.has(digestOf(jwt.text)) || local.has(`jti ${iss} ${jti}`)) return 'RECEIPT_REVOKED';
    if (local.has(iss) || local.has(aud)) return 'KEY_REVOKED';
    if (states.includes('out of range')) return 'STATUS_INDEX_OUT_OF_RANGE';
    if (states.includes('unavailable')) return 'REVOCATION_CHECK_FAILED';
    if (states.includes('unknown')) return 'UNKNOWN_STATUS';
  }
  return undefined;
}

/** What a list says of an entry. The first of a token is in the least significant bits, of a bitstring the most significant. */
function stateIn(list: ServedList | undefined, index: number): State {
  if (list === undefined || list === 'unavailable') return 'unavailable';
  const size = list.bits ?? 1;
  const perByte = 8 / size;
  const byte = Buffer.from(list.hex, 'hex')[Math.floor(index / perByte)];
  if (byte === undefined) return 'out of range';
  const bits = byte.toString(2).padStart(8, '0');
  const at = (index % perByte) * size;
  const value = Number.parseInt(list.bits === null ? bits.charAt(at) : bits.slice(8 - at - size, 8 - at), 2);
  return value === 0 ? 'fine' : value < 3 ? 'revoked' : 'unknown';
}

function bindingOf(body: Json | 'unreadable', invocation: Invocation): Binding {
  const form = body === 'unreadable' ? undefined : faithful(body);
  if (form === undefined) return 'invalid_body';
  return form === faithful(invocation.args) ? 'match' : 'mismatch';
}

/** The details of docs/spec/verdict.md: the context of a gate without the members that every verdict has. */
function detailsOf(
  receipts: readonly Receipt[],
  call: Invocation,
  binding: Binding | undefined,
  { name, labels }: Entry = { did: '' },
) {
  const expiries = receipts.flatMap(({ exp }) => (exp === undefined ? [] : [exp]));
  const tool = stringOf(call.args, 'tool');
  const { rootType, consent, stated = {} } = receipts[0] ?? {};
  return {
    agent: call.iss,
    command: call.cmd,
    tool: tool ?? null,
    invocation: call.jti,
    receipts: receipts.map(({ jti }) => jti),
    root_type: rootType ?? null,
    ...(consent !== undefined && { consent_record: recordOf(consent) }),
    // Of the ids, the call's own come first; of the rules, the principal's.
    ...{ ...stated, ...call.stated },
    ...(stated.regulatory !== undefined && { regulatory: stated.regulatory }),
    expires_at: expiries.length === 0 ? null : Math.min(...expiries),
    ...(name !== undefined && { root_name: name }),
    ...(labels !== undefined && { labels }),
    ...(binding !== undefined && { binding }),
  };
}
