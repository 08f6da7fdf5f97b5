import { LockedFile } from '../../files/locked-file.js';
import { Entries } from '../entries.js';
import { hasRunOut, type LocalRevocation } from '../entry.js';
import { ENTRY_FILE, lineOf, takeEntries } from './entry-file.js';
import { RevocationStoreError, storeIsFull } from './revocation-store.js';
import type { RevocationStore, StoreDeps } from './revocation-store.js';

/** Local revocations in memory and, if a path is given, in a file. */
export class LocalStore implements RevocationStore {
  readonly isCurrent = true;
  readonly copyAgeSecs = Number.NaN;
  readonly missingReplicas = 0;
  readonly entries = new Entries();
  readonly #deps: StoreDeps;
  #file: LockedFile | undefined;
  /** What is written and flushed together when the group before it has been. Nothing in a group is in force yet. */
  #next: Entries | null = null;
  /** The outcome of the last group. */
  #written: Promise<void> = Promise.resolve();
  /** Number of entries in the next group and in the one that is being written. */
  #pending = 0;
  #closed = false;

  private constructor(deps: StoreDeps) {
    this.#deps = deps;
  }

  /**
   * @param path path of the file; without one, the entries are lost when the process ends
   * @param lockWaitMs how long to wait for a process that may be just ending, in milliseconds
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(path: string | undefined, deps: StoreDeps, lockWaitMs = 5_000): Promise<LocalStore> {
    const store = new LocalStore(deps);
    if (path === undefined) return store;
    const take = takeEntries((entry) => {
      if (!hasRunOut(entry, deps.now())) store.entries.add(entry);
    });
    const synced = (durationMs: number) => deps.observer.storeSynced?.(durationMs);
    store.#file = await LockedFile.open(path, ENTRY_FILE, { log: deps.log, lockWaitMs, take, synced });
    return store;
  }

  async record(entry: LocalRevocation): Promise<void> {
    const { maxEntries, now } = this.#deps;
    const sweeping = this.entries.sweep(now());
    if (sweeping !== null) await sweeping;
    if (this.#closed) throw new RevocationStoreError('closed', 'the revocation store is closed');
    if (this.entries.covers(entry)) return;
    if (!this.entries.has(entry.target) && this.entries.size + this.#pending >= maxEntries)
      throw storeIsFull(maxEntries);
    const group = (this.#next ??= this.#newGroup());
    const { size } = group;
    group.add(entry);
    this.#pending += group.size - size;
    await this.#written;
  }

  /** Finishes pending writes, then closes the file. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#written.catch(() => undefined);
    await this.#file?.close();
  }

  #newGroup(): Entries {
    const group = new Entries();
    const before = this.#written.catch(() => undefined);
    this.#written = before.then(async () => {
      this.#next = null;
      const added = [...group.values()];
      try {
        await this.#file?.append(added.map(lineOf));
        for (const entry of added) this.entries.add(entry);
      } finally {
        this.#pending -= added.length;
      }
    });
    return group;
  }
}
