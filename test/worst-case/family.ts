/** A value of a generator's parameter. */
export type Choice = number | string;

/** The code that reads the bytes: `/verify`, the gate, the gate as `/v1/gate` or over gRPC, a relay, or the reader of status lists. */
export type Path = 'verify' | 'gate' | 'described' | 'grpc' | 'guard' | 'sign' | 'list';

/** The parameters of one body. */
export type Parameters = Readonly<Record<string, Choice>>;

/** A kind of request body, with the parameters that a search can change. */
export interface Family {
  readonly name: string;
  /** The code that reads the body. */
  readonly path: Path;
  /** The values to try for each parameter, the ordinary one first. */
  readonly choices: Readonly<Record<string, readonly Choice[]>>;
  /** Makes a body of at most `budget` bytes, and close to that if the parameters allow it. */
  make(parameters: Parameters, budget: number): string;
}

/** Makes a family. Its parameters have the names of its choices. */
export function family<const C extends Readonly<Record<string, readonly Choice[]>>>(
  name: string,
  choices: C,
  make: (parameters: { readonly [N in keyof C]: C[N][number] }, budget: number) => string,
  path: Path = 'verify',
): Family {
  return {
    name,
    path,
    choices,
    make: (parameters, budget) => make(parameters as { readonly [N in keyof C]: C[N][number] }, budget),
  };
}

/**
 * The largest body of at most `budget` bytes that a builder makes from a count, found with a few guesses.
 *
 * @param build makes a body whose size grows about linearly with `count`
 * @param max the largest count to try, since the body may not grow at all
 */
export function fit(budget: number, build: (count: number) => string, max = 2 * budget): string {
  let best = build(1);
  let low = { count: 1, bytes: Buffer.byteLength(best) };
  let tooMany = Infinity;
  let count = Math.min(max, 16);
  for (let guess = 0; guess < 16 && count > low.count && count < tooMany; guess++) {
    const text = build(count);
    const bytes = Buffer.byteLength(text);
    const perUnit = (bytes - low.bytes) / (count - low.count);
    if (bytes <= budget) {
      best = text;
      if (bytes > budget * 0.97) break;
      low = { count, bytes };
    } else {
      tooMany = count;
    }
    // Guess a little too low. If more units have not made the body longer yet, try many more.
    const next = perUnit > 0 ? low.count + ((budget - low.bytes) / perUnit) * 0.99 : low.count * 16;
    count = Math.min(max, Math.floor(next < tooMany ? next : (low.count + tooMany) / 2));
  }
  return best;
}

/** Makes `count` items, one by one. */
export function list<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** JSON text of an object with `count` members. */
export function members(count: number, make: (index: number) => string): string {
  return `{${list(count, make).join(',')}}`;
}
