import { Buffer } from 'node:buffer';
import type { FileHandle } from 'node:fs/promises';
import { decodeBase64, decodeUtf8, encodeBase64 } from '#platform';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import { readNote, type Checkpoint } from './checkpoint.js';
import { Edge, leafOf } from './tree.js';

/** What a checkpoint line begins with. No other line does. */
const HEAD = '{"checkpoint":';
const CHUNK_BYTES = 64 * 1024;

/** A checkpoint, with the edge of its tree, from which a reader can go on. */
export interface Seal extends Checkpoint {
  readonly edge: Edge;
}

export const isCheckpointLine = (line: Uint8Array): boolean =>
  Buffer.from(line.buffer, line.byteOffset, Math.min(line.length, HEAD.length)).toString('latin1') === HEAD;

/** @param torn how many lines were found torn since the checkpoint before */
export function checkpointLine(note: string, edge: Edge, torn: number): string {
  const roots = edge.roots.map((root) => encodeBase64(root));
  return `${HEAD}${JSON.stringify(note)},"edge":${JSON.stringify(roots)}${torn > 0 ? `,"torn":${torn}` : ''}}`;
}

/** @returns `null` if this key has not signed it, or its edge is not that of its root */
export function readCheckpointLine(line: Uint8Array, publicKey: Uint8Array): Seal | null {
  const { value } = parseStrictJson(decodeUtf8(line) ?? '');
  if (!isJsonObject(value) || typeof value['checkpoint'] !== 'string') return null;
  const checkpoint = readNote(value['checkpoint'], publicKey);
  const { edge: given } = value;
  if (checkpoint === null || !Array.isArray(given)) return null;
  const roots = given.map((text) => (typeof text === 'string' ? decodeBase64(text) : null));
  // One for each digit 1 of the size: otherwise another tree could have this root.
  const digits = checkpoint.size.toString(2).replaceAll('0', '').length;
  if (roots.length !== digits || !roots.every((root) => root?.length === 32)) return null;
  const edge = new Edge(checkpoint.size, roots.map((root) => Buffer.from(root as Uint8Array)));
  return edge.root().equals(checkpoint.root) ? { ...checkpoint, edge } : null;
}

/** What is found at the end of a log. */
export interface LogEnd {
  readonly edge: Edge;
  /** Bytes of the file, up to which this counts. */
  readonly bytes: number;
  /** Whether the last line is cut. It is part of the log, and gets its end when the next one is written. */
  readonly isTorn: boolean;
  /** That of the last checkpoint. */
  readonly sealed: number;
}

/**
 * Finds the last checkpoint of a file, and adds the lines after it.
 *
 * @returns `null` of an empty file
 * @throws Error if no checkpoint of this key is in it
 */
export async function readLogEnd(file: FileHandle, publicKey: Uint8Array): Promise<LogEnd | null> {
  const { size: bytes } = await file.stat();
  if (bytes === 0) return null;
  let tail = Buffer.alloc(0);
  for (let from = bytes; from > 0; ) {
    const length = Math.min(CHUNK_BYTES, from);
    from -= length;
    const chunk = Buffer.alloc(length);
    await file.read(chunk, 0, length, from);
    tail = Buffer.concat([chunk, tail]);
    const at = lastCheckpointIn(tail, from === 0);
    if (at < 0) continue;
    const [line = tail, ...after] = linesIn(tail.subarray(at));
    const seal = readCheckpointLine(line, publicKey);
    if (seal === null) throw new Error('its last checkpoint is not one of this key, or was changed');
    const { edge } = seal;
    const isTorn = tail.at(-1) !== 0x0a;
    for (const one of after) edge.add(leafOf(one));
    return { edge, bytes, isTorn, sealed: seal.size };
  }
  throw new Error('it has no checkpoint: it was begun without a key');
}

/** Where the last line begins that is a checkpoint; -1 if there is none, or its beginning is not here. */
function lastCheckpointIn(tail: Buffer, isWhole: boolean): number {
  const at = tail.lastIndexOf(`\n${HEAD}`);
  if (at >= 0) return at + 1;
  return isWhole && isCheckpointLine(tail) ? 0 : -1;
}

/** Its lines, without their ends. */
function linesIn(text: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf(0x0a, from);
    const to = end < 0 ? text.length : end;
    lines.push(text.subarray(from, to));
    from = to + 1;
  }
  return lines;
}
