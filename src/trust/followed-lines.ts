import { createHash } from 'node:crypto';
import { lookAt, LinesError, readBytes, readLines, type LinesKind } from './line-files.js';

interface Deps {
  readonly log: Record<'info' | 'error', (facts: object, message: string) => void>;
  /** Is told of each reading that counts. `loaded`: what is in the files is in force; `refused`: the old lines stay. */
  readonly onRead?: ((outcome: 'loaded' | 'refused') => void) | undefined;
  /** Milliseconds between two looks at the files; 1,000 by default. */
  readonly pollMs?: number | undefined;
}

type Loaded<T> = Awaited<ReturnType<typeof load<T>>>;

/**
 * Reads the lines of a file or a directory, once.
 *
 * @throws LinesError with all defects
 */
export async function readLinesAt<T>(kind: LinesKind<T>, place: string): Promise<ReadonlyMap<string, T>> {
  return (await load(kind, place)).lines;
}

/** The digest of what is in a file or a directory, as lines of a decision log name it. @throws LinesError if it cannot be read */
export async function digestAt(place: string): Promise<string> {
  return digestOf(await readBytes(await lookAt(place)));
}

/** Of the bytes of all files, one after the other. */
function digestOf(files: ReadonlyMap<string, Buffer>): string {
  const hash = createHash('sha256');
  for (const bytes of files.values()) hash.update(bytes);
  return `sha256:${hash.digest('hex')}`;
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
  // Only `#read` writes these.
  #loaded: Loaded<T>;
  #defect: string | null = null;
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
    this.#timer = setInterval(() => void this.#look(), deps.pollMs ?? 1_000).unref();
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

  /** The lines in force. */
  entries(): IterableIterator<[string, T]> {
    return this.#loaded.lines.entries();
  }

  /** Number of lines in force. */
  get size(): number {
    return this.#loaded.lines.size;
  }

  /** Of the files in force: see {@link digestAt}. */
  get digest(): string {
    return this.#loaded.digest;
  }

  /** Whether the files have a defect, so that older lines are in force. */
  get isFaulty(): boolean {
    return this.#defect !== null;
  }

  /**
   * Reads the files again, changed or not.
   *
   * @returns the number of lines in force
   * @throws LinesError with all defects; the old lines stay
   */
  async reload(): Promise<number> {
    await this.#inTurn(() => this.#read(null));
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
      if (isStill && seen !== this.#done) await this.#read(seen).catch(() => undefined);
    });
    this.#isLooking = false;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /**
   * Reads the files, and takes what is in them. Says once of each defect that they cannot be read, not at each look.
   *
   * @param seen what a look found just now: if they have changed since, they may be half-written, and are not taken
   */
  async #read(seen: string | null): Promise<void> {
    const { kind } = this;
    const { log, onRead } = this.#deps;
    try {
      const loaded = await load(kind, this.#place);
      if (seen !== null && loaded.mark !== seen) return;
      this.#loaded = loaded;
      this.#defect = null;
      this.#done = loaded.mark;
      onRead?.('loaded');
      log.info({ [kind.fact]: this.size, from: this.#place }, `the ${kind.name} were read again`);
    } catch (error) {
      const { message, cause } = error as Error;
      // What could not be read is tried again.
      this.#done = cause === undefined ? seen : null;
      if (this.#defect !== message) {
        this.#defect = message;
        onRead?.('refused');
        const facts = { err: error, [kind.fact]: this.size };
        log.error(facts, `the ${kind.name} cannot be read: the old ones still hold`);
      }
      throw error;
    }
  }
}

/** Reads one state of the files: if they change meanwhile, again. */
async function load<T>(kind: LinesKind<T>, place: string) {
  for (let attempt = 1; ; attempt++) {
    const version = await lookAt(place);
    const read = await readBytes(version);
    if ((await lookAt(place)).mark !== version.mark) {
      if (attempt < 5) continue;
      throw new LinesError(`${place}: the files change while they are read`);
    }
    const lines = await readLines(kind, read);
    const excess = kind.findExcess?.(lines) ?? null;
    if (excess !== null) throw new LinesError(`${place}: ${excess}`);
    return { lines, mark: version.mark, digest: digestOf(read) };
  }
}
