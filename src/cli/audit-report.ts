import type { Explained } from '../gate/codes.js';
import { equalsByJcs, isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { isCount } from '../protocol/policy.js';
import type { NameOf } from './agreement.js';
import { aligned, bold, dim, green, printable, red, showFailure, showJson, showTime } from './terminal.js';

/** What a sealed line of a log says. */
interface Said {
  readonly origin: string;
  readonly seq: number;
  /** Of the checkpoint. */
  readonly size: number;
  /** Unix seconds. */
  readonly at: number;
  /** Why it was refused; `null` if it was not. */
  readonly code: string | null;
  /** Whether a verifier says the same for that time; `null` where only the gate could know. */
  readonly agrees: boolean | null;
  /** Whether the roots that were given were in force; `null` if that is not known. */
  readonly hasTheseRoots: boolean | null;
}

/** What a bundle says; a token that cannot be read is `malformed`. */
export interface Report {
  readonly verdict: { readonly valid: boolean; readonly error?: Explained };
  readonly bundle_version?: JsonValue;
  readonly receipts: readonly Token[];
  /** Absent if only a chain was given. */
  readonly invocation?: Token;
  /** What the operator says of its tool, in words. */
  readonly tool?: readonly string[];
  /** Whether a line of a log proves a person's yes to the call; absent if none was given. */
  readonly approval?:
    | { readonly valid: true; readonly by: string; readonly requested_at: number; readonly needed: number }
    | { readonly valid: false; readonly problem: string };
  readonly log?: Said;
}

export interface Token {
  /** Of the JWT text; `null` if there is none. */
  readonly digest: string | null;
  readonly malformed?: string;
  readonly claims?: JsonObject;
}

/** The report as text for people. Values from the bundle are escaped, so that they cannot control the terminal. */
export function showReport(
  { verdict, receipts, invocation, tool = [], bundle_version: version, approval, log }: Report,
  nameOf: NameOf,
): string {
  const count = `${receipts.length} receipt${receipts.length === 1 ? '' : 's'}`;
  const bundle = version === undefined ? '' : `bundle ${showValue(version)}, `;
  const judged = verdict.error
    ? `${bold(red('invalid'))}  ${showFailure(verdict.error)}`
    : `${bold(green('valid'))} ${log === undefined ? 'now' : 'then'}, as far as can be told here\n`;
  const unknown = 'trust, revocation and earlier use are for `npx drs-verify verify`';
  const parts = receipts.map((receipt, at) =>
    showToken(`receipt ${at}${at === 0 ? ' (root)' : ''}`, receipt, nameOf, receipts[at - 1]),
  );
  if (invocation) parts.push(showToken('invocation', invocation, nameOf));
  if (tool.length > 0)
    parts.push(`\n${bold('by the operator')}\n${aligned(tool.map((says) => ['the tool', printable(says)]))}`);
  const head = `${bundle}${count}${invocation ? ' and an invocation' : ', no invocation'}\n`;
  const said = approval === undefined ? '' : showApproval(approval);
  return `${head}${log === undefined ? '' : showSaid(log)}${judged}  ${dim(unknown)}\n${said}${parts.join('')}`;
}

function showSaid({ origin, seq, size, at, code, agrees, hasTheseRoots }: Said): string {
  const said = code === null ? 'allowed' : `refused, ${printable(code)}`;
  const judged = {
    true: green('what is below says the same'),
    false: red('what is below says something else'),
    null: 'why is for the gate to know',
  }[`${agrees}`];
  const roots = {
    true: 'these roots were in force',
    false: red('other roots were in force'),
    null: 'the roots are not compared',
  };
  return `${bold(green('sealed'))}  line ${seq} of ${printable(origin)}, by its checkpoint of ${size} lines\n  ${said} at ${showTime(at)}: ${judged}; ${roots[`${hasTheseRoots}`]}\n`;
}

function showApproval(approval: Exclude<Report['approval'], undefined>): string {
  if (!approval.valid)
    return `${bold(red('not approved'))}  by what was given\n  ${printable(approval.problem)}\n`;
  const { by, requested_at: at, needed } = approval;
  const more = needed === 1 ? '' : `; ${needed} persons are needed`;
  return `${bold(green('approved'))}  by the passkey of ${printable(by)}: exactly this call, asked about at ${showTime(at)}${more}\n`;
}

type Row = readonly [label: string, value: string];

/** The order in which claims are shown: these, those that nobody knows, and the rest. */
const FIRST = ['iss', 'aud', 'sub', 'cmd', 'tool_server'];
const LAST = ['prev_dr_hash', 'dr_chain', 'drs_consent', 'policy', 'args'];
/** Shown in other rows, or the same in every token. */
const APART = ['jti', 'nbf', 'exp', 'iat', 'drs_type', 'drs_v'];

function showToken(
  title: string,
  { claims = {}, malformed, digest }: Token,
  nameOf: NameOf,
  above?: Token,
): string {
  const { jti = '', nbf, exp = null, iat, policy } = claims;
  const known = [...FIRST, ...LAST, ...APART];
  const first = [...FIRST, ...Object.keys(claims).filter((name) => !known.includes(name))];
  const rowsOf = (name: string) =>
    name === 'policy' ? showPolicy(policy, above?.claims?.['policy']) : showClaim(name, claims[name], nameOf);
  const rows: readonly Row[] = [
    ...(malformed === undefined ? [] : [['malformed', red(printable(malformed))] as const]),
    ...first.flatMap(rowsOf),
    ...(nbf === undefined
      ? []
      : [['window', `${showMoment(nbf)} to ${exp === null ? 'no end' : showMoment(exp)}`] as const]),
    ...(iat === undefined ? [] : [['iat', showMoment(iat)] as const]),
    ['hash', showValue(digest)],
    ...LAST.flatMap(rowsOf),
  ];
  return `\n${`${bold(title)}  ${showValue(jti)}`.trimEnd()}\n${aligned(rows)}`;
}

/** One row for each member of an object or item of a list of hashes, else one for the value; none for what is not there. */
function showClaim(name: string, value: JsonValue | undefined, nameOf: NameOf = () => null): Row[] {
  if (value === undefined || (value === null && name === 'prev_dr_hash')) return [];
  if (name === 'dr_chain' && Array.isArray(value)) return value.map((hash) => [name, showValue(hash)]);
  if (isJsonObject(value) && Object.keys(value).length > 0)
    return Object.entries(value).map(([member, item]) => [
      `${clip(printable(name))}.${clip(printable(member))}`,
      showValue(item, true),
    ]);
  const party = typeof value === 'string' ? nameOf(value) : null;
  return [
    [clip(printable(name)), party === null ? showValue(value) : `${showValue(value)} (${printable(party)})`],
  ];
}

/** The members of a policy, with what the receipt above has in their place. */
function showPolicy(policy: JsonValue | undefined, above: JsonValue | undefined): Row[] {
  if (!isJsonObject(policy) || !isJsonObject(above)) return showClaim('policy', policy);
  const [own, before] = [new Map(Object.entries(policy)), new Map(Object.entries(above))];
  const members = [...new Set([...own.keys(), ...before.keys()])];
  if (members.length === 0) return showClaim('policy', policy);
  return members.map((member) => {
    const [to, from] = [own.get(member), before.get(member)];
    const isSame = from !== undefined && to !== undefined && equalsByJcs(from, to);
    const was = from === undefined ? 'new' : isSame ? 'unchanged' : `was ${showValue(from, true)}`;
    const value = to === undefined ? '(none)' : showValue(to, true);
    return [`policy.${clip(printable(member))}`, `${value}  ${dim(was)}`];
  });
}

function showMoment(value: JsonValue): string {
  return isCount(value) ? showTime(value) : showValue(value);
}

const MAX_VALUE_LENGTH = 300;

/** A value on one line, shortened. `quoted` writes strings as JSON, so that `"1"` and `1` differ. Of a digest, 12 digits. */
function showValue(value: JsonValue, quoted = false): string {
  const isText = typeof value === 'string';
  if (isText && /^sha256:[0-9a-f]{64}$/.test(value)) return `${value.slice(0, 19)}…`;
  return clip(isText && !quoted ? printable(value) : showJson(value));
}

function clip(text: string): string {
  return text.length > MAX_VALUE_LENGTH
    ? `${text.slice(0, MAX_VALUE_LENGTH)}… (${text.length} characters)`
    : text;
}
