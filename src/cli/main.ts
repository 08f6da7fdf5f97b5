import { holdSignals, ignoreInspectorSignal } from '../service/early-signals.js';

// The entry point of the `drs` command. Nothing else is imported statically: static imports are loaded before any line of
// this file runs, and until then a signal ends the process.
if (process.argv[2] === 'serve') holdSignals();
else if (process.argv[2] === 'guard') ignoreInspectorSignal();
await import('./program.js');
