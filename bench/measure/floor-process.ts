// Prints what a signature costs, again and again, with 2 % of a core: the process of a sampler.
import { floorOfBatch } from './floor.js';

function printFloors(): void {
  const start = performance.now();
  process.stdout.write(`${floorOfBatch(20)}\n`);
  setTimeout(printFloors, (performance.now() - start) / 0.02);
}
// It ends when nobody reads it any more.
process.stdout.on('error', () => process.exit(0));
printFloors();
