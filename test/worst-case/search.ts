import { mainThreadMs } from './clock.js';
import { openPath } from './paths.js';
import type { Call } from './verify-path.js';
import type { Choice, Family, Parameters, Path } from './family.js';

/** The cost of one body. */
export interface Cost {
  readonly parameters: Parameters;
  readonly bytes: number;
  /** Milliseconds of the main thread: the median of several calls; the higher of `cold` and `warm`. */
  readonly ms: number;
  /** Milliseconds if the verifier sees the body for the first time. */
  readonly cold: number;
  /** Milliseconds if the verifier sees the body for the third time. */
  readonly warm: number;
  readonly answer: string;
  readonly answerBytes: number;
  /** The measured size. If the full size would take too long, this is smaller, and `ms` is extrapolated. */
  readonly measuredBytes: number;
  /** The exponent of the growth from half the size. 1 is linear. */
  readonly growth: number;
  /** The time that `JSON.parse` of the request alone takes. No check can avoid it. */
  readonly parse: number;
}

/** How exactly a body is measured. */
interface Care {
  /** Calls of each kind at the full size. */
  readonly calls: number;
  /** If the full size would take longer than this, its time is estimated: quadratic work would take minutes. */
  readonly maxMs: number;
  /** Whether growth is measured between half and full size. Otherwise it is measured with two small sizes. */
  readonly isGrowthWanted: boolean;
}

// For shorter times, the measured growth is mostly noise.
const MIN_MS_TO_ESTIMATE = 20;
// Shares of the full size, in ascending order, so that a large body is only measured if that will end in time.
const PARTS = [1 / 128, 1 / 32, 1 / 8, 1 / 2, 1];

/**
 * Measures one body at the full size.
 *
 * @returns `null` if no body with these parameters is small enough
 */
async function measure(
  family: Family,
  parameters: Parameters,
  maxBytes: number,
  { calls, maxMs, isGrowthWanted }: Care,
): Promise<Cost | null> {
  let before: { bytes: number; ms: number } | null = null;
  let isHarmless = false;
  for (const part of PARTS) {
    if (isHarmless && part < (isGrowthWanted ? 1 / 2 : 1)) continue;
    const body = family.make(parameters, Math.floor(maxBytes * part));
    if (Buffer.byteLength(body) > maxBytes * part) continue;
    const now = await time(family.path, body, part === 1 ? calls : 1);
    // Some bodies do not grow with the budget. Then there is no larger body.
    const hasGrown: boolean = before !== null && now.bytes >= before.bytes * 1.2;
    const growth: number =
      before === null || before.ms === 0 || !hasGrown
        ? 0
        : Math.log(now.ms / before.ms) / Math.log(now.bytes / before.bytes);
    const cost = {
      ...now,
      parameters,
      growth,
      measuredBytes: now.bytes,
      parse: timeParse(
        family.path === 'gate' ? body.slice(body.indexOf('\n', body.indexOf('\n') + 1)) : body,
      ),
    };
    if (part === 1) return cost;
    const estimate = now.ms * (maxBytes / now.bytes) ** Math.max(1, growth);
    if (now.ms > maxMs || (hasGrown && estimate > maxMs && now.ms > MIN_MS_TO_ESTIMATE)) {
      return { ...cost, bytes: maxBytes, ms: estimate };
    }
    isHarmless = before !== null;
    before = now;
  }
  return null;
}

function timeParse(text: string): number {
  globalThis.gc?.();
  const start = mainThreadMs();
  try {
    JSON.parse(text);
  } catch {
    // The time of a refusal counts too.
  }
  return mainThreadMs() - start;
}

async function time(path: Path, text: string, calls: number) {
  const bytes = Buffer.from(text);
  const cold: Call[] = [];
  const warm: Call[] = [];
  for (let at = 0; at < calls; at++) {
    const verify = await openPath(path);
    globalThis.gc?.();
    const first = await verify(bytes);
    cold.push(first);
    if (first.ms > 300) {
      warm.push(first);
      continue;
    }
    await verify(bytes);
    globalThis.gc?.();
    warm.push(await verify(bytes));
  }
  const [coldMs, warmMs] = [medianOf(cold), medianOf(warm)];
  const { answer, answerBytes } = cold[0] as Call;
  return {
    bytes: bytes.length,
    cold: coldMs,
    warm: warmMs,
    ms: Math.max(coldMs, warmMs),
    answer,
    answerBytes,
  };
}

function medianOf(calls: readonly Call[]): number {
  const sorted = calls.map(({ ms }) => ms).sort((left, right) => left - right);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
}

// If a row would take longer, it is estimated.
const MAX_MS_OF_ROW = 15_000;
// This is enough to find out which of two bodies is worse.
const IN_SEARCH: Care = { calls: 1, maxMs: 500, isGrowthWanted: false };

/** Options for searching a family. */
export interface SearchOptions {
  readonly maxBytes: number;
  /** Seconds for the random part of the search. */
  readonly secs: number;
  /** Calls of each kind for the row that is reported. */
  readonly calls: number;
  /** Returns a random number from 0 to 1; the same sequence for the same seed. */
  readonly random: () => number;
}

/**
 * Looks for the most expensive body of a family. First tries every value of every parameter with ordinary values for
 * the others, then random changes of the most expensive body so far.
 */
export async function search(
  family: Family,
  options: SearchOptions,
): Promise<{ worst: Cost; tried: number }> {
  const { maxBytes, secs, calls, random } = options;
  const seen = new Set<string>();
  // An object, since the compiler does not see that a closure changes the value.
  const found: { worst: Cost | null } = { worst: null };
  const attempt = async (parameters: Parameters): Promise<void> => {
    const key = JSON.stringify(parameters);
    if (seen.has(key)) return;
    seen.add(key);
    const cost = await measure(family, parameters, maxBytes, IN_SEARCH);
    if (cost === null) return;
    if (found.worst === null || cost.ms > found.worst.ms) found.worst = cost;
  };
  for (const parameters of sweep(family)) await attempt(parameters);
  const end = performance.now() + secs * 1000;
  for (let idle = 0; performance.now() < end && idle < 200; idle++) {
    const size = seen.size;
    await attempt(change(family, found.worst?.parameters ?? {}, random));
    if (seen.size > size) idle = 0;
  }
  const { worst } = found;
  if (worst === null) throw new RangeError(`${family.name}: no body has at most ${maxBytes} bytes`);
  const row = await measure(family, worst.parameters, maxBytes, {
    calls,
    maxMs: MAX_MS_OF_ROW,
    isGrowthWanted: true,
  });
  return { worst: row ?? worst, tried: seen.size };
}

/** Yields the ordinary parameters, and then each other value of each parameter. */
export function* sweep({ choices }: Family): Generator<Parameters> {
  const ordinary = Object.fromEntries(
    Object.entries(choices).map(([name, values]) => [name, values[0] as Choice]),
  );
  yield ordinary;
  for (const [name, values] of Object.entries(choices)) {
    for (const value of values.slice(1)) yield { ...ordinary, [name]: value };
  }
}

/** Changes one or two parameters. */
function change({ choices }: Family, parameters: Parameters, random: () => number): Parameters {
  const names = Object.keys(choices);
  const changed: Record<string, Choice> = { ...parameters };
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)] as T;
  for (let at = 0; at < (random() < 0.5 ? 1 : 2); at++) {
    const name = pick(names);
    changed[name] = pick(choices[name] as readonly Choice[]);
  }
  return changed;
}
