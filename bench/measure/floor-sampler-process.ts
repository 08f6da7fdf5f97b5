import { floorOfBatch } from './floor.js';

// One runs pinned to each core. It measures what a signature costs there while something else is measured, and uses 2 %
// of the core.
const BATCH = 20;
const DUTY = 0.02;

function sample(): void {
  const start = performance.now();
  const microseconds = floorOfBatch(BATCH);
  process.stdout.write(`${microseconds}\n`);
  setTimeout(sample, (performance.now() - start) / DUTY);
}
process.stdout.on('error', () => process.exit(0));
process.on('disconnect', () => process.exit(0));
sample();
