import type { Arbitrary } from 'fast-check';

/** A function that takes untrusted text, with the properties that must hold for any text. */
export interface Target {
  readonly name: string;
  /** The first texts. The corpus in `corpus/<name>.json` is tried before them. */
  readonly texts: Arbitrary<string>;
  /** More texts. All of them are tried first. */
  readonly seeds?: readonly string[];
  /** Pieces that mutations insert. */
  readonly dictionary: readonly string[];
  /**
   * Throws if a property does not hold.
   *
   * @returns if the code runs in another process: outcomes in a few words each, or a promise of them. A new outcome
   *   counts like new code. Any other result is ignored.
   */
  run(text: string): unknown;
  /**
   * The part of `run` whose time and memory must not grow faster than its input. If left out, nothing is measured. A
   * second call must do the same work as the first.
   */
  readonly time?: (text: string) => void;
}

/** Throws if two values differ. The message shows both. */
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
