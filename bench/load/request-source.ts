import { readFileSync } from 'node:fs';
import type { Workload } from '../workload/workload.js';
import { toRequest } from './connection.js';
import type { Prepared } from './open-loop-core.js';

/** Returns the requests of a workload in turn. */
export class RequestSource {
  readonly #warm: readonly Prepared[];
  readonly #cold: readonly Prepared[];
  readonly #coldEvery: number;
  readonly #step: number;
  #at = 0;
  #warmAt: number;
  #coldAt: number;

  /** @param turn the number of this source, if several sources share one list */
  constructor(workload: Workload, turn = { number: 0, of: 1 }) {
    const { coldEvery, path } = workload;
    this.#warm = coldEvery === 1 ? [] : read(workload.bodiesFile, workload.answersFile, path);
    this.#cold = coldEvery === 0 ? [] : read(workload.coldBodiesFile, workload.coldAnswersFile, path);
    this.#coldEvery = coldEvery;
    this.#step = turn.of;
    this.#warmAt = turn.number;
    this.#coldAt = workload.coldStart + turn.number;
  }

  next(): Prepared {
    this.#at++;
    const isCold = this.#coldEvery > 0 && this.#at % this.#coldEvery === 0;
    const request = isCold
      ? this.#cold[this.#coldAt % this.#cold.length]
      : this.#warm[this.#warmAt % this.#warm.length];
    if (isCold) this.#coldAt += this.#step;
    else this.#warmAt += this.#step;
    if (request === undefined) throw new RangeError('the workload holds no requests');
    return request;
  }
}

/** Makes each request once, so that the generator's garbage collections do not show in the latencies. */
function read(bodiesFile: string, answersFile: string, path = '/verify'): Prepared[] {
  const lines = readFileSync(bodiesFile, 'utf8').split('\n');
  const answers = answersFile === '' ? [] : readFileSync(answersFile, 'utf8').split('\n');
  // Each file ends with a line feed. The text before a tab is the header X-DRS-Bundle.
  return lines.slice(0, -1).map((line, at) => {
    const [body = '', bundle] = line.split('\t').toReversed();
    return { bytes: toRequest(body, path, bundle), answer: answers[at] ?? '' };
  });
}
