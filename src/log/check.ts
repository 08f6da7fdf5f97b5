import { Buffer } from 'node:buffer';
import { decodeBase64, decodeUtf8, encodeBase64 } from '#platform';
import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import { readCheckpoint, type Checkpoint } from './checkpoint.js';
import { readCheckpointLine, type Seal } from './sealer.js';
import { inclusionProof, leafOf, rootByProof, type Edge } from './tree.js';

/** Where a line stands. */
export interface Place {
  readonly file: string;
  /** From 1. */
  readonly line: number;
}

/** Something that is wrong with a log. */
export interface Fault extends Place {
  readonly problem: string;
}

const MAX_FAULTS = 20;
const SEQ = /^\{"seq":(0|[1-9]\d{0,15}),/;

/** The number that a line has; -1 if it has none. */
const seqOf = (line: Buffer): number => Number(SEQ.exec(line.toString('latin1', 0, 32))?.[1] ?? -1);

/**
 * What stands in the place of a line whose content had to go: its number, its hash, and what may stay.
 *
 * @param line with its number
 */
export function redacted(line: Buffer, { time, code }: JsonObject): string {
  return JSON.stringify({ seq: seqOf(line), time, code, redacted: encodeBase64(leafOf(line)) });
}

const MAY_STAY = ['seq', 'time', 'code', 'redacted'];

/** The hash of a line that was redacted; `null` of any other line. */
function redactedLeafIn(line: Buffer): Buffer | null {
  if (!line.includes('"redacted":"')) return null;
  const { value } = parseStrictJson(decodeUtf8(line) ?? '');
  if (!isJsonObject(value) || !Object.keys(value).every((name) => MAY_STAY.includes(name))) return null;
  const leaf = typeof value['redacted'] === 'string' ? decodeBase64(value['redacted']) : null;
  return leaf?.length === 32 ? Buffer.from(leaf) : null;
}

/**
 * Reads the lines of a sealed log, file after file, and finds what was changed, removed, added or put elsewhere. What lies between two
 * checkpoints holds, or does not: numbers show which line is the first that is wrong, except where one was changed.
 */
export class LogCheck {
  readonly #key: Uint8Array;
  readonly #known: Checkpoint | null;
  #edge: Edge | null = null;
  /** The size of the last checkpoint. */
  #sealed = 0;
  /** The first line after the last checkpoint, and the first whose number is not its own. */
  #first: Place | null = null;
  #odd: Fault | null = null;
  /** The first line of a file. */
  #start: Place | null = null;
  #hasMetKnown = false;
  readonly faults: Fault[] = [];
  /** Numbers of lines that hold: from, and the first that does not any more. */
  readonly holds: { from: number; to: number }[] = [];
  origin: string | null = null;
  redacted = 0;

  /** @param known a checkpoint that somebody has kept elsewhere */
  constructor(key: Uint8Array, known: Checkpoint | null) {
    this.#key = key;
    this.#known = known;
  }

  /** How many lines no checkpoint has sealed yet. */
  get unsealed(): number {
    return (this.#edge?.size ?? 0) - this.#sealed;
  }

  take(line: Buffer, place: Place): void {
    if (place.line === 1) this.#start = place;
    const seal = readCheckpointLine(line, this.#key);
    if (seal === 'forged')
      this.#fault(place, 'it is a checkpoint that this key has not signed, or that was changed');
    else if (seal !== null) this.#meet(seal, place);
    else if (this.#edge !== null) this.#add(line, place, this.#edge);
    else if (place.line === 1) this.#fault(place, 'it is no checkpoint of this key, with which a log begins');
  }

  end(place: Place): void {
    // A line that a crash has cut is the last one, until its log goes on.
    const isCut = this.#odd?.file === place.file && this.#odd.line === place.line;
    if (this.#odd !== null && !isCut) this.faults.push(this.#odd);
    const size = this.#edge?.size ?? 0;
    if (this.#edge === null && this.faults.length === 0)
      this.#fault(place, 'there is no line, expected a log, which begins with a checkpoint');
    if (this.#known === null || this.#hasMetKnown) return;
    const wrong =
      this.#known.size > size
        ? `the log ends with ${size} lines: its end was cut off`
        : 'no line is there of which it speaks';
    this.#fault(place, `${wrong}, and the known checkpoint has ${this.#known.size}`);
  }

  #add(line: Buffer, place: Place, edge: Edge): void {
    this.#first ??= place;
    const seq = seqOf(line);
    if (seq !== edge.size)
      this.#odd ??= {
        ...place,
        problem: `its number is ${seq < 0 ? 'missing' : seq}, expected ${edge.size}`,
      };
    const leaf = redactedLeafIn(line);
    if (leaf !== null) this.redacted++;
    edge.add(leaf ?? leafOf(line));
    this.#meetKnown(edge, place);
  }

  #meet(seal: Seal, place: Place): void {
    this.origin ??= seal.origin;
    const edge = this.#edge;
    if (seal.origin !== this.origin)
      this.#fault(place, `it seals the log ${seal.origin}, not ${this.origin}`);
    const last = this.holds.at(-1);
    if (edge === null) this.holds.push({ from: seal.size, to: seal.size });
    else if (edge.size === seal.size && edge.root().equals(seal.root) && last !== undefined) {
      if (last.to === this.#sealed) last.to = seal.size;
      else this.holds.push({ from: this.#sealed, to: seal.size });
    } else {
      const changed = { ...(this.#first ?? place), problem: 'it was changed, or a later one' };
      // Of lines that are missing at the end, none shows it.
      const { problem, ...at } = this.#odd ?? (seal.size > edge.size ? { ...place, problem: '' } : changed);
      const between = `between the checkpoints of ${this.#sealed} and ${seal.size} lines`;
      this.#fault(at, `${this.#whyNot(seal.size, edge.size, place) ?? problem} (${between})`);
    }
    [this.#edge, this.#sealed, this.#first, this.#odd] = [seal.edge, seal.size, null, null];
    this.#meetKnown(seal.edge, place);
  }

  /** Why a checkpoint has another size than the lines before it; `null` if it has not. */
  #whyNot(sealed: number, found: number, place: Place): string | null {
    const isStart = this.#start === place;
    if (sealed > found) return `${sealed - found} lines are missing up to ${place.file}:${place.line}`;
    if (sealed === found) return null;
    if (isStart)
      return `${place.file} goes on after ${sealed} lines, of which others follow here: a fork, or a copy`;
    return `there are ${found - sealed} lines more than were sealed`;
  }

  #meetKnown(edge: Edge, place: Place): void {
    if (this.#known?.size !== edge.size || this.#hasMetKnown) return;
    this.#hasMetKnown = true;
    if (!edge.root().equals(this.#known.root))
      this.#fault(
        place,
        `the known checkpoint of ${edge.size} lines has another root: a fork, or lines were changed`,
      );
  }

  #fault(place: Place, problem: string): void {
    if (this.faults.length < MAX_FAULTS) this.faults.push({ ...place, problem });
  }
}

/** A line, and what proves that it stands in a log. */
export interface LineProof {
  readonly line: string;
  /** https://c2sp.org/tlog-proof, with the checkpoint that was next. */
  readonly proof: string;
}

const PROOF = 'c2sp.org/tlog-proof@v1';

/** Reads the lines of a sealed log until it can prove one of them. */
export class LogProver {
  readonly #key: Uint8Array;
  #edge: Edge | null = null;
  #wanted: { readonly line: Buffer; readonly index: number; readonly before: readonly Buffer[] } | null =
    null;
  #after: Buffer[] = [];

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  /** Whether the line was found, and waits for the next checkpoint. */
  get isWaiting(): boolean {
    return this.#wanted !== null;
  }

  /**
   * @param isWanted whether it is the line to prove
   * @returns the proof, once there is one; `broken` if the lines are not those that were sealed
   */
  take(line: Buffer, isWanted: boolean): LineProof | 'broken' | null {
    const seal = readCheckpointLine(line, this.#key);
    if (seal !== null && seal !== 'forged') {
      const wanted = this.#wanted;
      this.#edge = seal.edge;
      if (wanted === null) return null;
      const hashes = inclusionProof(wanted.index, wanted.before, this.#after);
      const root = rootByProof(leafOf(wanted.line), wanted.index, seal.size, hashes);
      if (root?.equals(seal.root) !== true) return 'broken';
      const { checkpoint } = JSON.parse(line.toString()) as { checkpoint: string };
      const proof = [PROOF, `index ${wanted.index}`, ...hashes.map(encodeBase64), '', checkpoint].join('\n');
      return { line: wanted.line.toString(), proof };
    }
    const edge = this.#edge;
    if (edge === null) return null;
    const kept = redactedLeafIn(line);
    const leaf = kept ?? leafOf(line);
    if (this.#wanted !== null) this.#after.push(leaf);
    // Of one that is redacted, nothing is left to prove.
    else if (isWanted && kept === null) this.#wanted = { line, index: edge.size, before: [...edge.roots] };
    edge.add(leaf);
    return null;
  }
}

/**
 * Says in which log a line stands.
 *
 * @returns `null` if this key has not signed that
 */
export function checkProof(
  { line, proof }: LineProof,
  key: Uint8Array,
): (Checkpoint & { index: number }) | null {
  const end = proof.indexOf('\n\n');
  const [form, at = '', ...texts] = proof.slice(0, end).split('\n');
  const checkpoint = readCheckpoint(proof.slice(end + 2), key);
  const [, index] = /^index (0|[1-9]\d{0,15})$/.exec(at) ?? [];
  const hashes = texts.map((text) => decodeBase64(text));
  if (form !== PROOF || checkpoint === null || index === undefined) return null;
  if (!hashes.every((hash) => hash?.length === 32)) return null;
  const { size, root } = checkpoint;
  const found = rootByProof(leafOf(Buffer.from(line)), Number(index), size, hashes as Uint8Array[]);
  return found?.equals(root) === true ? { ...checkpoint, index: Number(index) } : null;
}
