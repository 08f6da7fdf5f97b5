import { readFileSync } from 'node:fs';
import type { Workload } from '../workload/workload.js';
import type { Exchange } from '../workload/chains.js';

/** Returns the requests of a workload in turn. */
export class RequestSource {
  readonly #warm: readonly Exchange[];
  readonly #cold: readonly Exchange[];
  readonly #coldEvery: number;
  #at = 0;
  readonly #step: number;
  #warmAt: number;
  #coldAt: number;

  /** @param turn the number of this source, if several sources share one list */
  constructor(workload: Workload, turn = { number: 0, of: 1 }) {
    this.#warm = workload.coldEvery === 1 ? [] : read(workload.bodiesFile, workload.answersFile);
    this.#cold = workload.coldEvery === 0 ? [] : read(workload.coldBodiesFile, workload.coldAnswersFile);
    this.#coldEvery = workload.coldEvery;
    this.#step = turn.of;
    this.#warmAt = turn.number;
    this.#coldAt = workload.coldStart + turn.number;
  }

  next(): Exchange {
    this.#at++;
    const isCold = this.#coldEvery > 0 && this.#at % this.#coldEvery === 0;
    const exchange = isCold
      ? this.#cold[this.#coldAt % this.#cold.length]
      : this.#warm[this.#warmAt % this.#warm.length];
    if (isCold) this.#coldAt += this.#step;
    else this.#warmAt += this.#step;
    if (exchange === undefined) throw new RangeError('the workload holds no requests');
    return exchange;
  }
}

function read(bodiesFile: string, answersFile: string): Exchange[] {
  const bodies = readFileSync(bodiesFile, 'utf8').split('\n');
  const answers = answersFile === '' ? [] : readFileSync(answersFile, 'utf8').split('\n');
  // Each file ends with a line feed.
  return bodies.slice(0, -1).map((body, at) => ({ body, answer: answers[at] ?? '' }));
}
