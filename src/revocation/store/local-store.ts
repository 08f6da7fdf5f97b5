import { IndexFile } from './index-file.js';
import { IndexSet } from './index-set.js';
import type { RevocationLog, RevocationObserver } from '../observer.js';
import type { RevocationStore } from './revocation-store.js';
import { RevocationStoreError } from './store-error.js';

interface Waiting {
  readonly index: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * The indices that were revoked locally: in memory and, if a path is given, in a file.
 *
 * All revocations that arrive during a write are written and flushed together in the next one (group commit).
 */
export class LocalStore implements RevocationStore {
  readonly isCurrent = true;
  readonly copyAgeSecs = Number.NaN;
  readonly #indices: IndexSet;
  readonly #file: IndexFile | null;
  readonly #path: string | undefined;
  readonly #log: RevocationLog;
  /** Revocations that are not on disk yet, and so not in force. */
  #waiting: Waiting[] = [];
  #committing: Promise<void> | null = null;
  #isFailing = false;
  #closed = false;

  private constructor(
    indices: IndexSet,
    file: IndexFile | null,
    path: string | undefined,
    log: RevocationLog,
  ) {
    this.#indices = indices;
    this.#file = file;
    this.#path = path;
    this.#log = log;
  }

  /**
   * @param path path of the file; without one, the indices are lost when the process ends
   * @throws {@link RevocationStoreError} `locked` or `unreadable`
   */
  static async open(
    path: string | undefined,
    deps: { log: RevocationLog; observer: RevocationObserver },
  ): Promise<LocalStore> {
    const indices = new IndexSet();
    const file = path === undefined ? null : await IndexFile.open(path, indices, deps);
    return new LocalStore(indices, file, path, deps.log);
  }

  get size(): number {
    return this.#indices.size;
  }

  has(index: number): boolean {
    return this.#indices.has(index);
  }

  /**
   * Revokes an index for good.
   *
   * @returns resolves when it is on disk and in force
   * @throws {@link RevocationStoreError} `not_recorded` or `closed`; then it is not in force
   */
  async record(index: number): Promise<void> {
    if (this.#closed) throw new RevocationStoreError('closed', 'the revocation store is closed');
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ index, resolve, reject });
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
      await this.#commit(group);
    }
    // Not in a callback: a revocation that arrives after the last check of the queue must start the next round itself.
    this.#committing = null;
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    const indices = new Set(group.map(({ index }) => index).filter((index) => !this.#indices.has(index)));
    try {
      if (indices.size > 0) await this.#file?.append(indices);
    } catch (error) {
      this.#isFailing = true;
      const message = `the revocation store ${this.#path ?? ''} could not record: ${(error as Error).message}`;
      this.#log.error({ err: error, file: this.#path, count: indices.size }, message);
      for (const { reject } of group) {
        reject(new RevocationStoreError('not_recorded', message, { cause: error }));
      }
      return;
    }
    if (this.#isFailing) this.#log.info({ file: this.#path }, 'the revocation store records again');
    this.#isFailing = false;
    for (const index of indices) this.#indices.add(index);
    for (const { resolve } of group) resolve();
  }
}
