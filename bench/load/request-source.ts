import { readFileSync } from 'node:fs';
import type { Workload } from '../workload/workload.js';
import { toRequest } from './connection.js';
import type { Prepared } from './open-loop-core.js';

/**
 * Returns the requests of a workload in turn. Each is made only once, so that the generator's garbage collections do not
 * show in the latencies.
 */
export function requestsOf({ bodiesFile, answersFile, start, path }: Workload): () => Prepared {
  const linesIn = (file: string) => (file === '' ? [] : readFileSync(file, 'utf8').trimEnd().split('\n'));
  const answers = linesIn(answersFile);
  const requests = linesIn(bodiesFile).map((line, at): Prepared => {
    const [body = '', bundle] = line.split('\t').toReversed();
    return { bytes: toRequest(body, path, bundle), answer: answers[at] ?? '' };
  });
  let next = start;
  return () => requests[next++ % requests.length] as Prepared;
}
