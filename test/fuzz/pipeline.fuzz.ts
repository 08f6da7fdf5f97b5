import fc from 'fast-check';
import { createVerifier } from '../../src/index.js';
import { randomBody, randomEdits } from '../oracle/generator/edits.js';
import { Forest, NOW } from '../oracle/generator/forest.js';
import { Random } from '../oracle/generator/random.js';
import {
  comparableAnswer,
  expectedOfLibrary,
  libraryCall,
  toRequest,
} from '../oracle/differential/request.js';
import { scribble, type Target } from './target.js';

/**
 * Compares the whole verifier with the oracle. A text is a list of numbers; each makes a bundle under shared chains.
 */

const forest = new Forest(new Random(20_261_122), 3, 20);
const verifiers = [0, 20_000, 64 * 1024 * 1024].map((receiptCacheBytes) =>
  createVerifier({ workerThreads: 0, receiptCacheBytes }),
);
const NOTHING_REVOKED = { remote: 'none', local: new Set<number>() } as const;

const pipeline: Target = {
  name: 'pipeline',
  texts: fc.array(fc.nat(1e6), { minLength: 1, maxLength: 4 }).map((numbers) => numbers.join(' ')),
  dictionary: [' ', '0', '1', '7', '99', ' 123456 '],
  async run(text) {
    const numbers = text
      .split(/\D+/)
      .filter((part) => part !== '')
      .slice(0, 4);
    for (const number of numbers) {
      const random = new Random(Number(number.slice(0, 9)));
      const { links, call } = forest.chain();
      const edits = Array.from({ length: random.below(3) }, () => randomEdits(random, links)).flat();
      const body = randomBody(random, call);
      const recipe = { links, call, edits, ...(body !== undefined && { body }) };
      const channel = random.pick(['text', 'value', 'member'] as const);
      const request = toRequest(recipe, { channel, now: NOW + random.pick([0, 0, 0, -11, 11]) });
      const expected = expectedOfLibrary(request, {}, NOTHING_REVOKED);
      for (const verifier of verifiers)
        for (let time = 0; time < 2; time++) {
          const [bundle, options] = libraryCall(request);
          const verdict = await verifier.verify(bundle, options);
          const actual = comparableAnswer(verdict);
          if (actual !== expected)
            throw new Error(`${JSON.stringify(request.bundle)}: found ${actual}, expected ${expected}`);
          // A caller that changes its verdict must not change the next one.
          if (verdict.valid) scribble(verdict.context);
        }
    }
  },
};

export const targets: readonly Target[] = [pipeline];
export const close = () => Promise.all(verifiers.map((verifier) => verifier.close()));
