import { Session, type Profiler } from 'node:inspector';

/** Tracks which blocks of the project's code have run, with V8's own counters. */
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

  /** Number of blocks that have run for the first time since the last call. */
  takeNew(): number {
    const before = this.#seen.size;
    this.#session.post('Profiler.takePreciseCoverage', (error, taken) => {
      if (error !== null) throw error;
      for (const script of taken.result) if (isOurs(script)) this.#add(script);
    });
    return this.#seen.size - before;
  }

  close(): void {
    this.#session.post('Profiler.stopPreciseCoverage');
    this.#session.disconnect();
  }

  #add({ url, functions }: Profiler.ScriptCoverage): void {
    for (const { ranges } of functions)
      for (const { startOffset, endOffset, count } of ranges)
        if (count > 0) this.#seen.add(`${url}:${startOffset}:${endOffset}`);
  }
}

function isOurs({ url }: Profiler.ScriptCoverage): boolean {
  return url.includes('/src/') && !url.includes('node_modules');
}
