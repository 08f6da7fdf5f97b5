import { setFlagsFromString } from 'node:v8';
import { holdSignals, ignoreInspectorSignal } from '../service/early-signals.js';

// The entry point of the `drs` command. Nothing else is imported statically: static imports are loaded before any line of
// this file runs, and until then a signal ends the process.
if (process.argv[2] === 'serve') {
  holdSignals();
  // The young generation grows to its full size while the service loads, not after some minutes of calls: half the
  // collections, and 1 % less processor time for a warm call.
  setFlagsFromString('--semi-space-growth-factor=4');
} else if (process.argv[2] === 'guard') ignoreInspectorSignal();
await import('./program.js');
