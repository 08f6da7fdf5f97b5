// What only a service knows, as somebody pastes it: what has been used of limits, what is revoked locally, whom it trusts.
import { parseStrictJson, isJsonObject, type JsonValue } from '../../src/protocol/json.js';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { Entries } from '../../src/revocation/entries.js';
import { readEntry } from '../../src/revocation/entry.js';
import { readGivenRoots } from '../../src/trust/given-roots.js';
import type { TrustedRoot } from '../../src/trust/read-root.js';
import { readGivenTools, toolsOf, type ToolLine } from '../../src/trust/read-tool.js';
import type { Usage } from '../../src/usage/usage-store.js';
import type { Tools } from '../../src/verify/tools.js';
import { parseOrUndefined, short } from './decode.js';

/** Where a service counts: each place for itself. */
export type Place = 'verify' | 'gate';

/** What has been used under one receipt, by place; `null` where nobody counts. */
export type Used = Readonly<Record<Place, Usage | null>>;

/** What has been used, by the digest of the receipt. */
export type UsedByReceipt = ReadonlyMap<string, Used>;

/** What is wrong with a text that is of a known kind. */
interface Faulty {
  readonly problem: string;
}

const DIGEST = /^sha256:[\da-f]{64}$/;

/** Reads answers of `GET /admin/usage`, each in a line, or what `drs-verify usage` prints; `null` if it is neither. */
export function readUsage(text: string, lines: readonly string[]): UsedByReceipt | null {
  const used = new Map<string, Used>();
  const whole = parseOrUndefined(text);
  for (const value of whole === undefined ? lines.map(parseOrUndefined) : [whole]) {
    const receipt = isJsonObject(value) ? value['receipt'] : undefined;
    if (!isJsonObject(value) || typeof receipt !== 'string' || !DIGEST.test(receipt)) break;
    const [verify, gate] = [usageOf(value['verify']), usageOf(value['gate'])];
    if (verify === undefined || gate === undefined) break;
    used.set(receipt, { verify, gate });
  }
  if (used.size === 0)
    for (let at = 0; at + 2 < lines.length && DIGEST.test(lines[at] ?? ''); at += 3)
      used.set(lines[at] ?? '', { verify: printed(lines[at + 1]), gate: printed(lines[at + 2]) });
  return used.size === 0 ? null : used;
}

function usageOf(value: JsonValue | undefined): Usage | null | undefined {
  if (value === null) return null;
  if (!isJsonObject(value)) return undefined;
  const { calls, total_cost_usd: cost } = value;
  return typeof calls === 'number' && typeof cost === 'number' ? inMicroUsd(calls, cost) : undefined;
}

function printed(line = ''): Usage | null {
  const [, calls, cost] = /: (\d+) calls, ([\d.]+) US dollars/.exec(line) ?? [];
  return calls === undefined ? null : inMicroUsd(Number(calls), Number(cost));
}

/** A whole number of micro-dollars was divided by 10^6. */
const inMicroUsd = (calls: number, usd: number): Usage => ({ calls, microUsd: Math.round(usd * 1e6) });

/** Reads what `drs-verify revocations list` prints, and the file of a service; `null` if it is none of them. */
export function readRevocations(text: string): Entries | Faulty | null {
  const entries = new Entries();
  // One bare number may be anything.
  if (/^\d*$/.test(text)) return null;
  let at = 0;
  for (const line of text.split('\n')) {
    at++;
    if (line.trim() === '') continue;
    const entry = readEntry(line);
    if (typeof entry !== 'string') entries.add(entry);
    else if (entries.size === 0) return null;
    else return { problem: `Local revocations, but line ${at} is none: ${short(line.trim())}` };
  }
  return entries.size === 0 ? null : entries;
}

/** Whom a service trusts. */
export interface GivenRoots {
  /** Empty for anybody. */
  readonly roots: readonly (string | TrustedRoot)[];
  /** What of the text cannot be used. */
  readonly problem: string | null;
}

/** Reads DIDs, or the text of a file as `TRUSTED_ROOTS_FILE` names it. */
export function readRoots(text: string): GivenRoots {
  if (text.trimStart().startsWith('{')) return readRootLines(text);
  const given = text.split(/[\s,]+/).filter((did) => did !== '');
  const isDid = (did: string) => DEFAULT_KEYS.publicKeyOf(did) !== null;
  const odd = given.filter((did) => !isDid(did));
  return {
    roots: given.filter(isDid),
    problem:
      odd.length === 0
        ? null
        : `Not a did:key of an Ed25519 key, left out: ${odd.slice(0, 8).map(short).join(', ')}`,
  };
}

/** Whether lines are of a file of trusted roots: a local revocation of a key says when it was made. */
export function areRootLines(lines: readonly string[]): boolean {
  return lines.map(parseOrUndefined).every((value) => {
    const names = isJsonObject(value) ? Object.keys(value) : [];
    return names.includes('did') && !['at', 'reason', 'exp'].some((name) => names.includes(name));
  });
}

function readRootLines(text: string): GivenRoots {
  const refused = (problem: string): GivenRoots => ({ roots: [], problem });
  const list = readLines(text);
  if (typeof list === 'string') return refused(list);
  const roots = list as unknown as TrustedRoot[];
  const read = readGivenRoots(roots);
  return 'problem' in read ? refused(`Entry ${read.problem.slice(0, 300)}`) : { roots, problem: null };
}

/** The values of JSON lines, or what is wrong with the first that is none. */
function readLines(text: string): JsonValue[] | string {
  const list: JsonValue[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const { value, defect } = parseStrictJson(line);
    if (defect !== undefined) return `Line ${at + 1} is not strict JSON: ${defect.message}`;
    list.push(value);
  }
  return list;
}

/** What an operator says of tools. */
export interface GivenTools {
  readonly lines: readonly ToolLine[];
  /** `null` if nothing is said. */
  readonly tools: Tools | null;
  /** Why nothing of the text is used. */
  readonly problem: string | null;
}

/** Reads the text of a file as `TOOLS_FILE` names it. */
export function readTools(text: string): GivenTools {
  const list = readLines(text);
  const read = typeof list === 'string' ? { problem: list } : readGivenTools(list as unknown as ToolLine[]);
  if ('problem' in read) return { lines: [], tools: null, problem: `${read.problem.slice(0, 300)}.` };
  const isEmpty = read.value.size === 0;
  return { lines: list as unknown as ToolLine[], tools: isEmpty ? null : toolsOf(read.value), problem: null };
}

/** What the operator calls a principal; `null` if nobody says. */
export function nameOfRoot(did: string | null, roots: GivenRoots['roots']): string | null {
  const found = roots.find((root) => typeof root !== 'string' && root.did === did);
  return typeof found === 'object' ? (found.name ?? null) : null;
}
