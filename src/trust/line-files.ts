import { open, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { writtenText } from '../protocol/written-text.js';
import { parseStrictJson, type JsonValue } from '../protocol/json.js';
import { show } from '../verify/codes.js';
import type { Root } from '../verify/parts.js';
import type { Tool } from '../verify/tools.js';
import { readRoot, sentence, type LineDefect, type ReadLine } from './read-root.js';
import { readTool } from './read-tool.js';

/** Maximum number of bytes in all files together. */
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_FILES = 1000;
/** Maximum number of entries in all files together. */
const MAX_LINES = 200_000;
const MAX_LINE_BYTES = 512 * 1024;
const MAX_DEFECTS = 20;
/** Bytes to read before others have their turn: some 50 entries, which take a millisecond. */
const TURN_BYTES = 16 * 1024;
const LINE_FEED = 0x0a;

/** One state of a file, or of the files of a directory. */
export interface Version {
  readonly files: readonly string[];
  /** Differs from that of any other state, unless files were written again within the resolution of the clock. */
  readonly mark: string;
}

/** Files of JSON objects, one a line, of which each has a name of its own. */
export interface LinesKind<T> {
  /** What the files have, for messages, and as a fact in logs. */
  readonly name: string;
  readonly fact: 'roots' | 'tools';
  /** The member that names a line. */
  readonly key: string;
  /** Reads a line, or says all that is wrong with it. */
  read(value: JsonValue): ReadLine<T>;
  /** What is wrong with all lines together. */
  findExcess?(lines: ReadonlyMap<string, T>): string | null;
}

/** Maximum number of documents that are fetched again and again. */
const MAX_DOCUMENTS = 10_000;

export const ROOTS: LinesKind<Root> = {
  name: 'trusted roots',
  fact: 'roots',
  key: 'did',
  read: readRoot,
  findExcess: (lines) => {
    let documents = 0;
    for (const { web } of lines.values()) if (web !== null) documents++;
    if (documents <= MAX_DOCUMENTS) return null;
    return `there are ${documents} entries of a did:web, expected at most ${MAX_DOCUMENTS}`;
  },
};

/** What an operator says of tools, by their names. */
export const TOOLS: LinesKind<Tool> = { name: 'tools', fact: 'tools', key: 'tool', read: readTool };

/** What is wrong with such files. The message has each defect in a line. */
export class LinesError extends Error {
  override readonly name = 'LinesError';
}

/**
 * Looks at a file, or at those of a directory in the order of their names, without reading them. Follows symbolic links.
 *
 * @throws LinesError if there is none, or too much
 */
export async function lookAt(place: string): Promise<Version> {
  const isFolder = (await orError(place, stat(place))).isDirectory();
  const names = isFolder ? await orError(place, readdir(place)) : [];
  const files = isFolder
    ? names
        .filter((name) => name.endsWith('.jsonl') && !name.startsWith('.'))
        .sort()
        .map((name) => path.join(place, name))
    : [place];
  if (files.length === 0) throw new LinesError(`${place}: there is no *.jsonl in this directory`);
  if (files.length > MAX_FILES)
    throw new LinesError(`${place}: there are ${files.length} files, expected at most ${MAX_FILES}`);
  const marks: string[] = [];
  let bytes = 0;
  for (const file of files) {
    const stats = await orError(file, stat(file, { bigint: true }));
    const { dev, ino, size, mtimeNs, ctimeNs } = stats;
    if (!stats.isFile()) throw new LinesError(`${file}: it is not a file`);
    bytes += Number(size);
    marks.push([file, dev, ino, size, mtimeNs, ctimeNs].join('\0'));
  }
  if (bytes > MAX_BYTES)
    throw new LinesError(`${place}: it has ${bytes} bytes, expected at most ${MAX_BYTES}`);
  return { files, mark: marks.join('\n') };
}

/** Reads files that {@link lookAt} found. @throws LinesError if one cannot be read */
export async function readBytes({ files }: Version): Promise<Map<string, Buffer>> {
  const read = new Map<string, Buffer>();
  let left = MAX_BYTES;
  for (const file of files) {
    // One byte more says that it has grown since it was looked at.
    const start = open(file).then((handle) => buffer(handle.createReadStream({ end: left })));
    const bytes = await orError(file, start);
    if (bytes.length > left) throw new LinesError(`${file}: it is larger than ${MAX_BYTES} bytes`);
    left -= bytes.length;
    read.set(file, bytes);
  }
  return read;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'this user may not read it',
  ELOOP: 'its symbolic links lead in a circle',
};

async function orError<T>(file: string, attempt: Promise<T>): Promise<T> {
  try {
    return await attempt;
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw new LinesError(`${file}: ${REASONS[code] ?? message}`, { cause: error });
  }
}

/**
 * Reads files that count together. Requests are served meanwhile.
 *
 * @param files by their names
 * @param limit the maximum number of lines
 * @throws LinesError with all defects, as `file:line: what is wrong`; of many, the first
 */
export async function readLines<T>(
  kind: LinesKind<T>,
  files: ReadonlyMap<string, Buffer>,
  limit = MAX_LINES,
): Promise<ReadonlyMap<string, T>> {
  const found = new Map<string, T>();
  const defects: string[] = [];
  // The file of each name is only needed if there are several.
  const fileOf = new Map<string, string>();
  for (const [file, bytes] of files) {
    let turnEnd = 0;
    for (let at = 0, line = 1; at < bytes.length; line++) {
      if (at >= turnEnd) {
        await nextTurn();
        turnEnd = at + TURN_BYTES;
      }
      const lineFeed = bytes.indexOf(LINE_FEED, at);
      const end = lineFeed < 0 ? bytes.length : lineFeed;
      const read = readLine(kind, bytes.subarray(at, end));
      at = end + 1;
      if (read === null) continue;
      const note = (message: string) => void defects.push(`${file}:${line}: ${message}`);
      if (!('key' in read)) for (const one of read) note(sentence(one));
      else if (found.has(read.key)) {
        const other = fileOf.get(read.key) ?? file;
        const where = other === file ? 'in another line of this file' : `in ${other}`;
        note(`${kind.key}: ${show(read.key)} is ${where}, too; expected it once: remove one of them`);
      } else {
        found.set(read.key, read.value);
        if (files.size > 1) fileOf.set(read.key, file);
      }
      if (found.size > limit) note(`there are more than ${limit} entries in all files`);
      if (defects.length > MAX_DEFECTS) defects.splice(MAX_DEFECTS, defects.length, 'and more');
      if (defects.length > MAX_DEFECTS || found.size > limit || read === AN_ARRAY)
        throw new LinesError(defects.join('\n'));
    }
  }
  if (defects.length > 0) throw new LinesError(defects.join('\n'));
  return found;
}

const ARRAY =
  "it is a JSON array, expected one JSON object a line: convert it with `jq -c '.[]' file.json > file.jsonl`";
const AN_ARRAY: readonly LineDefect[] = [{ path: [], message: ARRAY }];

/** The entry of a line, all that is wrong with it, or `null` if there is nothing in it. */
function readLine<T>(kind: LinesKind<T>, bytes: Buffer): ReadLine<T> | null {
  const refuse = (message: string) => [{ path: [], message }];
  if (bytes.length > MAX_LINE_BYTES)
    return refuse(`it has ${bytes.length} bytes, expected at most ${MAX_LINE_BYTES} a line`);
  let text: string;
  try {
    text = writtenText(bytes).trimStart();
  } catch (error) {
    return refuse((error as Error).message);
  }
  if (text === '') return null;
  if (text.startsWith('[')) return AN_ARRAY;
  const { value, defect } = parseStrictJson(text);
  if (defect === undefined) return kind.read(value);
  const { message } = defect;
  return refuse(
    defect.kind === 'syntax' ? `it is not JSON: ${message}; expected one JSON object a line` : message,
  );
}
