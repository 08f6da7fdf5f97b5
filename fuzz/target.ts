import type { Arbitrary } from 'fast-check';

/** A function that takes untrusted text, with the properties that must hold for any text. */
export interface Target {
  readonly name: string;
  /** The first texts. The corpus in `fuzz/corpus/<name>/` is tried before them. */
  readonly texts: Arbitrary<string>;
  /** Pieces that mutations insert. */
  readonly dictionary: readonly string[];
  /** Throws if a property does not hold. */
  run(text: string): void | Promise<void>;
  /**
   * The part of `run` whose time must not grow faster than its input. If left out, nothing is timed. A second call must
   * do the same work as the first.
   */
  readonly time?: (text: string) => void;
}

/** Throws if two values differ. The message shows both. */
export function same(what: string, found: unknown, expected: unknown): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what}: found ${one}, expected ${other}`);
}
