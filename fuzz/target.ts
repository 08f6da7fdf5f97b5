import type { Arbitrary } from 'fast-check';

/** Something that takes text from strangers, with what must hold whatever the text is. */
export interface Target {
  readonly name: string;
  /** Texts to begin with; the corpus in `fuzz/corpus/<name>/` is tried before them. */
  readonly texts: Arbitrary<string>;
  /** Pieces that mutations put in. */
  readonly dictionary: readonly string[];
  /** Throws where something does not hold. */
  run(text: string): void | Promise<void>;
  /**
   * The part of `run` whose time may not grow faster than its input; left out, nothing is timed. It must not change what
   * a second call does.
   */
  time?(text: string): void;
}

/** Throws, with what was expected and what was found. */
export function same(what: string, found: unknown, expected: unknown): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what}: found ${one}, expected ${other}`);
}
