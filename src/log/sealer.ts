import { Buffer } from 'node:buffer';
import { open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { decodeBase64, decodeUtf8, encodeBase64 } from '#platform';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import { noteOf, readCheckpoint, type Checkpoint, type NoteKey } from './checkpoint.js';
import { Edge, leafOf, leafOfMarked } from './tree.js';

/** What a checkpoint line begins with. One that is cut is no JSON, and a line like others. */
const HEAD = Buffer.from('{"checkpoint":');
const LINE_FEED = 0x0a;
/** After so many bytes of lines there is a checkpoint, however soon. */
const SEAL_BYTES = 8 * 1024 * 1024;
/** Above that, what waits to be written, and the longest line: the last checkpoint of a log is in its last bytes. */
const END_BYTES = 2 * SEAL_BYTES;

/** A checkpoint, with the edge of its tree, from which a reader can go on. */
export interface Seal extends Checkpoint {
  readonly edge: Edge;
}

/**
 * Reads a line that begins as checkpoints do.
 *
 * @returns `null` if it is another line; `forged` if this key has not signed it, or its edge is not that of its root
 */
export function readCheckpointLine(line: Buffer, publicKey: Uint8Array): Seal | 'forged' | null {
  if (!line.subarray(0, HEAD.length).equals(HEAD)) return null;
  const { value } = parseStrictJson(decodeUtf8(line) ?? '');
  if (!isJsonObject(value)) return null;
  const { checkpoint: note, edge: given } = value;
  const checkpoint = typeof note === 'string' ? readCheckpoint(note, publicKey) : null;
  if (checkpoint === null || !Array.isArray(given)) return 'forged';
  const roots = given.map((text) => (typeof text === 'string' ? decodeBase64(text) : null));
  // One for each digit 1 of the size: otherwise another tree could have this root.
  const digits = checkpoint.size.toString(2).replaceAll('0', '').length;
  if (roots.length !== digits || !roots.every((root) => root?.length === 32)) return 'forged';
  const edge = new Edge(
    checkpoint.size,
    roots.map((root) => Buffer.from(root as Uint8Array)),
  );
  return edge.root().equals(checkpoint.root) ? { ...checkpoint, edge } : 'forged';
}

/** Makes a log a tree: it numbers its lines, and signs what they are together. */
export class Sealer {
  readonly #key: NoteKey;
  readonly #origin: string;
  readonly #edge: Edge;
  /** The size of the last checkpoint; -1 before the first. */
  #sealed: number;
  /** Whether the file has no line feed at its end. */
  readonly #isCut: boolean;
  #bytes = 0;

  private constructor(key: NoteKey, origin: string, edge: Edge, sealed: number, isCut: boolean) {
    this.#key = key;
    this.#origin = origin;
    this.#edge = edge;
    this.#sealed = sealed;
    this.#isCut = isCut;
  }

  /**
   * Finds where a log goes on: from the last checkpoint of its file, with the lines after it. A new one is named after host and file.
   *
   * @throws Error if the file has lines, and no checkpoint of this key
   */
  static async open(path: string, key: NoteKey): Promise<Sealer> {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    const origin = `${hostname()}${resolve(path)}`.replace(/[\s+\p{C}]/gu, '_').slice(-200);
    if (size === 0) return new Sealer(key, origin, new Edge(), -1, false);
    const end = Buffer.alloc(Math.min(size, END_BYTES));
    await file.read(end, 0, end.length, size - end.length);
    const lines = linesIn(end);
    for (let at = lines.length - 1; at >= 0; at--) {
      const seal = readCheckpointLine(lines[at] as Buffer, key.publicKey);
      if (seal === null) continue;
      if (seal === 'forged') break;
      for (const line of lines.slice(at + 1)) seal.edge.add(leafOf(line));
      return new Sealer(key, seal.origin, seal.edge, seal.size, end.at(-1) !== LINE_FEED);
    }
    throw new Error(
      `${path} has lines, and its last checkpoint is not of DECISION_LOG_KEY: move it away, and a new log begins`,
    );
  }

  /** What the file needs before further lines. A line that was torn is sealed as it is, and the checkpoint says which one it is. */
  begin(): string {
    const end = this.#isCut ? '\n' : '';
    return this.isDue ? end + this.checkpoint(this.#isCut ? { torn: this.#edge.size - 1 } : {}) : end;
  }

  /** Gives a line its number, and its place in the tree. @param line a JSON object that has members */
  seal(line: string): Buffer {
    const bytes = Buffer.from(`\0{"seq":${this.#edge.size},${line.slice(1)}\n`);
    this.#edge.add(leafOfMarked(bytes.subarray(0, -1)));
    this.#bytes += bytes.length;
    return bytes.subarray(1);
  }

  /** Whether lines have come since the last checkpoint. */
  get isDue(): boolean {
    return this.#sealed !== this.#edge.size;
  }

  /** Whether the next checkpoint must not wait. */
  get isLarge(): boolean {
    return this.#bytes >= SEAL_BYTES;
  }

  /** A line that seals all lines before it, with its end. */
  checkpoint(torn: { readonly torn?: number } = {}): string {
    const { size, roots } = this.#edge;
    const note = noteOf({ origin: this.#origin, size, root: this.#edge.root() }, this.#key);
    [this.#sealed, this.#bytes] = [size, 0];
    return `${JSON.stringify({ checkpoint: note, edge: roots.map(encodeBase64), ...torn })}\n`;
  }
}

/** The lines of bytes, without their ends. */
function linesIn(text: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0; from < text.length;) {
    const end = text.indexOf(LINE_FEED, from);
    const to = end < 0 ? text.length : end;
    lines.push(text.subarray(from, to));
    from = to + 1;
  }
  return lines;
}
