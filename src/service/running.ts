import closeWithGrace, { type AllEvents } from 'close-with-grace';
import type { Logger } from 'pino';
import type { Configuration } from './configuration/configuration.js';

/** Time after the grace period to close stores and logs. */
const CLOSING_MS = 5000;

/** How a process ends. */
interface Ending {
  readonly log: Logger;
  /** Milliseconds after which it ends in any case. */
  readonly delayMs: number;
  /** Signals that do not end it. */
  readonly skip?: readonly (NodeJS.Signals & AllEvents)[];
  /** Called once, with the signal or the error that nothing caught, if one of them ends the process. */
  readonly close: (why: { readonly signal?: NodeJS.Signals; readonly err?: Error }) => Promise<void>;
}

/**
 * Ends this process on a signal or an error that nothing caught; at once after a second signal or error. The exit code is 0 if it was asked to end, and did so in time.
 */
export function endGracefully(ending: Ending): void {
  const { log, delayMs, skip = ['SIGHUP', 'SIGUSR2'], close } = ending;
  closeWithGrace(
    {
      delay: delayMs,
      logger: false,
      skip: [...skip],
      onSecondSignal: (signal) => log.warn({ signal }, 'a second signal: ending at once'),
      onSecondError: (err) => log.fatal({ err }, 'an error that nothing caught, while shutting down'),
      onTimeout: () => log.error({ afterMs: delayMs }, 'shutting down took too long: ending at once'),
    },
    async (why) => {
      if (why.err) log.fatal({ err: why.err }, 'an error that nothing caught');
      try {
        await close(why);
      } catch (err) {
        log.error({ err }, 'shutting down failed');
        throw err;
      }
      log.info('stopped');
    },
  );
}

/** Milliseconds after which a process that was told to stop ends in any case. */
export function closingMsOf({ shutdownDelaySecs, shutdownGraceSecs }: Configuration): number {
  return (shutdownDelaySecs + shutdownGraceSecs) * 1000 + CLOSING_MS;
}
