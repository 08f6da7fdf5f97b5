import { ignoreInspectorSignal } from '../early-signals.js';

// The entry point of one process of several. The supervisor starts this file with the process's number as argument, and
// sends it orders over the IPC channel. Signals that reach the whole process group (Ctrl+C, systemd) are ignored here:
// the supervisor handles them. Nothing else is imported statically, so that a signal finds these handlers soon.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => undefined);
ignoreInspectorSignal();
await import('./run-child.js');
