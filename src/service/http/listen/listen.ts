import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Configuration } from '../../configuration/configuration.js';
import type { Closers } from '../../closers.js';
import type { Core } from '../../core.js';
import type { FrontEnd } from '../front-end.js';
import type { ServerContext } from '../serve.js';
import { certificateOf, readCertificate, type Certificate } from './certificate.js';
import { listenOnUnix } from './unix-socket.js';

// What a service and a relay do at their address: they listen there, serve a certificate, and leave.

/** The certificate that the listeners of a process serve. */
export class ServedCertificate {
  /** `null` without TLS. Only {@link reload} changes it. */
  current: Certificate | null;
  readonly #listeners: Pick<FrontEnd, 'useCertificate'>[] = [];

  /** @throws Error if the configured one cannot be served */
  constructor(configuration: Configuration) {
    this.current = certificateOf(configuration);
  }

  /** Has a listener that serves it get the next one, too. */
  servedBy<T extends Pick<FrontEnd, 'useCertificate'>>(listener: T): T {
    this.#listeners.push(listener);
    return listener;
  }

  /**
   * Reads its files again.
   *
   * @returns what to log; `null` without TLS
   * @throws Error if it cannot be read or served; then the old one stays
   */
  reload() {
    if (this.current === null) return null;
    const next = readCertificate(this.current);
    for (const listener of this.#listeners) listener.useCertificate(next);
    this.current = next;
    const { certFile, fingerprint, expiresAt } = next;
    return { certFile, fingerprint, until: new Date(expiresAt * 1000).toISOString() };
  }
}

/**
 * Listens at the address of a configuration.
 *
 * @returns the port; 0 for a Unix socket
 * @throws Error if it cannot listen there
 */
export async function listen(
  frontEnd: FrontEnd,
  { listen: socket, listenMode, host, port, sharePort }: Configuration,
  opened: Closers,
): Promise<number> {
  if (socket === undefined) return frontEnd.listen({ host, port, isShared: sharePort });
  opened.add(await listenOnUnix(frontEnd, socket.path, parseInt(listenMode, 8)));
  return 0;
}

/**
 * Reads certificate, routes, trusted roots and tools again, and reopens the decision log after it was renamed. Never rejects: each
 * part says in the log what went wrong, and keeps what it has.
 */
export async function reload(
  { gate, engine, verdicts, metrics: { failedReloads } }: Core,
  certificate: ServedCertificate,
  log: Logger,
): Promise<void> {
  const again = async (
    part: keyof typeof failedReloads,
    read: () => unknown,
    [name, done]: readonly [string, string],
  ) => {
    failedReloads[part] = 0;
    try {
      const facts = await read();
      if (facts !== null) log.info(facts ?? {}, `SIGHUP: ${name} was ${done}`);
    } catch (err) {
      failedReloads[part] = 1;
      log.error({ err }, `${name} could not be ${done}: the old one stays`);
    }
  };
  await again('certificate', () => certificate.reload(), ['the certificate', 'reloaded']);
  await again('routes', () => gate.reloadRoutes(), ['the table of routes', 'reloaded']);
  for (const lines of [engine.rootsFile, engine.toolsFile]) {
    // If it fails, they have logged it.
    const entries = await lines?.reload().catch(() => undefined);
    if (lines && entries !== undefined)
      log.info({ [lines.kind.fact]: entries }, `SIGHUP: the ${lines.kind.name} were reloaded`);
  }
  await again('decision_log', () => verdicts.decisions?.reopen(), ['the decision log', 'reopened']);
}

const DRAIN_POLL_MS = 10;

/**
 * Ends what listens. For `SHUTDOWN_DELAY_SECS`, `/readyz` fails and everything else is served. Then open requests get up to
 * `SHUTDOWN_GRACE_SECS` to finish.
 *
 * @param open how many requests are under way
 * @param isUrgent skips the delay
 * @param onDrain called when the drain begins
 */
export async function leave(
  { gatekeeper, configuration, log }: Pick<ServerContext, 'gatekeeper' | 'configuration' | 'log'>,
  frontEnd: FrontEnd,
  open: () => number,
  isUrgent: boolean,
  onDrain?: () => void,
): Promise<void> {
  const { shutdownDelaySecs, shutdownGraceSecs, sharePort } = configuration;
  gatekeeper.isLeaving = true;
  if (sharePort) {
    // The others on the port get all new connections, but the kernel resets those that are not accepted yet: so this waits
    // until the event loop has just accepted some.
    await new Promise((resolve) => setImmediate(resolve));
    frontEnd.stopListening();
  }
  if (!isUrgent) await sleep(shutdownDelaySecs * 1000);
  // A listening socket that is not shared stays open, so that health checks get a 503 instead of a refused connection.
  gatekeeper.isDraining = true;
  onDrain?.();
  const deadline = performance.now() + shutdownGraceSecs * 1000;
  while (open() > 0 && performance.now() < deadline) await sleep(DRAIN_POLL_MS);
  if (open() > 0) log.warn({ open: open() }, 'requests were cut off: they took too long to drain');
}
