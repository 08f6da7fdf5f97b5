import type { Fault } from './fault.js';
import { listFaults } from './list-faults.js';
import { processFaults } from './process-faults.js';
import { redisFaults } from './redis-faults.js';

/** All faults that can be caused. docs/faults.md has a row for each. */
export const FAULTS: readonly Fault[] = [...processFaults, ...listFaults, ...redisFaults];
