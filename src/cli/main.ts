import { holdSignals } from '../service/early-signals.js';

// The entry point of the `drs` command. Nothing else is imported statically: static imports are loaded before any line of
// this file runs, and until then a signal ends the process.
if (process.argv[2] === 'serve') holdSignals();
await import('./program.js');
