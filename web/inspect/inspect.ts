import type { Sodium } from '../../src/pure/parts.js';
import { pureParts } from '../../src/pure/parts.js';
import { isJsonObject, type JsonValue } from '../../src/protocol/json.js';
import type { CallBody, PendingCall } from '../../src/gate/request.js';
import { digestOf } from '../../src/protocol/jwt.js';
import type { Entries } from '../../src/revocation/entries.js';
import type { TrustedRoot } from '../../src/trust/read-root.js';
import type { ToolLine } from '../../src/trust/read-tool.js';
import { findReached } from '../../src/usage/counters.js';
import { bind, type Binding } from '../../src/verify/binding.js';
import { CATALOGUE, Failure, type Block, type Subject } from '../../src/verify/codes.js';
import { judge, openClaims, proveClaims, readReceipts, type Judgement } from '../../src/verify/judge.js';
import { costMicroUsdOf, limitReached } from '../../src/verify/limits.js';
import type { JudgeParts, RemoteStatus, RevocationView } from '../../src/verify/parts.js';
import { readToken, type Token } from './decode.js';
import { comparable, refusalByGate } from './gate.js';
import type { Place, UsedByReceipt } from './known.js';
import type { NotedRefusal } from './recognise.js';

/** What is inspected. */
export interface Subjects {
  /** A bundle, or receipts without a call; any JSON value. */
  readonly bundle: JsonValue;
  /** JSON text of the body of the call; `null` if there is none. */
  readonly body: string | null;
  /** The request that it came in, if a gate could be asked about it. */
  readonly call?: PendingCall | undefined;
}

/** A status list that somebody pasted, unpacked. Its signature has not been checked. */
export type StatusBits = Uint8Array;

/** What a verifier would be set up with. */
export interface Settings {
  /** Unix seconds. */
  readonly now: number;
  readonly clockSkewSecs: number;
  /** Empty for any. */
  readonly serverIdentity: string;
  /** Empty for any. */
  readonly trustedRoots: readonly (string | TrustedRoot)[];
  /** What the operator says of tools; empty for nothing. */
  readonly tools: readonly ToolLine[];
  readonly requireBinding: boolean;
  /** Indices, by hand. */
  readonly revoked: ReadonlySet<number>;
  /** What a service has revoked locally; `null` if nobody said. */
  readonly entries: Entries | null;
  readonly list: StatusBits | null;
  /** What has been used of limits, as far as somebody said. */
  readonly used: UsedByReceipt;
  readonly countedAt: Place;
}

/** One of the lights, in the order in which blocks check. */
export interface Light {
  readonly block: LitBlock;
  readonly state: 'passed' | 'failed' | 'not reached' | 'not checked';
  readonly says: string;
}

export type LitBlock = Block;

/** Why a call is refused. */
export type Refusal = Pick<Failure, 'message' | 'suggestion' | 'subject' | 'member'> & {
  /** Of the catalogue, or of the gate's. */
  readonly code: string;
};

/** What was found. */
export interface Inspection {
  /** What was judged; `null` where somebody else judged. */
  readonly subjects: Subjects | null;
  readonly valid: boolean;
  /** Whether there is an invocation to judge; without one, receipts alone were judged. */
  readonly isCall: boolean;
  readonly failure: (Refusal & { readonly block: Block }) | null;
  /** Why a gate refuses the request although its bundle is valid. */
  readonly gate: Refusal | null;
  readonly binding: Binding | null;
  readonly lights: readonly Light[];
  readonly receipts: readonly Token[];
  readonly invocation: Token | null;
  /** Milliseconds. */
  readonly took: number;
}

/** Why a call is refused, by whom it may be. */
export function refusalOf({ failure, gate }: Inspection): Refusal | null {
  return failure ?? gate;
}

/** The blocks in the order of the catalogue. The last needs a record of calls. */
const BLOCKS: readonly Block[] = [...new Set(CATALOGUE.map(({ block }) => block))];

const NAMES: Readonly<Record<Block, string>> = {
  A: 'Structure',
  B: 'Linkage',
  C: 'Signatures',
  D: 'Policy',
  E: 'Time',
  F: 'Revocation',
  binding: 'Body',
  approval: 'Yes',
  replay: 'Use',
};

/** What a block is called, for a person. */
export function nameOf(block: Block): string {
  return NAMES[block];
}

const PASSED: Readonly<Record<Block, string>> = {
  A: 'Every receipt is complete and well-formed',
  B: 'Each receipt names the one before it',
  C: 'Every signature verifies',
  D: 'Nobody allows more than they were given',
  E: 'Every receipt is in force at this time',
  F: 'Nothing is revoked',
  binding: 'The body is what was signed',
  approval: 'Nobody has to say yes',
  replay: 'No counted limit is reached',
};

/** The most JWTs that a picture shows: a verifier takes at most 16 receipts unless it is told otherwise. */
const MAX_SHOWN = 64;

