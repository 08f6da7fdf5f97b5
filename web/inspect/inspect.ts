import type { Sodium } from '../../src/pure/options.js';
import { pureParts } from '../../src/pure/parts.js';
import { isJsonObject, type JsonValue } from '../../src/protocol/json.js';
import { bindText, type Binding } from '../../src/verify/binding.js';
import { Failure, type Block, type Subject } from '../../src/verify/codes.js';
import { CATALOGUE } from '../../src/verify/later-codes.js';
import { judge, openReceipts, proveReceipts, type JudgeParts } from '../../src/verify/judge.js';
import type { RemoteStatus, RevocationView } from '../../src/verify/revocation-view.js';
import { readToken, type Token } from './decode.js';
import type { NotedRefusal } from './recognise.js';

/** What is inspected. */
export interface Subjects {
  /** A bundle, or receipts without a call; any JSON value. */
  readonly bundle: JsonValue;
  /** JSON text of the body of the call; `null` if there is none. */
  readonly body: string | null;
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
  readonly trustedRoots: readonly string[];
  readonly requireBinding: boolean;
  readonly revoked: ReadonlySet<number>;
  readonly list: StatusBits | null;
}

/** One of the lights, in the order in which blocks check. */
export interface Light {
  readonly block: LitBlock;
  readonly state: 'passed' | 'failed' | 'not reached' | 'not checked';
  readonly says: string;
}

export type LitBlock = Exclude<Block, 'replay'>;

/** What was found. */
export interface Inspection {
  readonly valid: boolean;
  /** Whether there is an invocation to judge; without one, receipts alone were judged. */
  readonly isCall: boolean;
  readonly failure: Pick<Failure, 'code' | 'block' | 'message' | 'suggestion' | 'subject' | 'member'> | null;
  readonly binding: Binding | null;
  readonly lights: readonly Light[];
  readonly receipts: readonly Token[];
  readonly invocation: Token | null;
  /** Milliseconds. */
  readonly took: number;
}

/** The blocks in the order of the catalogue, without those that need a record of calls. */
const BLOCKS: readonly LitBlock[] = [...new Set(CATALOGUE.map(({ block }) => block))].filter(
  (block) => block !== 'replay',
);

const NAMES: Readonly<Record<LitBlock, string>> = {
  A: 'Structure',
  B: 'Linkage',
  C: 'Signatures',
  D: 'Policy',
  E: 'Time',
  F: 'Revocation',
  binding: 'Body',
};

/** What a block is called, for a person. */
export function nameOf(block: Block): string {
  return block === 'replay' ? 'Replay' : NAMES[block];
}

const PASSED: Readonly<Record<LitBlock, string>> = {
  A: 'Every receipt has the form of its place',
  B: 'Each receipt names the one before it',
  C: 'Every signature verifies',
  D: 'Nobody allows more than they were given',
  E: 'Every window is open at this time',
  F: 'Nothing is revoked',
  binding: 'The body is what was signed',
};

/** The most JWTs that a picture shows: a verifier takes at most 16 receipts unless it is told otherwise. */
const MAX_SHOWN = 64;

/** Judges, with the code that a service judges with. Bad input never throws. */
export async function inspect(sodium: Sodium, given: Subjects, settings: Settings): Promise<Inspection> {
  const start = performance.now();
  const parts = partsFor(sodium, settings);
  const { bundle, body } = given;
  const [jwts, invocation] = partsOf(bundle);
  const receipts = jwts.slice(0, MAX_SHOWN).map(readToken);
  const seen = { receipts, invocation: invocation === null ? null : readToken(invocation) };
  const isCall = !(isJsonObject(bundle) && Object.keys(bundle).join() === 'receipts');
  let failure: Failure | null;
  let binding: Binding | null = null;
  if (isCall) {
    const judged = await judge(
      { bundle, body: body === null ? null : { kind: 'text', text: body }, now: settings.now },
      parts,
    );
    ({ failure, binding } = judged);
    if (judged.chain === null && body !== null && failure?.block !== 'A')
      binding ??= bindingOf(seen.invocation, body);
  } else failure = judgeReceipts(jwts, parts, settings.now);
  const lights = lightsFor(failure, { isCall, binding, knowsList: settings.list !== null, receipts });
  return {
    ...{ valid: failure === null, isCall, failure, binding, lights, ...seen },
    took: performance.now() - start,
  };
}

