import { measureFloor } from './floor.js';

// Several of these run at once, to measure what a signature costs when no core is idle.
process.stdout.write(String(measureFloor(Number(process.argv[2]))));
