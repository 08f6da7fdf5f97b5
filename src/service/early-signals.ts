/** What the running service acts on; see docs/operations.md. */
const ACTED_ON = ['SIGHUP', 'SIGUSR2'] as const;

const came = new Set<NodeJS.Signals>();
const note = (signal: NodeJS.Signals): void => void came.add(signal);

/**
 * Keeps signals from ending the process before the service can act on them. Call it before anything else is loaded,
 * which takes a tenth of a second.
 */
export function holdSignals(): void {
  // First, so that whoever sees the other two handled knows that this one is.
  ignoreInspectorSignal();
  for (const signal of ACTED_ON) process.on(signal, note);
}

/** Passes the signals that came meanwhile on to the handlers of the service; several of one kind count as one. */
export function releaseSignals(): void {
  for (const signal of ACTED_ON) {
    process.off(signal, note);
    if (came.delete(signal)) process.emit(signal, signal);
  }
}

/** Without a handler of ours, SIGUSR1 makes Node open its inspector, which runs any code for whoever connects. */
export function ignoreInspectorSignal(): void {
  process.on('SIGUSR1', () => undefined);
}
