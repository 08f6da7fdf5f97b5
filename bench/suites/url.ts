import { readFileSync } from 'node:fs';
import { placeOf, post, type Place } from '../load/place.js';
import type { UrlOptions } from '../run/options.js';
import { SPLIT } from '../run/programs.js';
import { warmingUp, type Suite } from '../run/suite.js';
import { invalidKinds, vectorKinds, type Kind } from '../workload/kinds.js';
import { measureDepth } from './latency.js';

/** Measures the latencies of a service that is already running, if its verdicts are right. @throws Error if it must not */
export async function urlSuite(options: UrlOptions): Promise<Suite> {
  const place = await placeOf(options.url, options.isMine);
  const render = rendererOf(options.template);
  return {
    name: 'url',
    about: 'the latencies of a service that runs already, warm, by chain depth and by load',
    isAboutLatency: true,
    run: async (bench) => {
      const { plan, recorder, workloads, say } = bench;
      const valid = plan.coreDepths.map((depth): Kind => {
        const body = workloads.warm(depth)[0]?.body ?? '';
        return { name: `a valid call, depth ${depth}`, body, expected: 'valid' };
      });
      const fresh = [...valid, ...invalidKinds()];
      // Vectors are exact texts of requests of this protocol.
      const isOurs = options.template === null;
      const rendered = fresh.map((kind) => ({ ...kind, body: render(kind.body) }));
      const kinds = [...rendered, ...(isOurs ? vectorKinds() : [])];
      const hasCodes = isOurs && options.marker === null;
      const { wrong, marker } = await checkKinds(place, kinds, options.marker, hasCodes);
      for (const line of wrong.slice(0, 10)) say(`url: ${line}`);
      recorder.blame('url', wrong.length, wrong[0] ?? '');
      // Figures of wrong verdicts would be compared with those of right ones.
      if (wrong.length > 0) return;
      say(`url: ${kinds.length} kinds of requests have the right verdict`);
      recorder.notes.push(`url: ${options.url}; ${kinds.length} kinds of requests had the right verdict`);
      if (SPLIT !== null)
        recorder.notes.push(
          `url: the generator never sleeps, on core ${SPLIT.generator.join(',')}: start the service with taskset -c ${SPLIT.service.join(',')}`,
        );
      // What else runs here cannot be told from the service itself.
      const unwatched = { ...bench, watch: warmingUp(bench).watch };
      for (const depth of plan.coreDepths) {
        const calls = workloads.warm(depth).map(({ body }) => ({ body: render(body) }));
        const workload = workloads.write('warm', depth, calls, marker, place.path, 'url');
        await measureDepth(unwatched, { ...place, pid: 0 }, `url/warm/d${depth}`, depth, () => workload);
      }
    },
  };
}

/**
 * Asks for a verdict on each kind of call.
 *
 * @param marker what is in the answer to a valid call, and in no other; `null`: a JSON object with `valid`
 * @param hasCodes whether a refusal has its code in `error.code`
 * @returns what was answered wrongly, and the marker
 */
export async function checkKinds(
  place: Place,
  kinds: readonly Kind[],
  marker: string | null,
  hasCodes: boolean,
) {
  const wrong: string[] = [];
  let found = marker ?? '';
  for (const { name, body, expected } of kinds) {
    const { status, text } = await post(place, body).catch((error: unknown) => ({
      ...{ status: 0, text: (error as Error).message },
    }));
    const verdict = marker === null ? verdictIn(text) : { valid: text.includes(marker) };
    const isValid = status === 200 && verdict.valid === true;
    const code = isValid ? 'valid' : status === 200 ? verdict.error?.code : status;
    if (isValid !== (expected === 'valid') || (hasCodes && code !== expected))
      wrong.push(`${name}: ${status} ${text.slice(0, 200)}, expected ${expected}`);
    else if (isValid && marker === null) found = /"valid"\s*:\s*true/.exec(text)?.[0] ?? text;
  }
  return { wrong, marker: found };
}

function verdictIn(text: string): { valid?: unknown; error?: { code?: unknown } } {
  try {
    return (JSON.parse(text) ?? {}) as { valid?: unknown };
  } catch {
    return {};
  }
}

/** Makes a body of a bundle. @throws Error if the template has no place for a call */
export function rendererOf(template: string | null): (bundle: string) => string {
  if (template === null) return (bundle) => bundle;
  const text = readFileSync(template, 'utf8');
  if (!text.includes('{{bundle}}') && !(text.includes('{{receipts}}') && text.includes('{{invocation}}')))
    throw new Error(`${template} has neither {{bundle}} nor {{receipts}} and {{invocation}}`);
  return (bundle) => {
    const { receipts, invocation } = JSON.parse(bundle) as { receipts: unknown; invocation: unknown };
    // A function, since `$` has a meaning in a replacement.
    return text
      .replaceAll('{{bundle}}', () => bundle)
      .replaceAll('{{receipts}}', () => JSON.stringify(receipts))
      .replaceAll('{{invocation}}', () => JSON.stringify(invocation));
  };
}
