import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import path from 'node:path';
import fc from 'fast-check';
import { Random } from '../test/oracle/generator/random.js';
import type { Coverage } from './coverage.js';
import { grow, mutate } from './mutate.js';
import type { Target } from './target.js';

/** The result of a run of one target. */
export interface FuzzResult {
  readonly target: string;
  readonly executions: number;
  /** Blocks of code that this target was the first to reach in this process. */
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
  /** A folder for texts that reached new code. If left out, they are not kept. */
  readonly keepIn?: string;
}

const BATCH = 40;
const MAX_FAILURES = 5;

export const CORPUS = path.join(process.cwd(), 'fuzz', 'corpus');

/**
 * Feeds a target with texts: its corpus, new ones, and mutations of texts that were the first to reach some code.
 * Coverage is read once a batch, since that takes milliseconds. A batch that reached new code is run again, one text at
 * a time.
 */
export async function drive(target: Target, coverage: Coverage, options: FuzzOptions): Promise<FuzzResult> {
  const { milliseconds, seed, keepIn } = options;
  const random = new Random(seed);
  const fresh = fc.sample(target.texts, { seed, numRuns: 200 });
  const corpus = [...readCorpus(target.name), ...fresh.slice(0, 20)];
  const failures: Failure[] = [];
  const reasons = new Set<string>();
  let executions = 0;
  const blocksBefore = coverage.size;
  const run = async (text: string): Promise<void> => {
    executions++;
    try {
      await target.run(text);
    } catch (error) {
      const reason = (error as Error).stack?.split('\n').slice(0, 2).join(' ') ?? String(error);
      if (failures.length < MAX_FAILURES && !reasons.has(reason)) failures.push({ text, error: reason });
      reasons.add(reason);
    }
  };
  for (const text of corpus) await run(text);
  coverage.takeNew();
  const until = Date.now() + milliseconds;
  let kept = 0;
  while (Date.now() < until && failures.length < MAX_FAILURES) {
    const roundStart = Date.now();
    const batch = Array.from({ length: BATCH }, () =>
      random.chance(0.2)
        ? random.pick(fresh)
        : mutate(random, random.pick(corpus), corpus, target.dictionary),
    );
    for (const text of batch) await run(text);
    if (coverage.takeNew() > 0)
      for (const text of batch.slice(0, 8)) {
        corpus.push(text);
        if (keepIn !== undefined && kept++ < 40) keep(keepIn, target.name, text);
      }
    // A third of the time is spent on looking for texts that take too long.
    const growing = Date.now() + (Date.now() - roundStart) / 2;
    do {
      const failure = findGrowth(target, random, random.pick(corpus));
      if (failure === null || reasons.has('growth')) continue;
      reasons.add('growth');
      failures.push(failure);
    } while (target.time !== undefined && Date.now() < growing);
  }
  return {
    target: target.name,
    executions,
    blocks: coverage.size - blocksBefore,
    corpus: corpus.length,
    failures,
  };
}

// The limit for the growth of time with four times the input: quadratic growth would be 16. Times that are too short to
// measure do not count.
const MAX_RATIO = 11;
const MIN_MILLISECONDS = 20;
const SIZES = [64, 256, 1024, 4096];

/**
 * Finds time that grows faster than the text. Uses the lowest of three processor times of this thread, so that other
 * programs have little effect.
 */
export function findGrowth(target: Target, random: Random, text: string): Failure | null {
  if (target.time === undefined || text.length > 2_000) return null;
  let before = Infinity;
  for (const times of SIZES) {
    const long = grow(new Random(random.below(1e9)), text, times);
    if (long.length > 4_000_000) return null;
    const took = timeOf(target, long);
    if (took > MIN_MILLISECONDS && took > MAX_RATIO * Math.max(before, 0.5)) {
      const again = Math.min(timeOf(target, long), timeOf(target, long), took);
      if (again > MIN_MILLISECONDS && again > MAX_RATIO * Math.max(before, 0.5))
        return {
          text,
          error: `time grows faster than the input: ${before.toFixed(1)} ms, then ${again.toFixed(1)} ms for four times as much (${long.length} characters)`,
        };
    }
    before = took;
  }
  return null;
}

function timeOf({ time }: Target, text: string): number {
  const start = process.cpuUsage();
  time?.(text);
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

export function readCorpus(name: string): string[] {
  const folder = path.join(CORPUS, name);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .sort()
    .map((file) => readFileSync(path.join(folder, file), 'utf8'));
}

function keep(folder: string, name: string, text: string): void {
  const file = createHash('sha256').update(text).digest('hex').slice(0, 12);
  mkdirSync(path.join(folder, name), { recursive: true });
  writeFileSync(path.join(folder, name, file), text);
}
