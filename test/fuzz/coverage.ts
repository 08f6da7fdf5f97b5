import { Session, type Profiler } from 'node:inspector';

/** Which blocks of the project's code have run, by V8's own counters; and what other processes were seen to do. */
export class Coverage {
  readonly #session = new Session();
  readonly #seen = new Set<string>();

  constructor() {
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** Number of blocks that have run so far. */
  get size(): number {
    return this.#seen.size;
  }

  /** What ran since the last call and had never run before. @param outcomes what else was seen */
  takeNew(outcomes: Iterable<string> = []): Set<string> {
    const found = new Set([...this.take(outcomes)].filter((block) => !this.#seen.has(block)));
    for (const block of found) this.#seen.add(block);
    return found;
  }

  /** What ran since the last call. */
  take(outcomes: Iterable<string> = []): Set<string> {
    const blocks = new Set(outcomes);
    this.#session.post('Profiler.takePreciseCoverage', (error, taken) => {
      if (error !== null) throw error;
      for (const script of taken.result) if (isOurs(script)) addBlocks(blocks, script);
    });
    return blocks;
  }

  close(): void {
    this.#session.post('Profiler.stopPreciseCoverage');
    this.#session.disconnect();
  }
}

function addBlocks(blocks: Set<string>, { url, functions }: Profiler.ScriptCoverage): void {
  for (const { ranges } of functions)
    for (const { startOffset, endOffset, count } of ranges)
      if (count > 0) blocks.add(`${url}:${startOffset}:${endOffset}`);
}

function isOurs({ url }: Profiler.ScriptCoverage): boolean {
  return url.includes('/src/') && !url.includes('node_modules');
}
