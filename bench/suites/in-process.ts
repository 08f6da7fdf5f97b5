import { createVerifier, type Verifier } from '../../src/verifier/create-verifier.js';
import { measureAllocations } from '../measure/allocations.js';
import type { Bench, Suite } from '../run/suite.js';

const PLACES = { 'in-thread': 0, pool: 1 } as const;
const WARM_UP_MS = 400;
const WAKING = 16;
// All cases run the same code. Once it is warm, each case needs only a short warm-up.
const MOMENT_MS = 20;
const IN_FLIGHT = { 'in-thread': 1, pool: 32 } as const;

/** Measures `createVerifier` without a network. */
export const inProcess: Suite = {
  name: 'in-process',
  about: 'createVerifier: time and bytes allocated per verdict, in-thread and with the pool',
  isIsolated: true,
  run: async (bench) => {
    const { plan, recorder, say } = bench;
    const traffics = plan.traffics.filter(
      (traffic) => traffic === 'warm' || traffic === 'cold' || traffic === 'mixed',
    );
    for (const place of ['in-thread', 'pool'] as const) {
      await measure(
        { ...bench, plan: { ...plan, inProcessMs: WARM_UP_MS } },
        { depth: 4, traffic: 'warm', place },
      );
    }
    for (const depth of plan.depths) {
      for (const traffic of traffics) {
        if (traffic === 'mixed' && !plan.coreDepths.includes(depth)) continue;
        recorder.measureFloor();
        for (const place of ['in-thread', 'pool'] as const) {
          // The first run is not recorded.
          for (let run = 0; run <= plan.runs; run++) {
            const inProcessMs = run === 0 ? MOMENT_MS : plan.inProcessMs;
            const one = { ...bench, plan: { ...plan, inProcessMs } };
            const { microseconds, cpu, bytes } = await measure(one, { depth, traffic, place });
            if (run === 0) continue;
            const parameters = { depth, traffic, place, inFlight: IN_FLIGHT[place] };
            const id = `in-process/${place}/${traffic}/d${depth}`;
            recorder.record({
              id: `${id}/time`,
              unit: 'µs',
              better: 'lower',
              value: microseconds,
              parameters,
            });
            recorder.record({ id: `${id}/cpu`, unit: 'µs', better: 'lower', value: cpu, parameters });
            if (bytes === null) continue;
            recorder.record({ id: `${id}/bytes`, unit: 'bytes', better: 'lower', value: bytes, parameters });
          }
          say(`in-process · ${place}, ${traffic}, depth ${depth}`);
        }
      }
    }
  },
};

interface Case {
  readonly depth: number;
  readonly traffic: 'warm' | 'cold' | 'mixed';
  readonly place: keyof typeof PLACES;
}

/** Makes a new verifier each time, so that its cache is cold. */
async function measure({ plan, workloads, recorder }: Bench, { depth, traffic, place }: Case) {
  const verifier = createVerifier({ workerThreads: PLACES[place] });
  try {
    const warm = parsed(workloads.warm(depth));
    const cold = traffic === 'warm' ? [] : parsed(workloads.cold(depth));
    const bundles =
      traffic === 'warm'
        ? warm
        : traffic === 'cold'
          ? cold
          : cold.flatMap((bundle, at) => [
              ...Array.from({ length: 9 }, (_, nth) => warm[(9 * at + nth) % warm.length]),
              bundle,
            ]);
    if (traffic !== 'cold') for (const bundle of warm) await verifyOne(verifier, bundle);
    // Submit enough at once that workers are needed, so that they have started before the measurement begins.
    const first = traffic === 'warm' ? warm : cold.splice(-WAKING);
    await Promise.all(first.slice(0, WAKING).map((bundle) => verifyOne(verifier, bundle)));
    const { microseconds, cpu, wrong } = await run(
      verifier,
      bundles,
      IN_FLIGHT[place],
      plan.inProcessMs,
      traffic !== 'warm',
    );
    recorder.blame(`in-process/${place}/${traffic}/d${depth}`, wrong, 'a valid bundle was refused');
    // Allocations are counted only if nothing else allocates meanwhile: one bundle at a time, and only repeatable ones.
    const bytes =
      place === 'in-thread' && traffic === 'warm'
        ? await measureAllocations(() => verifyOne(verifier, warm[0]))
        : null;
    return { microseconds, cpu, bytes };
  } finally {
    await verifier.close();
  }
}

const parsed = (exchanges: readonly { body: string }[]) =>
  exchanges.map(({ body }) => JSON.parse(body) as unknown);

const verifyOne = async (verifier: Verifier, bundle: unknown) => (await verifier.verify(bundle)).valid;

/** Verifies bundles for a time, several at once. @param once whether no bundle may come twice */
async function run(
  verifier: Verifier,
  bundles: readonly unknown[],
  inFlight: number,
  milliseconds: number,
  once: boolean,
): Promise<{ microseconds: number; cpu: number; wrong: number }> {
  let next = 0;
  let wrong = 0;
  const cpuBefore = process.cpuUsage();
  const start = performance.now();
  const share = async () => {
    while (performance.now() - start < milliseconds) {
      if (once && next >= bundles.length) return;
      if (!(await verifyOne(verifier, bundles[next++ % bundles.length]))) wrong++;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, share));
  const { user, system } = process.cpuUsage(cpuBefore);
  return { microseconds: ((performance.now() - start) * 1000) / next, cpu: (user + system) / next, wrong };
}
