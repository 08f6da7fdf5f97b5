import { readFileSync } from 'node:fs';
import path from 'node:path';
import { availableEngines, checkEngine, type Engine, type Vector } from '../measure/engines.js';
import { median } from 'simple-statistics';
import { floorOfBatch, signedMessages } from '../measure/floor.js';
import { ROOT } from '../run/paths.js';
import type { Suite } from '../run/suite.js';

const VECTORS = ['ed25519.jsonl', 'ed25519-edge.jsonl'];
/** Number of verifications between two readings of the clock. */
const BATCH = 10;
const WARM_UP_SHARE = 1 / 4;

/** Compares other Ed25519 implementations: whether they are correct, and what they cost. */
export const engines: Suite = {
  name: 'engines',
  about:
    'every Ed25519 of this platform: published vectors accepted or refused wrongly, processor time in floors',
  isIsolated: true,
  run: async ({ plan, recorder, say }) => {
    const vectors = VECTORS.flatMap(readVectors);
    const found = await availableEngines((name) => recorder.skip(`engines/${name}`, 'it is not installed'));
    for (let run = 1; run <= plan.runs; run++) {
      for (const engine of found) {
        const { name } = engine;
        const parameters = { engine: name, vectors: vectors.length };
        const { acceptedWrongly, refusedWrongly } = await checkEngine(engine, vectors);
        for (const [what, value] of [
          ['accepted-wrongly', acceptedWrongly],
          ['refused-wrongly', refusedWrongly],
        ] as const) {
          recorder.record({
            id: `engines/${name}/${what}`,
            unit: 'count',
            better: 'lower',
            value,
            parameters,
          });
        }
        await timeEngine(engine, plan.inProcessMs * WARM_UP_SHARE);
        const { cpu: value, floor } = await timeEngine(engine, 4 * plan.inProcessMs);
        recorder.floorWas(floor);
        recorder.record({ id: `engines/${name}/cpu`, unit: 'µs', better: 'lower', value, parameters });
        say(
          `engines · ${name}: ${value.toFixed(1)} µs, ${acceptedWrongly} of ${vectors.length} accepted wrongly`,
        );
      }
    }
  },
};

function readVectors(file: string): Vector[] {
  const lines = readFileSync(path.join(ROOT, 'test', 'vectors', file), 'utf8')
    .trimEnd()
    .split('\n');
  return lines.map((line) => {
    const { key, message, signature, valid } = JSON.parse(line) as Record<
      'key' | 'message' | 'signature',
      string
    > & {
      valid: boolean;
    };
    const bytes = (text: string) => Buffer.from(text, 'base64url');
    return { key: bytes(key), message: bytes(message), signature: bytes(signature), valid };
  });
}

/**
 * Processor time of one verification, measured one after the other. It includes all threads, since some engines have
 * threads of their own. The floor is measured in turn with it, so that both see the machine at the same speed.
 */
async function timeEngine(
  { under, name }: Engine,
  milliseconds: number,
): Promise<{ cpu: number; floor: number }> {
  const { publicKey, signed } = signedMessages();
  const check = await under(publicKey);
  const costs: number[] = [];
  const floors: number[] = [];
  let next = 0;
  const end = performance.now() + milliseconds;
  do {
    floors.push(floorOfBatch(BATCH));
    const before = process.cpuUsage();
    for (let at = 0; at < BATCH; at++) {
      const { signature, message } = signed[next++ % signed.length] as (typeof signed)[number];
      const pending = check(signature, message);
      // Do not await a result that is already there: that costs a turn of the microtask queue.
      if (!(typeof pending === 'boolean' ? pending : await pending))
        throw new Error(`${name} refused a signature that libsodium made`);
    }
    const { user, system } = process.cpuUsage(before);
    costs.push((user + system) / BATCH);
  } while (performance.now() < end);
  return { cpu: median(costs), floor: median(floors) };
}
