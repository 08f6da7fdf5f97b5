import { measureFloor } from './floor.js';

// One of several at once, to see what a signature costs when no core is idle.
process.stdout.write(String(measureFloor(Number(process.argv[2]))));
