import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import { show } from '../verify/codes.js';
import { withoutControls } from '../verify/unprintable.js';
import type { FileKind } from './file-lock.js';
import { LockedFile, type FileDeps } from './locked-file.js';

/** The file is written anew when it has more than `MANY_ROWS + TIMES_KEPT × kept` rows. */
const MANY_ROWS = 10_000;
const TIMES_KEPT = 4;
const TEXT_LENGTH = 64 * 1024;

/** A change that is not on the disk yet. */
export interface Change {
  /** What the file is to say after it. */
  readonly rows: readonly object[];
  readonly undo: () => void;
}

/** What a journal keeps a copy of, in rows. */
export interface RowSource {
  /** How many rows there are, about. */
  readonly count: () => number;
  readonly rows: () => Iterable<object>;
  /** Takes a row of the file; a later one says more than an earlier one. @returns whether it is one */
  readonly take: (row: JsonObject) => boolean;
}

interface Group {
  readonly changes: Change[];
  readonly written: Promise<void>;
}

/**
 * Writes changes to a file before they count, a JSON array of rows a line. Several processes may share the file: each decides while it
 * has it locked, and after it has read what the others wrote. Those that come during a write share the next.
 */
export class Journal {
  readonly #source: RowSource;
  #file: LockedFile | null = null;
  /** Rows in the file; infinite while nobody knows which file is there. */
  #rows = 0;
  /** The group that waits for the file. */
  #next: Promise<Group> | null = null;
  /** Settled when the last group is written, or cannot be. */
  #last: Promise<void> = Promise.resolve();

  private constructor(source: RowSource) {
    this.#source = source;
  }

  /**
   * Opens the file, creates a missing one, reads all rows, and leaves out what is not kept.
   *
   * @throws the failure of the kind
   */
  static async open(path: string, kind: FileKind, source: RowSource, deps: Omit<FileDeps, 'take'>) {
    const journal = new Journal(source);
    const take = (line: string) => journal.#take(line);
    const file = await LockedFile.open(path, kind, { ...deps, take });
    journal.#file = file;
    try {
      if (journal.#rows > 0) await journal.#rewrite(file);
      file.release();
      return journal;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /**
   * Makes a decision, and answers when it is on the disk. None is made while one before it is being written: it may be undone.
   *
   * @param decide adds what it changes, and waits for nothing
   * @throws what it throws, and the failure of the file; then the changes are undone, the last first
   */
  async decide<T>(decide: (changes: Change[]) => Promise<T>): Promise<T> {
    const { changes, written } = await (this.#next ??= this.#begin());
    const answer = await decide(changes);
    await written;
    return answer;
  }

  /** Waits for what is being written, and closes the file. */
  async close(): Promise<void> {
    while (this.#next !== null) await this.#next.catch(() => undefined);
    await this.#last;
    const file = this.#file;
    this.#file = null;
    await file?.close();
  }

  /** Decisions that come before the file is free form one group. If the file cannot be had, all of them fail. */
  async #begin(): Promise<Group> {
    await this.#last;
    await nextTurn();
    const file = this.#file;
    try {
      if (file === null) throw new Error('the file is closed');
      await file.hold();
      const changes: Change[] = [];
      const written = this.#write(file, changes);
      this.#last = written.catch(() => undefined);
      return { changes, written };
    } finally {
      this.#next = null;
    }
  }

  async #write(file: LockedFile, changes: readonly Change[]): Promise<void> {
    // The group decides in this turn of the event loop.
    await nextTurn();
    try {
      if (changes.length === 0) return;
      if (this.#rows > MANY_ROWS + TIMES_KEPT * this.#source.count()) await this.#rewrite(file);
      else {
        await file.append(changes.map(({ rows }) => lineOf(rows)));
        for (const { rows } of changes) this.#rows += rows.length;
      }
    } catch (error) {
      for (const { undo } of changes.toReversed()) undo();
      throw error;
    } finally {
      file.release();
    }
  }

  /** Puts a file in the place of this one that has only what is kept. */
  async #rewrite(file: LockedFile): Promise<void> {
    this.#rows = Infinity;
    let written = 0;
    const texts = function* (rows: Iterable<object>) {
      let text = '';
      for (const row of rows) {
        written++;
        text += lineOf([row]);
        if (text.length < TEXT_LENGTH) continue;
        yield text;
        text = '';
      }
      yield text;
    };
    await file.replace(texts(this.#source.rows()));
    this.#rows = written;
  }

  #take(line: string): string | null {
    const { value, defect } = parseStrictJson(line);
    if (defect) return defect.message;
    if (!Array.isArray(value)) return `it is ${show(value)}, expected a list`;
    this.#rows += value.length;
    const unknown = value.find((row) => !isJsonObject(row) || !this.#source.take(row));
    return unknown === undefined ? null : `it has ${show(unknown)}, which this version does not write`;
  }
}

function lineOf(rows: readonly object[]): string {
  return `${withoutControls(JSON.stringify(rows))}\n`;
}
