import type { Arbitrary } from 'fast-check';

/** Something that takes text from strangers, with what must hold whatever the text is. */
export interface Target {
  readonly name: string;
  /** Texts to begin with; the corpus in `fuzz/corpus/<name>.json` is tried before them. */
  readonly texts: Arbitrary<string>;
  /** Texts of which all are tried first. */
  readonly seeds?: readonly string[];
  /** Pieces that mutations put in. */
  readonly dictionary: readonly string[];
  /**
   * Throws where something does not hold.
   *
   * @returns or resolves with texts where the code runs in another process: what came of it, in a few words each. News
   *   counts as new code does. Anything else is of no interest.
   */
  run(text: string): unknown;
  /**
   * The part of `run` whose time and memory may not grow faster than its input; left out, nothing is measured. It must not
   * change what a second call does.
   */
  readonly time?: (text: string) => void;
}

/** Throws, with what was expected and what was found. */
export function same(what: string, found: unknown, expected: unknown): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what}: found ${one}, expected ${other}`);
}

/** Whatever a caller does to an answer reaches no later answer: changes all of it that can be changed. */
export function scribble(value: unknown): void {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return;
  for (const [name, item] of Object.entries(value)) {
    scribble(item);
    if (!Object.isFrozen(value)) (value as Record<string, unknown>)[name] = 'changed by the caller';
  }
}
