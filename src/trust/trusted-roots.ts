import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Root, Roots } from '../verify/parts.js';
import {
  lookAt,
  readBytes,
  readRoots,
  TrustedRootsError,
  type BytesOfFile,
  type Version,
} from './roots-files.js';

/** Milliseconds between two looks at the files. */
const POLL_MS = 1000;
const ATTEMPTS_AT_START = 5;
/** Bytes to hash before others have their turn. */
const TURN_BYTES = 1024 * 1024;

/** Is told of each reading that counts. */
export interface TrustObserver {
  /** @param outcome `loaded`: other roots are in force now; `refused`: the old ones stay */
  rootsRead?(outcome: 'loaded' | 'refused'): void;
}

interface Log {
  info(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** The roots of one state of the files. */
interface Loaded {
  readonly roots: ReadonlyMap<string, Root>;
  readonly version: Version;
  /** Of the files: the same files have the same roots. */
  readonly digest: string;
}

/**
 * Reads the roots of a file or a directory, once.
 *
 * @throws TrustedRootsError with all faults
 */
export async function readTrustedRoots(place: string): Promise<ReadonlyMap<string, Root>> {
  return (await load(place, null)).roots;
}

/**
 * Trusted roots that follow their files. It looks at them every second: events of the operating system do not come from
 * every file system, and not for what a symbolic link leads to. All roots are exchanged in one step, or none.
 */
export class TrustedRoots implements Roots {
  readonly #place: string;
  readonly #log: Log;
  readonly #observer: TrustObserver;
  readonly #timer: NodeJS.Timeout;
  // Only `#take` and `#refuse` write these.
  #loaded: Loaded;
  #fault: string | null = null;
  /** What the last look found. Files count if two looks find the same: they may be half-written. */
  #seen = '';
  /** What was read, in order or not, and need not be read again. Not what the start read: it may have been half-written. */
  #done: string | null = null;
  /** The reading that is under way, and what was asked for behind it. */
  #turn: Promise<unknown> = Promise.resolve();
  #isLooking = false;

  private constructor(
    place: string,
    loaded: Loaded,
    { log, observer, pollMs }: { log: Log; observer: TrustObserver; pollMs: number },
  ) {
    this.#place = place;
    this.#loaded = loaded;
    this.#log = log;
    this.#observer = observer;
    this.#timer = setInterval(() => void this.#look(), pollMs).unref();
  }

  /**
   * Reads the roots, and follows their files until it is closed.
   *
   * @param place a file or a directory
   * @throws TrustedRootsError with all faults
   */
  static async open(
    place: string,
    { log, observer = {}, pollMs = POLL_MS }: { log: Log; observer?: TrustObserver; pollMs?: number },
  ): Promise<TrustedRoots> {
    const loaded = await load(place, null).catch((error: unknown) => {
      const { message, cause } = error as Error;
      throw new TrustedRootsError(`the trusted roots cannot be read: ${message}`, { cause });
    });
    log.info({ roots: loaded.roots.size, from: place }, 'the trusted roots were read');
    return new TrustedRoots(place, loaded, { log, observer, pollMs });
  }

  get(did: string): Root | undefined {
    return this.#loaded.roots.get(did);
  }

  /** Number of roots in force. */
  get size(): number {
    return this.#loaded.roots.size;
  }

  /** Whether the files have a fault, so that older roots are in force. */
  get isFaulty(): boolean {
    return this.#fault !== null;
  }

  /**
   * Reads the files again, changed or not.
   *
   * @returns the number of roots in force
   * @throws TrustedRootsError with all faults; the old roots stay
   */
  async reload(): Promise<number> {
    await this.#inTurn(async () => {
      try {
        this.#take(await load(this.#place, this.#loaded));
      } catch (error) {
        this.#refuse(error as Error, null);
        throw error;
      }
    });
    return this.size;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Reads the files if they have changed. Never rejects. A look that takes longer than a second skips the next ones. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    await this.#inTurn(async () => {
      const seen = await lookAt(this.#place).then(
        ({ mark }) => mark,
        (error: unknown) => (error as Error).message,
      );
      const isStill = seen === this.#seen;
      this.#seen = seen;
      if (!isStill || seen === this.#done) return;
      try {
        this.#take(await load(this.#place, this.#loaded));
      } catch (error) {
        this.#refuse(error as Error, seen);
      }
    });
    this.#isLooking = false;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  #take(loaded: Loaded): void {
    const isNew = loaded.digest !== this.#loaded.digest;
    const wasFaulty = this.isFaulty;
    this.#loaded = isNew ? loaded : { ...this.#loaded, version: loaded.version };
    this.#fault = null;
    this.#done = loaded.version.mark;
    if (!isNew && !wasFaulty) return;
    this.#observer.rootsRead?.('loaded');
    this.#log.info({ roots: this.size, from: this.#place }, 'the trusted roots were read again');
  }

  /** Says so once for each fault, not at each look. What could not be read is tried again. */
  #refuse(error: Error, seen: string | null): void {
    this.#done = error.cause === undefined ? seen : null;
    if (this.#fault === error.message) return;
    this.#fault = error.message;
    this.#observer.rootsRead?.('refused');
    this.#log.error(
      { err: error, roots: this.size },
      'the trusted roots cannot be read: the old ones still hold',
    );
  }
}

/**
 * Reads one state of the files: if they change meanwhile, again.
 *
 * @param before what was read before
 */
async function load(place: string, before: Loaded | null): Promise<Loaded> {
  for (let attempt = 1; ; attempt++) {
    const version = await lookAt(place);
    const read = await readBytes(version);
    const after = await lookAt(place);
    if (after.mark !== version.mark) {
      if (attempt < ATTEMPTS_AT_START) continue;
      throw new TrustedRootsError(`${place}: the files change while they are read`);
    }
    const digest = await digestOf(read);
    if (before?.digest === digest) return { ...before, version };
    const { roots, faults } = await readRoots(read);
    if (faults !== undefined) throw new TrustedRootsError(faults.join('\n'));
    return { roots, version, digest };
  }
}

async function digestOf(files: readonly BytesOfFile[]): Promise<string> {
  const hash = createHash('sha256');
  for (const { file, bytes } of files) {
    hash.update(`${file}\0${bytes.length}\0`);
    for (let at = 0; at < bytes.length; at += TURN_BYTES) {
      hash.update(bytes.subarray(at, at + TURN_BYTES));
      await nextTurn();
    }
  }
  return hash.digest('hex');
}
