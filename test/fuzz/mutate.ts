import type { Random } from '../oracle/generator/random.js';

const MAX_LENGTH = 20_000;

/** Makes a text that is similar to one of a corpus. */
export function mutate(
  random: Random,
  text: string,
  corpus: readonly string[],
  dictionary: readonly string[],
): string {
  let changed = text;
  for (let count = 1 + random.below(4); count > 0; count--)
    changed = once(random, changed, corpus, dictionary);
  return changed.slice(0, MAX_LENGTH);
}

function once(
  random: Random,
  text: string,
  corpus: readonly string[],
  dictionary: readonly string[],
): string {
  const from = random.below(text.length + 1);
  const to = Math.min(text.length, from + random.pick([0, 1, 1, 2, 4, 16, 64]));
  const put = (piece: string) => text.slice(0, from) + piece + text.slice(to);
  switch (random.below(7)) {
    case 0:
      return put('');
    case 1:
      return put(String.fromCharCode(random.pick([random.below(128), random.below(0x2_0000) & 0xffff])));
    case 2:
    case 3:
      return put(random.pick(dictionary));
    case 4:
      return put(text.slice(from, to).repeat(random.pick([2, 3, 10, 70])));
    case 5: {
      const other = random.pick(corpus);
      return put(other.slice(random.below(other.length + 1)).slice(0, 200));
    }
    default: {
      const at = random.below(text.length + 1);
      return put(text.slice(at, at + random.pick([1, 4, 16, 64])));
    }
  }
}

/**
 * Makes a longer text of the same shape, with one part repeated `times` times: the entries of lists and the members of
 * objects if the text is JSON, otherwise one substring.
 */
export function grow(random: Random, text: string, times: number): string {
  const stretch = () => {
    const from = random.below(text.length + 1);
    const to = from + 1 + random.below(20);
    return text.slice(0, from) + text.slice(from, to).repeat(times) + text.slice(to);
  };
  try {
    return JSON.stringify(longer(JSON.parse(text), times, random.below(2)));
  } catch {
    return stretch();
  }
}

function longer(value: unknown, times: number, style: number): unknown {
  if (Array.isArray(value))
    return Array.from({ length: times }, (_, copy) =>
      value.map((item: unknown) =>
        typeof item === 'string' ? numbered(item, copy, style) : longer(item, 1, style),
      ),
    ).flat();
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, longer(item, times, style)]));
}

/** Makes copies of an entry that differ, so that a set of them is not small. A `prefix/*` stays a prefix. */
const numbered = (text: string, copy: number, style: number) =>
  text.endsWith('/*') ? `${text.slice(0, -1)}${copy}/*` : style === 0 ? `${text}${copy}` : `${text}/${copy}`;
