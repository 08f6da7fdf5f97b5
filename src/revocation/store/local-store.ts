import { Entries } from '../entries.js';
import type { Entry } from '../entry.js';
import { EntryFile, type FileDeps } from './entry-file.js';
import type { RevocationStore } from './revocation-store.js';
import { RevocationStoreError, storeIsFull } from './store-error.js';

const LOCK_WAIT_MS = 5_000;

/** What {@link LocalStore.open} needs. */
export interface LocalStoreOptions
  extends Pick<FileDeps, 'log' | 'observer'>, Partial<Pick<FileDeps, 'now' | 'lockWaitMs'>> {
  readonly maxEntries: number;
}

/** Entries that are written and flushed together. */
interface Group {
  readonly entries: Entries;
  readonly written: Promise<void>;
}

/** Local revocations in memory and, if a path is given, in a file. */
export class LocalStore implements RevocationStore {
  readonly isCurrent = true;
  readonly copyAgeSecs = Number.NaN;
  readonly entries: Entries;
  readonly #file: EntryFile | null;
  readonly #options: LocalStoreOptions;
  /** What arrives while another group is being written. Nothing in a group is in force yet. */
  #next: Group | null = null;
  /** Ends with the group that is being written. Never rejects. */
  #turn: Promise<void> = Promise.resolve();
  /** Number of entries in both groups. */
  #pending = 0;
  #closed = false;

  private constructor(entries: Entries, file: EntryFile | null, options: LocalStoreOptions) {
    this.entries = entries;
    this.#file = file;
    this.#options = options;
  }

  /**
   * @param path path of the file; without one, the entries are lost when the process ends
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(path: string | undefined, options: LocalStoreOptions): Promise<LocalStore> {
    const entries = new Entries();
    const deps = { now: Date.now, lockWaitMs: LOCK_WAIT_MS, ...options };
    const file = path === undefined ? null : await EntryFile.open(path, entries, deps);
    return new LocalStore(entries, file, options);
  }

  async record(entry: Entry): Promise<void> {
    if (this.#closed) throw new RevocationStoreError('closed', 'the revocation store is closed');
    const { maxEntries, now = Date.now } = this.#options;
    this.entries.sweep(now());
    if (!this.entries.has(entry.target) && this.entries.size + this.#pending >= maxEntries)
      throw storeIsFull(maxEntries);
    this.#next ??= this.#newGroup();
    const { entries, written } = this.#next;
    const { size } = entries;
    if (!this.entries.covers(entry)) entries.add(entry);
    this.#pending += entries.size - size;
    await written;
  }

  /** Finishes pending writes, then closes the file. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#turn;
    await this.#file?.close();
  }

  #newGroup(): Group {
    const entries = new Entries();
    const written = this.#turn.then(async () => {
      this.#next = null;
      const added = [...entries.values()];
      try {
        if (added.length > 0) await this.#file?.append(added);
        for (const entry of added) this.entries.add(entry);
      } finally {
        this.#pending -= added.length;
      }
    });
    this.#turn = written.catch(() => undefined);
    return { entries, written };
  }
}