/** Judges, with the code that a service judges with. Bad input never throws. */
export async function inspect(sodium: Sodium, given: Subjects, settings: Settings): Promise<Inspection> {
  const start = performance.now();
  const parts = partsFor(sodium, settings);
  const { bundle } = given;
  const [jwts, invocation] = partsOf(bundle);
  const receipts = jwts.slice(0, MAX_SHOWN).map(readToken);
  const seen = { receipts, invocation: invocation === null ? null : readToken(invocation) };
  const isCall = !(isJsonObject(bundle) && Object.keys(bundle).join() === 'receipts');
  let outcome: Outcome;
  if (isCall) outcome = await judgeCall(given, parts, settings, seen.invocation);
  else outcome = { failure: judgeReceipts(jwts, parts, settings.now), gate: null, binding: null };
  const { failure, binding } = outcome;
  const lights = lightsFor(failure, { isCall, binding, settings, receipts });
  return {
    ...{ subjects: given, valid: failure === null, isCall, lights, ...outcome, ...seen },
    took: performance.now() - start,
  };
}

type Outcome = { readonly failure: Failure | null } & Pick<Inspection, 'gate' | 'binding'>;

async function judgeCall(
  { bundle, body: text, call }: Subjects,
  parts: JudgeParts,
  settings: Settings,
  invocation: Token | null,
): Promise<Outcome> {
  const { now } = settings;
  // A body that is no JSON has no text here, and stays what it is.
  const isFixed = call !== undefined && comparable(call.body) === null;
  const body: CallBody | null = isFixed
    ? call.body
    : text === null && call === undefined
      ? null
      : { kind: 'text', text: text ?? '' };
  const judged = await judge({ bundle, body: body === null ? null : comparable(body), now }, parts);
  const { failure, binding } = judged;
  if (failure !== null) {
    const isComparable = binding === null && text !== null && failure.block !== 'A';
    return { failure, gate: null, binding: isComparable ? bindingOf(invocation, text) : binding };
  }
  const gate =
    call === undefined ? null : await refusalByGate({ ...call, bundle, body: body ?? call.body }, judged);
  if (gate === null) return { failure: findUsedUp(judged, settings), gate: null, binding };
  const member = gate.code === 'TOOL_MISMATCH' ? 'args.tool' : undefined;
  return { failure: null, gate: { ...gate, subject: 'invocation', member }, binding };
}

/** The limit that this call would exceed, by what was pasted of its use. As the store of a service decides. */
function findUsedUp(
  { chain, invocation, tool }: Extract<Judgement, { failure: null }>,
  { used, countedAt }: Settings,
): Failure | null {
  if (![...used.values()].some((usage) => usage[countedAt] !== null)) return null;
  const costMicroUsd = costMicroUsdOf(invocation.claims.args, tool) ?? Number.MAX_SAFE_INTEGER;
  const { limits } = chain;
  const usage = limits.map(({ receipt }) => used.get(receipt)?.[countedAt] ?? { calls: 0, microUsd: 0 });
  const reached = findReached({ limits, costMicroUsd }, usage);
  return reached === null ? null : limitReached(reached);
}

/** What somebody else's note of a refusal shows: the same lights, without a bundle. */
export function ofNote({ code, block, message, suggestion }: NotedRefusal): Inspection {
  const row = CATALOGUE.find((one) => one.code === code);
  const says = message ?? (row === undefined ? 'A gate refused the call' : `In words: ${row.message}`);
  const refusal = { ...{ code, message: says, suggestion }, subject: 'bundle' as const, member: undefined };
  const failure = block === null ? null : { ...refusal, block };
  const lights = lightsFor(failure, { isCall: true, binding: null, settings: null, receipts: [] });
  return {
    subjects: null,
    valid: false,
    isCall: true,
    failure,
    gate: block === null ? refusal : null,
    binding: null,
    lights,
    receipts: [],
    invocation: null,
    took: 0,
  };
}

function partsFor(sodium: Sodium, settings: Settings): JudgeParts {
  const { clockSkewSecs, serverIdentity, trustedRoots, tools, requireBinding } = settings;
  return pureParts({
    ...{ sodium, clockSkewSecs, requireBinding, revocation: viewOf(settings) },
    ...(serverIdentity === '' ? {} : { serverIdentity }),
    ...(trustedRoots.length === 0 ? {} : { trustedRoots: [...trustedRoots] }),
    ...(tools.length === 0 ? {} : { tools: [...tools] }),
  });
}

/** What is revoked, by everything that is set or was pasted. */
export function viewOf({ revoked, entries, list }: Settings): RevocationView {
  return {
    remoteStatusOf: (index): RemoteStatus => {
      if (list === null) return 'not_configured';
      // Bit 0 is the most significant bit of byte 0. W3C Bitstring Status List §3.2
      const byte = list[Math.floor(index / 8)];
      if (byte === undefined) return 'out_of_range';
      return (byte & (0x80 >> (index % 8))) === 0 ? 'not_revoked' : 'revoked';
    },
    // Lists of roots are not known here.
    statusIn: () => 'not_configured',
    isRevokedLocally: (index) => revoked.has(index) || entries?.has(index) === true,
    names: entries?.names ?? null,
    isNameRevoked: (name) => entries?.has(name) === true,
  };
}

