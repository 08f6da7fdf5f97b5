import type { Root, Roots } from '../verify/parts.js';
import { lookAt, readBytes, readRoots, TrustedRootsError } from './roots-files.js';

/** Milliseconds between two looks at the files. */
const POLL_MS = 1000;
const ATTEMPTS = 5;

/** Is told of each reading that counts. */
export interface TrustObserver {
  /** @param outcome `loaded`: the roots of the files are in force; `refused`: the old ones stay */
  rootsRead?(outcome: 'loaded' | 'refused'): void;
}

type Log = Record<'info' | 'error', (facts: object, message: string) => void>;

/** The roots of one state of the files. */
interface Loaded {
  readonly roots: ReadonlyMap<string, Root>;
  readonly mark: string;
}

/**
 * Reads the roots of a file or a directory, once.
 *
 * @throws TrustedRootsError with all faults
 */
export async function readTrustedRoots(place: string): Promise<ReadonlyMap<string, Root>> {
  return (await load(place)).roots;
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
  /** What was read, in order or not, and need not be read again. */
  #done: string | null;
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
    this.#done = loaded.mark;
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
    const loaded = await load(place).catch((error: unknown) => {
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
        this.#take(await load(this.#place));
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
        const loaded = await load(this.#place);
        // Else they have changed since, and may be half-written.
        if (loaded.mark === seen) this.#take(loaded);
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
    this.#loaded = loaded;
    this.#fault = null;
    this.#done = loaded.mark;
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

/** Reads one state of the files: if they change meanwhile, again. */
async function load(place: string): Promise<Loaded> {
  for (let attempt = 1; ; attempt++) {
    const version = await lookAt(place);
    const read = await readBytes(version);
    if ((await lookAt(place)).mark !== version.mark) {
      if (attempt < ATTEMPTS) continue;
      throw new TrustedRootsError(`${place}: the files change while they are read`);
    }
    return { roots: await readRoots(read), mark: version.mark };
  }
}
