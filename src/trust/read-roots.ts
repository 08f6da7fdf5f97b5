import { setImmediate as nextTurn } from 'node:timers/promises';
import { decodeUtf8 } from '#platform';
import { isJsonObject, parseStrictJson, type JsonValue } from '../protocol/json.js';
import { show } from '../verify/codes.js';
import type { Root } from '../verify/parts.js';
import { findLines, lineAt, lineOfSyntaxError } from './lines.js';
import { MAX_ENTRY_BYTES, partsOf, type Part } from './parts.js';
import { isRead, readRoot, sentence, unknownMember, type Fault } from './read-root.js';

/** Maximum number of entries in all files together. */
const MAX_ROOTS = 200_000;
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

/** A file and what is in it. */
export interface BytesOfFile {
  readonly file: string;
  readonly bytes: Buffer;
}

/**
 * Reads the roots of files that count together. Others have their turn between any two parts of a file, so that requests
 * are served meanwhile.
 *
 * @param before the roots that were read before: their DIDs need not be resolved again
 * @param limit the maximum number of entries
 */
export async function readRoots(
  files: readonly BytesOfFile[],
  before: ReadonlyMap<string, Root> = new Map(),
  limit = MAX_ROOTS,
): Promise<ReadRoots> {
  const roots = new Map<string, Root>();
  const faults: FaultOfFile[] = [];
  // The file of each DID is only needed if there are several.
  const fileOf = new Map<string, string>();
  for (const { file, bytes } of files) {
    /** Number of entries in the parts before. */
    let index = 0;
    for (const part of partsOf(bytes)) {
      await nextTurn();
      const text = part.bytes === null ? null : decodeUtf8(part.bytes);
      const entries = text === null ? { defect: unreadable(part) } : parse(text);
      if ('defect' in entries) {
        const { line, message } = entries.defect;
        faults.push({ file, line: line === null ? null : part.lineOf(line), message });
        break;
      }
      const found: Fault[] = [...entries.faults];
      for (const [at, entry] of entries.list.entries()) {
        if (faults.length + found.length > MAX_FAULTS) break;
        const path = ['roots', at];
        const read = readRoot(entry, path, (did) => before.has(did));
        if (!isRead(read)) found.push(...read);
        else if (!roots.has(read.did)) {
          roots.set(read.did, read.root);
          if (files.length > 1) fileOf.set(read.did, file);
        } else {
          const other = fileOf.get(read.did) ?? file;
          const where = other === file ? 'in another entry of this file' : `in ${other}`;
          const message = `${show(read.did)} is ${where}, too; expected it once: remove one of them`;
          found.push({ path: [...path, 'did'], message });
        }
      }
      if (roots.size > limit)
        found.push({ path: ['roots'], message: `there are more than ${limit} entries in all files` });
      if (found.length > 0) faults.push(...locate(file, text ?? '', part, found, index));
      if (faults.length > MAX_FAULTS || roots.size > limit) return { faults };
      index += entries.list.length;
    }
  }
  return faults.length > 0 ? { faults } : { roots };
}

interface Defect {
  /** `null` if it is about the file as a whole. */
  readonly line: number | null;
  readonly message: string;
}

function unreadable({ bytes }: Part): Defect {
  if (bytes !== null) return { line: null, message: 'it is not UTF-8' };
  const message = `an entry, or what stands around them, has more than ${MAX_ENTRY_BYTES} bytes; a quote or a bracket may be missing`;
  return { line: 1, message };
}

/** The entries of a part, unread. */
function parse(
  text: string,
): { readonly list: readonly JsonValue[]; readonly faults: readonly Fault[] } | { readonly defect: Defect } {
  const { value, defect } = parseStrictJson(text);
  if (defect !== undefined) {
    const { kind, message, at } = defect;
    if (kind !== 'syntax') return { defect: { line: lineAt(text, at ?? 0), message } };
    // A position in a part says nothing to anybody.
    const said = message.replace(/ (?:in JSON )?at position .*/s, '');
    return { defect: { line: lineOfSyntaxError(text), message: `it is not JSON: ${said}` } };
  }
  const expected = 'expected { "roots": [ { "did": "did:key:…", "name": "…" } ] }';
  if (!isJsonObject(value)) return { defect: { line: 1, message: `it is ${show(value)}, ${expected}` } };
  const faults = Object.keys(value)
    .filter((name) => name !== 'roots' && name !== '$schema')
    .slice(0, MAX_FAULTS)
    .map((name) => unknownMember([name], ['roots', '$schema']));
  const own = (name: string) => (Object.hasOwn(value, name) ? value[name] : undefined);
  const [list, schema] = [own('roots'), own('$schema')];
  // No other array may have been taken for the list.
  if (schema !== undefined && typeof schema !== 'string')
    faults.push({ path: ['$schema'], message: `it is ${show(schema)}, expected a text` });
  if (Array.isArray(list)) return { list, faults };
  const fault = { path: ['roots'], message: `it is ${show(list)}, ${expected}` };
  return { list: [], faults: [...faults, fault] };
}

/** @param index number of entries in the parts before */
function locate(
  file: string,
  text: string,
  part: Part,
  faults: readonly Fault[],
  index: number,
): FaultOfFile[] {
  const lines = findLines(
    text,
    faults.map(({ path }) => path),
  );
  return faults.map(({ path, message }, nth) => {
    const [member, at, ...rest] = path;
    const inFile = typeof at === 'number' ? [member as string, index + at, ...rest] : path;
    return { file, line: part.lineOf(lines[nth] as number), message: sentence({ path: inFile, message }) };
  });
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
