import { lookAt, LinesError, readBytes, readLines, type LinesKind } from './line-files.js';

/** Milliseconds between two looks at the files. */
const POLL_MS = 1000;
const ATTEMPTS = 5;

/** What lines that follow their files are handed. */
interface Deps {
  readonly log: Record<'info' | 'error', (facts: object, message: string) => void>;
  /** Is told of each reading that counts. `loaded`: what is in the files is in force; `refused`: the old lines stay. */
  readonly onRead?: ((outcome: 'loaded' | 'refused') => void) | undefined;
  readonly pollMs?: number | undefined;
}

/** The lines of one state of the files. */
interface Loaded<T> {
  readonly lines: ReadonlyMap<string, T>;
  readonly mark: string;
}

/**
 * Reads the lines of a file or a directory, once.
 *
 * @throws LinesError with all defects
 */
export async function readLinesAt<T>(kind: LinesKind<T>, place: string): Promise<ReadonlyMap<string, T>> {
  return (await load(kind, place)).lines;
}

/**
 * Lines that follow their files. It looks at them every second: events of the operating system do not come from
 * every file system, and not for what a symbolic link leads to. All lines are exchanged in one step, or none.
 */
export class FollowedLines<T> {
  readonly kind: LinesKind<T>;
  readonly #place: string;
  readonly #deps: Deps;
  readonly #timer: NodeJS.Timeout;
  // Only `#take` and `#refuse` write these.
  #loaded: Loaded<T>;
  #fault: string | null = null;
  /** What the last look found. Files count if two looks find the same: they may be half-written. */
  #seen = '';
  /** The state of the files that was read, valid or not, and need not be read again. */
  #done: string | null;
  /** The current reading, and those that wait for it. */
  #turn: Promise<unknown> = Promise.resolve();
  #isLooking = false;

  private constructor(kind: LinesKind<T>, place: string, loaded: Loaded<T>, deps: Deps) {
    this.kind = kind;
    this.#place = place;
    this.#loaded = loaded;
    this.#done = loaded.mark;
    this.#deps = deps;
    this.#timer = setInterval(() => void this.#look(), deps.pollMs ?? POLL_MS).unref();
  }

  /**
   * Reads the lines, and follows their files until it is closed.
   *
   * @param place a file or a directory
   * @throws LinesError with all defects
   */
  static async open<T>(kind: LinesKind<T>, place: string, deps: Deps): Promise<FollowedLines<T>> {
    const loaded = await load(kind, place).catch((error: unknown) => {
      const { message, cause } = error as Error;
      throw new LinesError(`the ${kind.name} cannot be read: ${message}`, { cause });
    });
    deps.log.info({ [kind.fact]: loaded.lines.size, from: place }, `the ${kind.name} were read`);
    return new FollowedLines(kind, place, loaded, deps);
  }

  get(key: string): T | undefined {
    return this.#loaded.lines.get(key);
  }

  /** Number of lines in force. */
  get size(): number {
    return this.#loaded.lines.size;
  }

  /** Whether the files have a fault, so that older lines are in force. */
  get isFaulty(): boolean {
    return this.#fault !== null;
  }

  /**
   * Reads the files again, changed or not.
   *
   * @returns the number of lines in force
   * @throws LinesError with all defects; the old lines stay
   */
  async reload(): Promise<number> {
    await this.#inTurn(async () => {
      try {
        this.#take(await load(this.kind, this.#place));
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
        const loaded = await load(this.kind, this.#place);
        // Otherwise they have changed since, and may be half-written.
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

  #take(loaded: Loaded<T>): void {
    this.#loaded = loaded;
    this.#fault = null;
    this.#done = loaded.mark;
    this.#deps.onRead?.('loaded');
    const { fact, name } = this.kind;
    this.#deps.log.info({ [fact]: this.size, from: this.#place }, `the ${name} were read again`);
  }

  /** Says so once for each fault, not at each look. What could not be read is tried again. */
  #refuse(error: Error, seen: string | null): void {
    this.#done = error.cause === undefined ? seen : null;
    if (this.#fault === error.message) return;
    this.#fault = error.message;
    this.#deps.onRead?.('refused');
    this.#deps.log.error(
      { err: error, [this.kind.fact]: this.size },
      `the ${this.kind.name} cannot be read: the old ones still hold`,
    );
  }
}

/** Reads one state of the files: if they change meanwhile, again. */
async function load<T>(kind: LinesKind<T>, place: string): Promise<Loaded<T>> {
  for (let attempt = 1; ; attempt++) {
    const version = await lookAt(place);
    const read = await readBytes(version);
    if ((await lookAt(place)).mark !== version.mark) {
      if (attempt < ATTEMPTS) continue;
      throw new LinesError(`${place}: the files change while they are read`);
    }
    return { lines: await readLines(kind, read), mark: version.mark };
  }
}
