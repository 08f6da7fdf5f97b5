import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject, parseStrictJson, type JsonValue } from '../protocol/json.js';
import { show } from '../verify/codes.js';
import type { Root } from '../verify/root.js';
import { findLines, lineAt, lineOfSyntaxError } from './lines.js';
import { isRead, readRoot, sentence, unknownMember, type Fault } from './read-root.js';

/** Maximum number of entries in all files together. */
const MAX_ROOTS = 200_000;
// More than an entry can have: the size of the files is the limit.
const MAX_NODES = Number.MAX_SAFE_INTEGER;
// A thousand take some 5 ms; requests are served in between.
const SLICE = 500;
const MAX_FAULTS = 20;

/** A fault of a file, with its line. */
export interface FaultOfFile {
  readonly file: string;
  /** Counted from 1; `null` if it is about the file as a whole. */
  readonly line: number | null;
  readonly message: string;
}

/** The roots of one or more files, or all that is wrong with them. */
export type ReadRoots =
  | { readonly roots: ReadonlyMap<string, Root>; readonly faults?: never }
  | { readonly faults: readonly FaultOfFile[]; readonly roots?: never };

/** A file and its text. */
export interface TextOfFile {
  readonly file: string;
  readonly text: string;
}

/**
 * Reads the roots of files that count together.
 *
 * @param before the roots that were read before: their DIDs need not be resolved again
 * @param limit the maximum number of entries
 */
export async function readRoots(
  texts: readonly TextOfFile[],
  before: ReadonlyMap<string, Root> = new Map(),
  limit = MAX_ROOTS,
): Promise<ReadRoots> {
  const roots = new Map<string, Root>();
  const faults: FaultOfFile[] = [];
  // The file of each DID is only needed if there are several.
  const fileOf = new Map<string, string>();
  for (const { file, text } of texts) {
    const found: Fault[] = [];
    const entries = parse(text);
    if ('defect' in entries) {
      faults.push({ file, ...entries.defect });
      continue;
    }
    found.push(...entries.faults);
    for (let at = 0; at < entries.list.length && found.length <= MAX_FAULTS; at++) {
      if (at % SLICE === SLICE - 1) await nextTurn();
      const path = ['roots', at];
      const read = readRoot(entries.list[at] as JsonValue, path, (did) => before.has(did));
      if (!isRead(read)) found.push(...read);
      else if (!roots.has(read.did)) {
        roots.set(read.did, read.root);
        if (texts.length > 1) fileOf.set(read.did, file);
      } else {
        const other = fileOf.get(read.did) ?? file;
        const where = other === file ? 'in another entry of this file' : `in ${other}`;
        const message = `${show(read.did)} is ${where}, too; expected it once: remove one of them`;
        found.push({ path: [...path, 'did'], message });
      }
    }
    if (roots.size > limit)
      found.push({ path: ['roots'], message: `there are more than ${limit} entries in all files` });
    faults.push(...locate(file, text, found));
    if (faults.length > MAX_FAULTS || roots.size > limit) break;
  }
  return faults.length > 0 ? { faults } : { roots };
}

type Parsed =
  | { readonly list: readonly JsonValue[]; readonly faults: readonly Fault[] }
  | { readonly defect: { readonly line: number | null; readonly message: string } };

/** The entries of a file, unread. */
function parse(text: string): Parsed {
  const { value, defect } = parseStrictJson(text, MAX_NODES);
  if (defect !== undefined) {
    const { kind, message, at } = defect;
    const line = kind === 'syntax' ? lineOfSyntaxError(text) : at === undefined ? null : lineAt(text, at);
    return { defect: { line, message: kind === 'syntax' ? `it is not JSON: ${message}` : message } };
  }
  const expected = 'expected { "roots": [ { "did": "did:key:…", "name": "…" } ] }';
  if (!isJsonObject(value)) return { defect: { line: 1, message: `it is ${show(value)}, ${expected}` } };
  const faults = Object.keys(value)
    .filter((name) => name !== 'roots' && name !== '$schema')
    .slice(0, MAX_FAULTS)
    .map((name) => unknownMember([name], ['roots', '$schema']));
  const list = Object.hasOwn(value, 'roots') ? value['roots'] : undefined;
  if (Array.isArray(list)) return { list, faults };
  const fault = { path: ['roots'], message: `it is ${show(list)}, ${expected}` };
  return { list: [], faults: [...faults, fault] };
}

function locate(file: string, text: string, faults: readonly Fault[]): FaultOfFile[] {
  if (faults.length === 0) return [];
  const lines = findLines(
    text,
    faults.map(({ path }) => path),
  );
  return faults.map((fault, at) => ({ file, line: lines[at] ?? null, message: sentence(fault) }));
}

/**
 * Faults as lines for people, `file:line: what is wrong`; of many, the first.
 *
 * @example showFaults(faults)[0]; // '/etc/drs/roots.json:7: roots[1].not_after: it is "soon", expected a day …'
 */
export function showFaults(faults: readonly FaultOfFile[]): string[] {
  const shown = faults
    .slice(0, MAX_FAULTS)
    .map(({ file, line, message }) => `${file}${line === null ? '' : `:${line}`}: ${message}`);
  return faults.length > MAX_FAULTS ? [...shown, 'and more'] : shown;
}
