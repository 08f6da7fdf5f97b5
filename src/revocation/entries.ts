import { hasRunOut, type LocalRevocation, type Target } from './entry.js';

const SWEEP_MS = 3_600_000;
/** Entries that are looked at before others have their turn. */
const ENTRIES_PER_TURN = 10_000;

/** All local revocations that a process knows, in memory: about 200 bytes each, and the text of its reason. */
export class Entries {
  readonly #entries = new Map<Target, LocalRevocation>();
  /** See `RevocationView.names`. Only {@link add} writes it. */
  names: object | null = null;
  #sweptAt = -Infinity;
  /** Only {@link sweep} writes it. */
  #sweeping: Promise<void> | null = null;

  get size(): number {
    return this.#entries.size;
  }

  has(target: Target): boolean {
    return this.#entries.has(target);
  }

  get(target: Target): LocalRevocation | undefined {
    return this.#entries.get(target);
  }

  /** Whether an entry says nothing new: what it ends is revoked already, for at least as long. */
  covers({ target, exp }: LocalRevocation): boolean {
    const known = this.#entries.get(target);
    return known !== undefined && (known.exp === null || (exp !== null && exp <= known.exp));
  }

  add(entry: LocalRevocation): void {
    if (this.covers(entry)) return;
    this.#entries.set(entry.target, entry);
    if (typeof entry.target === 'string') this.names = {};
  }

  /**
   * Drops entries that have run out: at most once an hour, since it looks at all.
   *
   * @returns `null` if nothing is left to do
   */
  sweep(nowMs: number): Promise<void> | null {
    if (nowMs < this.#sweptAt || nowMs >= this.#sweptAt + SWEEP_MS) {
      this.#sweptAt = nowMs;
      const all = this.values();
      this.#sweeping = this.#sweepSome(all, nowMs) ? null : this.#sweepRest(all, nowMs);
    }
    return this.#sweeping;
  }

  /** @returns whether these were the last */
  #sweepSome(all: IterableIterator<LocalRevocation>, nowMs: number): boolean {
    for (let left = ENTRIES_PER_TURN; left > 0; left--) {
      const next = all.next();
      if (next.done === true) return true;
      if (hasRunOut(next.value, nowMs)) this.#entries.delete(next.value.target);
    }
    return false;
  }

  async #sweepRest(all: IterableIterator<LocalRevocation>, nowMs: number): Promise<void> {
    do await new Promise((resolve) => setTimeout(resolve));
    while (!this.#sweepSome(all, nowMs));
    this.#sweeping = null;
  }

  /** In the order in which they were added. Entries may be added meanwhile. */
  values(): IterableIterator<LocalRevocation> {
    return this.#entries.values();
  }
}
