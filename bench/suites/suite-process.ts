import { measureFloor } from '../measure/floor.js';
import { Recorder } from '../run/recorder.js';
import { Workloads } from '../workload/workload.js';
import { ALL_SUITES } from './all.js';
import type { SuiteJob } from './isolated.js';

// Enough for one run in process, which uses no bundle twice. Unlike for the service, they need not exceed a cache.
const COLD_RECEIPTS = 3_000;

const { suite: name, plan } = JSON.parse(process.argv[2] ?? '') as SuiteJob;
const suite = ALL_SUITES.find((one) => one.name === name);
if (suite === undefined) throw new Error(`there is no suite ${name}`);
const recorder = new Recorder(() => measureFloor(plan.floorSeconds));
recorder.measureFloor();
await suite.run({
  ...{ plan, recorder, workloads: new Workloads('', COLD_RECEIPTS), say: () => undefined },
  // The suite measures its own process, so there is no other process to watch.
  watch: (_id, _pid, measure) => measure(),
});
process.stdout.write(JSON.stringify(recorder.recorded()), () => process.exit(0));
