import { Entries } from '../entries.js';
import type { Entry } from '../entry.js';
import type { RevocationLog, RevocationObserver } from '../observer.js';
import { EntryFile, type FileDeps } from './entry-file.js';
import type { RevocationStore } from './revocation-store.js';
import { RevocationStoreError, storeIsFull } from './store-error.js';

const LOCK_WAIT_MS = 5_000;

interface Waiting {
  readonly entry: Entry;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** What {@link LocalStore.open} needs. */
export interface LocalStoreOptions extends Partial<Pick<FileDeps, 'now' | 'lockWaitMs'>> {
  readonly log: RevocationLog;
  readonly observer: RevocationObserver;
  readonly maxEntries: number;
}

/**
 * Local revocations in memory and, if a path is given, in a file.
 *
 * All revocations that arrive during a write are written and flushed together in the next one (group commit).
 */
export class LocalStore implements RevocationStore {
  readonly isCurrent = true;
  readonly copyAgeSecs = Number.NaN;
  readonly entries: Entries;
  readonly #file: EntryFile | null;
  readonly #path: string | undefined;
  readonly #log: RevocationLog;
  readonly #maxEntries: number;
  readonly #now: () => number;
  /** Revocations that are not on disk yet, and so not in force. */
  #waiting: Waiting[] = [];
  /** How many of them are being written. */
  #underway = 0;
  #committing: Promise<void> | null = null;
  #isFailing = false;
  #closed = false;

  private constructor(
    entries: Entries,
    file: EntryFile | null,
    path: string | undefined,
    options: LocalStoreOptions,
  ) {
    this.entries = entries;
    this.#file = file;
    this.#path = path;
    this.#log = options.log;
    this.#maxEntries = options.maxEntries;
    this.#now = options.now ?? Date.now;
  }

  /**
   * @param path path of the file; without one, the entries are lost when the process ends
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(path: string | undefined, options: LocalStoreOptions): Promise<LocalStore> {
    const { log, observer, now = Date.now, lockWaitMs = LOCK_WAIT_MS } = options;
    const entries = new Entries();
    const file =
      path === undefined ? null : await EntryFile.open(path, entries, { log, observer, now, lockWaitMs });
    return new LocalStore(entries, file, path, options);
  }

  async record(entry: Entry): Promise<void> {
    if (this.#closed) throw new RevocationStoreError('closed', 'the revocation store is closed');
    this.entries.sweep(this.#now());
    if (
      !this.entries.has(entry.target) &&
      this.entries.size + this.#underway + this.#waiting.length >= this.#maxEntries
    )
      throw storeIsFull(this.#maxEntries);
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ entry, resolve, reject });
      this.#committing ??= this.#commitAll();
    });
  }

  /** Finishes pending writes, then closes the file. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#committing;
    await this.#file?.close();
  }

  async #commitAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#waiting;
      this.#waiting = [];
      this.#underway = group.length;
      await this.#commit(group);
      this.#underway = 0;
    }
    // Not in a callback: a revocation that arrives after the last check of the queue must start the next round itself.
    this.#committing = null;
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    const added = new Entries();
    for (const { entry } of group) if (!this.entries.covers(entry)) added.add(entry);
    try {
      if (added.size > 0) await this.#file?.append([...added.values()]);
    } catch (error) {
      this.#isFailing = true;
      const message = `the revocation store ${this.#path ?? ''} could not record: ${(error as Error).message}`;
      this.#log.error({ err: error, file: this.#path, count: added.size }, message);
      for (const { reject } of group) {
        reject(new RevocationStoreError('not_recorded', message, { cause: error }));
      }
      return;
    }
    if (this.#isFailing) this.#log.info({ file: this.#path }, 'the revocation store records again');
    this.#isFailing = false;
    for (const entry of added.values()) this.entries.add(entry);
    for (const { resolve } of group) resolve();
  }
}
