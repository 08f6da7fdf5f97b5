let hasCome = false;
const note = (): void => void (hasCome = true);

/**
 * Keeps SIGHUP from ending the process before the service can act on it. Call it before anything else is loaded, which
 * takes a tenth of a second.
 */
export function holdSignals(): void {
  // First, so that whoever sees the other handled knows that this one is.
  ignoreInspectorSignal();
  process.on('SIGHUP', note);
}

/** Passes a SIGHUP that came meanwhile on to the handler of the service; several count as one. */
export function releaseSignals(): void {
  process.off('SIGHUP', note);
  if (hasCome) process.emit('SIGHUP', 'SIGHUP');
}

/** Without a handler of ours, SIGUSR1 makes Node open its inspector, which runs any code for whoever connects. */
export function ignoreInspectorSignal(): void {
  process.on('SIGUSR1', () => undefined);
}