function judgeReceipts(jwts: readonly string[], parts: JudgeParts, now: number): Failure | null {
  const receipts = readReceipts(jwts, null);
  if (receipts instanceof Failure) return receipts;
  const signed = { receipts, chain: null, invocation: null };
  const plan = openClaims(signed, parts.keys);
  if (plan instanceof Failure) return plan;
  const verified = parts.signatures.verify(plan.checks);
  return proveClaims(signed, plan, Array.isArray(verified) ? verified : [], now, parts.rules);
}

function partsOf(bundle: JsonValue): [receipts: string[], invocation: string | null] {
  if (!isJsonObject(bundle)) return [[], null];
  const { receipts, invocation } = bundle;
  return [
    Array.isArray(receipts) ? receipts.filter((receipt) => typeof receipt === 'string') : [],
    typeof invocation === 'string' ? invocation : null,
  ];
}

/** How the body compares although the chain is refused: the light of the body shows it anyway. */
function bindingOf(invocation: Token | null, body: string): Binding | null {
  const args = invocation?.claims['args'];
  try {
    return isJsonObject(args) ? bind(args, { kind: 'text', text: body }) : null;
  } catch {
    return null; // It nests too deep, which block A says.
  }
}

interface Seen {
  readonly isCall: boolean;
  readonly binding: Binding | null;
  /** `null` where somebody else judged. */
  readonly settings: Settings | null;
  readonly receipts: readonly Token[];
}

function lightsFor(failure: { readonly block: Block; readonly message: string } | null, seen: Seen): Light[] {
  const failed = failure === null ? BLOCKS.length : BLOCKS.indexOf(failure.block);
  return BLOCKS.flatMap((block, at): Light[] => {
    if (failure !== null && at === failed) return [{ block, state: 'failed', says: failure.message }];
    // Only where it is missing: most calls need none.
    if (block === 'approval') return [];
    if (block === 'replay') return useLight(seen, at > failed);
    if (block === 'binding') return [bindingLight(seen, at > failed)];
    if (at > failed) return [{ block, state: 'not reached', says: 'Not reached' }];
    if (block === 'F') return [revocationLight(seen)];
    return [{ block, state: 'passed', says: PASSED[block] }];
  });
}

/** Only where somebody said what was used: without that, there is nothing to light. */
function useLight({ isCall, settings, receipts }: Seen, isAfter: boolean): Light[] {
  if (!isCall || settings === null || settings.used.size === 0) return [];
  const block = 'replay';
  if (isAfter) return [{ block, state: 'not reached', says: 'Not reached' }];
  const limited = receipts.flatMap((receipt, at) => (isCounted(receipt) ? [at] : []));
  const unknown = limited.filter((at) => !settings.used.has(digestOf(receipts[at]?.jwt ?? '')));
  if (unknown.length === 0) return [{ block, state: 'passed', says: PASSED[block] }];
  const says = `Not known of receipt${unknown.length > 1 ? 's' : ''} ${unknown.join(', ')}`;
  return [{ block, state: 'not checked', says }];
}

/** Whether calls under a receipt are counted. */
export function isCounted({ limits }: Token): boolean {
  return limits.some(({ member: { name } }) => name === 'max_calls' || name === 'max_total_cost_usd');
}

function bindingLight({ isCall, binding }: Seen, isAfter: boolean): Light {
  const block = 'binding';
  if (binding === 'match') return { block, state: 'passed', says: PASSED.binding };
  if (binding !== null)
    return {
      block,
      state: 'failed',
      says:
        binding === 'mismatch' ? 'The body is not what was signed' : 'The body is not JSON with one meaning',
    };
  if (isAfter) return { block, state: 'not reached', says: 'Not reached' };
  return { block, state: 'not checked', says: isCall ? 'No body to compare' : 'No call' };
}

const STATUS_CLAIMS = ['drs_status_list_index', 'status', 'credentialStatus', 'drs_status'];

function revocationLight({ isCall, settings, receipts }: Seen): Light {
  const block = 'F';
  if (!isCall) return { block, state: 'not checked', says: 'Checked when the chain is used' };
  const isRevocable = receipts.some(({ claims }) =>
    STATUS_CLAIMS.some((name) => (claims[name] ?? null) !== null),
  );
  const row = settings?.trustedRoots.find(
    (one) => typeof one === 'object' && one.did === receipts[0]?.claims['iss'],
  );
  const hasLists = typeof row === 'object' && row.status_lists !== undefined;
  const unknown = [
    ...(isRevocable && (hasLists || settings?.list === null) ? ['status list'] : []),
    ...(settings?.entries === null ? ['local revocations'] : []),
  ];
  if (unknown.length === 0) return { block, state: 'passed', says: PASSED.F };
  return { block, state: 'not checked', says: `Not known here: ${unknown.join(', ')}` };
}

/** A subject in words. */
export function describeSubject(subject: Subject): string {
  if (typeof subject === 'number') return `receipt ${subject}`;
  return subject === 'invocation' ? 'the invocation' : 'the bundle';
}
