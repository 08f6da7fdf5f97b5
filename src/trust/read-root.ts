import { APPROVAL_MEMBERS, readApproval, type ApprovalMembers } from '../approval/approvers.js';
import { isJsonObject, type JsonValue } from '../protocol/json.js';
import { DID_FORMS, isDid } from '../protocol/key-resolver.js';
import type { Reading } from '../protocol/options.js';
import { KNOWN_POLICY_MEMBERS, isKnownMember, readPolicy, type Policy } from '../protocol/policy.js';
import type { ReadPolicy } from '../verify/attenuation.js';
import { show } from '../verify/codes.js';
import { plainRoot, type Root } from '../verify/parts.js';
import { readStatusLists, type NamedList } from './read-status-lists.js';
import { readWeb, WEB_MEMBERS, type WebMembers } from './read-web.js';

/** What an operator says of a root principal, as it is in a file. See docs/spec/trust.md for each member. */
export interface TrustedRoot extends ApprovalMembers, WebMembers {
  /** The `did:key` of an Ed25519 key, or a `did:web`. */
  readonly did: string;
  /** What people and tools call the principal, 1 to 200 characters. */
  readonly name?: string;
  /** The first and the last moment in which it is trusted: a day (`2026-11-01`, in UTC), or a time (RFC 3339). */
  readonly not_before?: string;
  readonly not_after?: string;
  /** What it may delegate at most. */
  readonly policy?: Policy;
  /** Lists in which the receipts under it can be revoked. */
  readonly status_lists?: readonly NamedList[];
  /** Up to 16 texts that tools get with the name. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** What is wrong with a value, and where it is in its document. */
export interface LineDefect {
  readonly path: readonly (string | number)[];
  /** What was found, and what was expected. */
  readonly message: string;
}

/** A line that was read: its name, and what is said of it; or all that is wrong with it. */
export type ReadLine<T> = { readonly key: string; readonly value: T } | readonly LineDefect[];

// The date, its day, and the time.
const FORM = /^(\d{4}-\d\d-(\d\d))(T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))?$/;

/** The accepted forms of a time, for messages. */
const TIME_FORMS = 'a day such as "2026-11-01", or a time such as "2026-11-01T08:00:00Z" (RFC 3339)';

const OF_ROOT = ['did', 'name', 'not_before', 'not_after', 'policy', 'labels', 'status_lists'] as const;
const MEMBERS = [...OF_ROOT, ...APPROVAL_MEMBERS, ...WEB_MEMBERS];
// Members beyond these are not looked at: no valid entry has so many.
const MAX_MEMBERS = 20;
const MAX_TEXT = 200;
const MAX_LABELS = 16;
const LABEL = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;
// Line breaks and changes of the writing direction could make a name look like another one.
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
const TEXT = `a text of 1 to ${MAX_TEXT} characters without control characters, and without white space at either end`;

/**
 * Reads an entry.
 *
 * @param value a JSON value
 * @param path where the entry is in its document
 * @returns the entry, or all that is wrong with it
 */
export function readRoot(value: JsonValue, path: LineDefect['path'] = []): ReadLine<Root> {
  if (!isJsonObject(value)) return [defectOf(value, 'an object with a did', path)];
  const defects: LineDefect[] = [];
  const wrong = (expected: string, ...at: readonly string[]) => {
    const found = at.reduce<unknown>((found, name) => own(found, name), value);
    defects.push(defectOf(found, expected, [...path, ...at]));
    return null;
  };
  for (const member of Object.keys(value).slice(0, MAX_MEMBERS)) {
    if (!MEMBERS.some((known) => known === member)) defects.push(unknownMember([...path, member], MEMBERS));
    // What is given from a program may be a variable that is not set, which must not open anything.
    else if ((value[member] as unknown) === undefined) wrong('a value, or no such member', member);
  }
  const [did, name, policy, labels, listed] = (
    ['did', 'name', 'policy', 'labels', 'status_lists'] as const
  ).map((member) => own(value, member) as JsonValue | undefined);
  if (typeof did !== 'string' || !isDid(did)) wrong(DID_FORMS, 'did');
  if (name !== undefined && !isText(name)) wrong(TEXT, 'name');
  const timeOf = (member: 'not_before' | 'not_after', edge: 'start' | 'end') => {
    const text = own(value, member);
    if (text === undefined) return null;
    return (typeof text === 'string' ? readTime(text, edge) : null) ?? wrong(TIME_FORMS, member);
  };
  const [from, until] = [timeOf('not_before', 'start'), timeOf('not_after', 'end')];
  if (from !== null && until !== null && until < from)
    wrong(`a time that is not before not_before (${show(value['not_before'])})`, 'not_after');
  if (labels !== undefined) readLabels(labels, wrong);
  const limits = policy === undefined ? null : readLimits(policy, [...path, 'policy']);
  if (limits !== null && 'message' in limits) defects.push(limits);
  const note = (found: unknown, expected: string, ...at: (string | number)[]) =>
    void defects.push(defectOf(found, expected, [...path, ...at]));
  const approval = readApproval(value, isText, note);
  const web = readWeb(value, wrong);
  const { addresses } = web;
  const row = { did: did as string, name: (name as string | undefined) ?? null, addresses };
  const lists = readStatusLists(listed, row, note);
  if (defects.length > 0) return defects;
  return {
    key: row.did,
    value: {
      ...plainRoot(),
      name: row.name,
      labels: labels === undefined ? null : { ...(labels as Record<string, string>) },
      from,
      until,
      policy: limits as ReadPolicy | null,
      approval,
      lists,
      ...web,
    },
  };
}