/** What somebody else's note of a refusal shows: the same lights, without a bundle. */
export function ofNote({ code, block, message, suggestion }: NotedRefusal): Inspection {
  const row = CATALOGUE.find((one) => one.code === code);
  const says = message ?? (row === undefined ? 'A gate refused the call' : `In words: ${row.message}`);
  const failure = {
    ...{ code: code as Failure['code'], block: block ?? 'replay', message: says, suggestion },
    subject: 'bundle' as const,
    member: undefined,
  };
  const lights = lightsFor(failure, { isCall: true, binding: null, knowsList: true, receipts: [] });
  return {
    valid: false,
    isCall: true,
    failure,
    binding: null,
    lights,
    receipts: [],
    invocation: null,
    took: 0,
  };
}

function partsFor(sodium: Sodium, settings: Settings): JudgeParts {
  const { clockSkewSecs, serverIdentity, trustedRoots, requireBinding } = settings;
  return pureParts({
    ...{ sodium, clockSkewSecs, requireBinding, revocation: viewOf(settings) },
    ...(serverIdentity === '' ? {} : { serverIdentity }),
    ...(trustedRoots.length === 0 ? {} : { trustedRoots: [...trustedRoots] }),
  });
}

function viewOf({ revoked, list }: Settings): RevocationView {
  return {
    remoteStatusOf: (index): RemoteStatus => {
      if (list === null) return 'not_configured';
      // Bit 0 is the most significant bit of byte 0. W3C Bitstring Status List §3.2
      const byte = list[Math.floor(index / 8)];
      if (byte === undefined) return 'out_of_range';
      return (byte & (0x80 >> (index % 8))) === 0 ? 'not_revoked' : 'revoked';
    },
    isRevokedLocally: (index) => revoked.has(index),
    names: null,
    isNameRevoked: () => false,
  };
}

function judgeReceipts(jwts: readonly string[], parts: JudgeParts, now: number): Failure | null {
  const opened = openReceipts(jwts, parts);
  if (opened instanceof Failure) return opened;
  const verified = parts.signatures.verify(opened.plan.checks);
  return proveReceipts(opened, Array.isArray(verified) ? verified : [], now, parts);
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
    return isJsonObject(args) ? bindText(args, body) : null;
  } catch {
    return null; // It nests too deep, which block A says.
  }
}

interface Seen {
  readonly isCall: boolean;
  readonly binding: Binding | null;
  readonly knowsList: boolean;
  readonly receipts: readonly Token[];
}

function lightsFor(failure: { readonly block: Block; readonly message: string } | null, seen: Seen): Light[] {
  const failed = failure === null ? BLOCKS.length : BLOCKS.indexOf(failure.block as LitBlock);
  const end = failed === -1 ? BLOCKS.length : failed;
  return BLOCKS.map((block, at): Light => {
    if (failure !== null && at === failed) return { block, state: 'failed', says: failure.message };
    if (block === 'binding') return bindingLight(seen, at > end);
    if (at > end) return { block, state: 'not reached', says: 'Not reached' };
    if (block === 'F') return revocationLight(seen);
    return { block, state: 'passed', says: PASSED[block] };
  });
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

function revocationLight({ isCall, knowsList, receipts }: Seen): Light {
  const block = 'F';
  if (!isCall) return { block, state: 'not checked', says: 'Checked when the chain is used' };
  const isRevocable = receipts.some(({ claims }) => (claims['drs_status_list_index'] ?? null) !== null);
  if (!isRevocable) return { block, state: 'passed', says: 'No receipt can be revoked by its index' };
  if (knowsList) return { block, state: 'passed', says: PASSED.F };
  return { block, state: 'not checked', says: 'Not revoked here; only a service sees its status list' };
}

/** A subject in words. */
export function describeSubject(subject: Subject): string {
  if (typeof subject === 'number') return `receipt ${subject}`;
  return subject === 'invocation' ? 'the invocation' : 'the bundle';
}
