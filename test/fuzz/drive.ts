import fc from 'fast-check';
import { Random } from '../oracle/generator/random.js';
import { readCorpus, writeCorpus } from './corpus.js';
import { Coverage } from './coverage.js';
import { findGrowth, LONGEST_GROWN } from './growth.js';
import { mutate } from './mutate.js';
import type { Target } from './target.js';

/** The result of a run of one target. */
export interface FuzzResult {
  readonly target: string;
  readonly executions: number;
  /** Blocks of code that this run reached, and outcomes of other processes. */
  readonly blocks: number;
  readonly corpus: number;
  readonly failures: readonly Failure[];
}

export interface Failure {
  readonly text: string;
  readonly error: string;
}

export interface FuzzOptions {
  readonly milliseconds: number;
  readonly seed: number;
  /** Whether texts that reached new code are shortened and kept in the repository. Otherwise nothing is written. */
  readonly keep?: boolean;
  /** The longest text, in characters, whose time and memory are measured; default {@link LONGEST_GROWN}. */
  readonly longestGrown?: number;
}

const BATCH = 40;
const MAX_FAILURES = 5;
const MAX_KEPT = 200;

/**
 * Feeds a target with texts: its corpus, its seeds, new ones, and mutations of texts that were the first to reach some
 * code. Coverage is read once a batch, since that takes milliseconds. A batch that reached new code is run again, one
 * text at a time.
 */
export async function drive(target: Target, options: FuzzOptions): Promise<FuzzResult> {
  const { milliseconds, seed, keep, longestGrown = LONGEST_GROWN } = options;
  const random = new Random(seed);
  const coverage = new Coverage();
  const fresh = fc.sample(target.texts, { seed, numRuns: 200 });
  const stored = readCorpus(target.name);
  const corpus = [...stored, ...(target.seeds ?? []), ...fresh.slice(0, 20)];
  const failures: Failure[] = [];
  const reasons = new Set<string>();
  const kept: string[] = [];
  let executions = 0;
  let until = Infinity;

  const fail = (text: string, reason: string, kind = reason) => {
    if (failures.length < MAX_FAILURES && !reasons.has(kind)) failures.push({ text, error: reason });
    reasons.add(kind);
  };
  const run = async (text: string): Promise<readonly string[]> => {
    executions++;
    try {
      const outcomes = await target.run(text);
      return Array.isArray(outcomes) ? outcomes.map(String) : [];
    } catch (error) {
      fail(text, (error as Error).stack?.split('\n').slice(0, 2).join(' ') ?? String(error));
      return [];
    }
  };
  /** The code that a text reaches. */
  const reach = async (text: string) => {
    coverage.take();
    return coverage.take(await run(text));
  };
  /** Keeps the texts of a batch that reached new code, each shortened as long as it still reaches that code. */
  const keepWhatReached = async (
    batch: readonly string[],
    news: ReadonlySet<string>,
    isInCorpus: boolean,
  ) => {
    const missing = new Set(news);
    for (const text of batch) {
      // What is not kept is of use only while there is time for mutations of it.
      if (missing.size === 0 || (keep !== true && Date.now() > until)) return;
      const reached = await reach(text);
      const gains = [...missing].filter((block) => reached.has(block));
      if (gains.length === 0) continue;
      for (const block of gains) missing.delete(block);
      if (!isInCorpus) corpus.push(text);
      if (keep !== true || kept.length >= MAX_KEPT || Date.now() > keepUntil) continue;
      const stillReaches = async (short: string) => {
        const blocks = await reach(short);
        return gains.every((block) => blocks.has(block));
      };
      kept.push(await shorten(text, stillReaches));
    }
  };

  const first: string[] = [];
  // Shortening texts may take as long again as finding them.
  const keepUntil = Date.now() + 2 * milliseconds;
  for (const text of corpus) first.push(...(await run(text)));
  const reached = coverage.takeNew(first);
  if (keep === true) await keepWhatReached([...corpus], reached, true);

  until = Date.now() + milliseconds;
  while (Date.now() < until && failures.length < MAX_FAILURES) {
    const roundStart = Date.now();
    const batch = Array.from({ length: BATCH }, () =>
      random.chance(0.2)
        ? random.pick(fresh)
        : mutate(random, random.pick(corpus), corpus, target.dictionary),
    );
    const outcomes: string[] = [];
    for (const text of batch) {
      outcomes.push(...(await run(text)));
      // A text that finds something may take seconds.
      if (Date.now() > until) break;
    }
    const news = coverage.takeNew(outcomes);
    if (news.size > 0) await keepWhatReached(batch, news, false);
    // A third of the time is spent on looking for texts that take too much time or memory.
    const growing = Date.now() + (Date.now() - roundStart) / 2;
    do {
      const text = random.pick(corpus);
      const measure = random.chance(0.5) ? 'time' : 'memory';
      const found = findGrowth(target, random, text, measure, longestGrown);
      if (found !== null) fail(text, found, measure);
    } while (target.time !== undefined && Date.now() < growing);
  }
  const blocks = coverage.size;
  coverage.close();
  if (keep === true && failures.length === 0) writeCorpus(target.name, kept);
  return { target: target.name, executions, blocks, corpus: corpus.length, failures };
}

const MAX_ATTEMPTS = 60;
// If each attempt waits for another process, there are fewer attempts.
const MAX_MILLISECONDS = 1_000;

/** Removes parts of a text that it does not need, as far as a few attempts can tell. */
async function shorten(text: string, isEnough: (short: string) => Promise<boolean>): Promise<string> {
  let best = text;
  let attempts = 0;
  const end = Date.now() + MAX_MILLISECONDS;
  for (let size = Math.ceil(text.length / 2); size >= 1; size = Math.floor(size / 2))
    for (let at = 0; at < best.length && attempts < MAX_ATTEMPTS && Date.now() < end;) {
      attempts++;
      const shorter = best.slice(0, at) + best.slice(at + size);
      if (await isEnough(shorter)) best = shorter;
      else at += size;
    }
  return best;
}