function readLabels(labels: JsonValue, wrong: (expected: string, ...at: readonly string[]) => void): void {
  const names = isJsonObject(labels) ? Object.keys(labels) : null;
  if (names === null || names.length > MAX_LABELS) {
    wrong(`an object of at most ${MAX_LABELS} texts`, 'labels');
    return;
  }
  for (const name of names) {
    const expected = LABEL.test(name)
      ? TEXT
      : 'a name of 1 to 64 letters, digits, "_", "." and "-", of which the first is a letter';
    if (!LABEL.test(name) || !isText(own(labels, name))) wrong(expected, 'labels', name);
  }
}

/** The limits of a policy. A name that is not evaluated would limit nothing, and a misspelt one is one of these. */
function readLimits(policy: JsonValue, path: LineDefect['path']): ReadPolicy | LineDefect {
  if (!isJsonObject(policy)) return defectOf(policy, 'an object', path);
  const unset = Object.keys(policy).find((member) => (policy[member] as unknown) === undefined);
  if (unset !== undefined)
    return { path: [...path, unset], message: 'it is undefined, expected a value, or no such member' };
  const other = Object.keys(policy).find((member) => !isKnownMember(member));
  if (other !== undefined) return unknownMember([...path, other], KNOWN_POLICY_MEMBERS);
  const { limits, defect } = readPolicy(policy);
  if (defect === undefined) return { limits, hasOtherMembers: false, policy };
  return defectOf(defect.found, defect.expected, [...path, defect.name]);
}

export function defectOf(found: unknown, expected: string, path: LineDefect['path']): LineDefect {
  return { path, message: `it is ${show(found)}, expected ${expected}` };
}

export function unknownMember(path: LineDefect['path'], known: readonly string[]): LineDefect {
  return { path, message: `there is no such member, expected one of ${known.join(', ')}` };
}

function isText(value: unknown): boolean {
  return (
    typeof value === 'string' &&
    value !== '' &&
    value.length <= MAX_TEXT &&
    value.isWellFormed() &&
    value.trim() === value &&
    !CONTROLS.test(value)
  );
}

function own(value: unknown, member: string): unknown {
  return isJsonObject(value) && Object.hasOwn(value, member) ? value[member] : undefined;
}

/** A defect in a sentence, without its line. */
export function sentence({ path, message }: LineDefect): string {
  const place = path.map((one, at) => (typeof one === 'number' ? `[${one}]` : at === 0 ? one : `.${one}`));
  return place.length === 0 ? message : `${place.join('')}: ${message}`;
}

/**
 * Reads what a program names, whatever it gives: what is no line is a defect.
 *
 * @param key the member that names a line
 * @returns what is said, by the name; or all that is wrong
 */
export function readGiven<T>(
  given: readonly unknown[],
  key: string,
  read: (one: JsonValue, path: LineDefect['path']) => ReadLine<T>,
  ifTwice: string,
): Reading<ReadonlyMap<string, T>> {
  const found = new Map<string, T>();
  const problems: string[] = [];
  for (const [at, one] of given.entries()) {
    const line = read(one as JsonValue, [at]);
    if (!('key' in line)) problems.push(...line.map(sentence));
    else if (!found.has(line.key)) found.set(line.key, line.value);
    // A name alone says nothing more.
    else if (typeof one !== 'string') problems.push(`[${at}].${key}: ${ifTwice}`);
  }
  return problems.length > 0 ? { problem: problems.join('; ') } : { value: found };
}

/**
 * Reads a day, or a time with whole seconds. A day is its first second, or its last, in UTC.
 *
 * @returns Unix seconds, or `null` if it is no such text or no such day, or one before 1970
 * @see docs/spec/trust.md, "Files"
 * @example readTime('2026-11-01', 'end'); // 1793577599
 */
export function readTime(text: string, edge: 'start' | 'end'): number | null {
  const [, date = '', day, time] = FORM.exec(text) ?? [];
  const start = Date.parse(date) / 1000;
  // For a day that its month does not have, engines give no date, or one in the next month.
  if (!(start >= 0) || new Date(date).getUTCDate() !== Number(day)) return null;
  if (time !== undefined) return Date.parse(text) / 1000;
  return edge === 'start' ? start : start + 86_399;
}
