import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { Journal, type Change, type RowSource } from '../files/journal.js';
import type { FileKind } from '../files/file-lock.js';
import type { JsonObject } from '../protocol/json.js';
import { isCount } from '../protocol/policy.js';
import type { Counter, Counters } from './counters.js';
import { MemoryStore, type UsedCall } from './memory-store.js';
import { chargedOf } from './refund.js';
import { ReplayStoreError, type Charge, type Refund, type ReplayLog, type Usage } from './usage-store.js';

/** After the start, callers read its message: it leaves out the path, which the log has. */
class UsageFileError extends ReplayStoreError {
  constructor(fault: string, message: string, options?: ErrorOptions) {
    const { code = 'its log says why' } = (options?.cause ?? {}) as NodeJS.ErrnoException;
    super(fault === 'not_recorded' ? `its file cannot be used: ${code}` : message, options);
  }
}

const USAGE_FILE: FileKind = {
  name: 'the record of used calls',
  mode: 0o600,
  ifLocked: 'name another folder (--state)',
  ifDamaged: 'put a whole copy in its place, or move it away: used calls and limits then begin again',
  Failure: UsageFileError,
};

/** @throws Error if others can write to a folder: without its file, used calls pass again */
export async function requireOwnFolder(folder: string): Promise<void> {
  // Windows has no such permissions.
  const mode = process.platform === 'win32' ? 0 : (await stat(folder)).mode & 0o777;
  if ((mode & 0o022) === 0) return;
  throw new Error(
    `others can write to the folder of used calls ${folder}: its permissions are ${mode.toString(8).padStart(4, '0')}, ` +
      'expected 0700; correct them, or name a folder in it, which is created with these',
  );
}

/**
 * A replay store that keeps what it holds in a file, which several processes may share. What it has answered is on the disk.
 *
 * @see docs/spec/usage.md#file
 */
export class FileReplayStore extends MemoryStore {
  #journal!: Journal;

  /**
   * Opens the store.
   *
   * @param folder is created if it is missing
   * @param lockWaitMs how long to wait for a process that has the file locked, at the start and later, in milliseconds
   * @throws Error if another process keeps the file locked, or it cannot be read or written
   */
  static async open(
    folder: string,
    { maxEntries, log }: { readonly maxEntries: number; readonly log: ReplayLog },
    lockWaitMs = 5_000,
  ): Promise<FileReplayStore> {
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== 'EEXIST') throw new Error(`the folder of used calls cannot be created: ${message}`);
    });
    await requireOwnFolder(folder);
    const store = new FileReplayStore(maxEntries, log);
    const source: RowSource = {
      count: () => store.size + store.counters,
      rows: () => store.#rows(),
      take: (row) => store.#take(row),
    };
    const file = path.join(folder, 'usage.jsonl');
    store.#journal = await Journal.open(file, USAGE_FILE, source, { log, lockWaitMs });
    return store;
  }

  override use(key: string, now: number, ttlSecs: number, charge: Charge | null, root?: string) {
    return this.#journal.decide(async (changes) => {
      const use = await super.use(key, now, ttlSecs, charge, root);
      const parts = chargedOf(charge?.costMicroUsd ?? 0, charge?.limits ?? []);
      if (use.kind === 'new') changes.push(this.#changeOf(key, { calls: 1, parts }, 'undone'));
      return use;
    });
  }

  override refund(key: string, { calls, parts }: Refund): Promise<'refunded' | 'repeated' | 'unknown'> {
    return this.#journal.decide(async (changes) => {
      const answer = await super.refund(key, { calls, parts });
      const charged = parts.map(({ receipt, microUsd }) => ({ receipt, microUsd: -microUsd }));
      if (answer === 'refunded') changes.push(this.#changeOf(key, { calls: -calls, parts: charged }, 'used'));
      return answer;
    });
  }

  override usageOf(receipt: string): Promise<Usage | null> {
    return this.#journal.decide(() => super.usageOf(receipt));
  }

  override close(): Promise<void> {
    return this.#journal.close();
  }

  /** What a change of an invocation writes, and how it is undone. */
  #changeOf(key: string, back: Parameters<Counters['refund']>[0], before: UsedCall['state']): Change {
    const entry = this.entries.get(key) as UsedCall;
    const rows = [rowOf(entry), ...back.parts.map(({ receipt }) => this.#counterRowOf(receipt))];
    const undo = () => {
      this.usages.refund(back);
      entry.state = before;
    };
    return { rows, undo };
  }

  #counterRowOf(receipt: string): object {
    const { calls, microUsd, end } = this.usages.byReceipt.get(receipt) as Counter;
    return { receipt, calls, micro_usd: microUsd, end };
  }

  *#rows(): Iterable<object> {
    this.usages.forgetEnded(Date.now() / 1000);
    const { forgottenUntil, byReceipt } = this.usages;
    if (forgottenUntil > 0) yield { forgotten_until: forgottenUntil };
    if (this.lostAt > 0) yield { lost_at: this.lostAt };
    for (const entry of this.entries.values()) if (entry.state !== 'undone') yield rowOf(entry);
    for (const receipt of byReceipt.keys()) yield this.#counterRowOf(receipt);
  }

  /** @returns whether it is a row of this store */
  #take(row: JsonObject): boolean {
    const { used, refunded, root, at, receipt, calls, micro_usd: microUsd, end } = row;
    const { forgotten_until: until, lost_at: lostAt } = row;
    const key = used ?? refunded;
    switch (Object.keys(row).join()) {
      case 'used,root,at,end':
      case 'refunded,root,at,end': {
        if (typeof key !== 'string' || typeof root !== 'string' || !isCount(at) || !isCount(end))
          return false;
        const state = used === undefined ? 'refunded' : 'used';
        const known = this.entries.get(key);
        if (known !== undefined) known.state = state;
        else if (end > Date.now() / 1000) this.record(key, root, { at, end, state });
        else this.lostAt = Math.max(this.lostAt, at);
        return true;
      }
      case 'receipt,calls,micro_usd,end':
        if (typeof receipt !== 'string' || ![calls, microUsd, end].every(isCount)) return false;
        this.usages.byReceipt.set(receipt, { calls, microUsd, end } as Counter);
        return true;
      case 'forgotten_until':
        if (!isCount(until)) return false;
        this.usages.forgottenUntil = Math.max(this.usages.forgottenUntil, until);
        return true;
      case 'lost_at':
        if (!isCount(lostAt)) return false;
        this.lostAt = Math.max(this.lostAt, lostAt);
        return true;
      default:
        return false;
    }
  }
}

function rowOf({ key, holder: { root }, at, end, state }: UsedCall): object {
  return { [state]: key, root, at, end };
}
