import { setTimeout as pause } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import { closingMsOf, factsOf, openLog, readOrExit, startOrExit } from '../main.js';
import type { Order, Report } from './messages.js';
import { MetricsLink } from './metrics-link.js';

// Runs one process of several; child.ts, its entry point, has already installed handlers for signals.

const [, , name = ''] = process.argv;
const tell = (report: Report) => {
  if (process.connected) process.send?.(report, () => undefined);
};
// Before the process listens, it obeys only `stop`.
let obey = (order: Order): void => {
  if (order.kind === 'stop') process.exit(0);
};
let onOrphaned = (): void => process.exit(1);
process.on('message', (order: Order) => obey(order));
process.on('disconnect', () => onOrphaned());

const configuration = readOrExit(process.env);
const log = openLog(configuration).child({ process: name });
const metrics = new MetricsLink(tell);
const service = await startOrExit(configuration, log, {
  process: name,
  scrapeAll: () => metrics.askAll(),
  onScrape: (scrape) => metrics.serve(scrape),
});

type Reason = 'stop' | 'retire' | 'orphaned';
let why: Reason | null = null;
/** Aborted when a process that retires must no longer wait for its clients. */
const hurry = new AbortController();
const { close } = closeWithGrace(
  {
    delay: false,
    logger: false,
    skip: ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2'],
    onSecondError: (err) => log.fatal({ err }, 'an error that nothing caught, while shutting down'),
  },
  async ({ err }) => {
    if (err) log.fatal({ err }, 'an error that nothing caught');
    log.info({ why: err ? 'error' : why }, 'shutting down: what is in flight is answered first');
    // A process without a supervisor leaves the port too, so that the next supervisor's processes can have it alone.
    if (why === 'retire' || why === 'orphaned') await service.retire(hurry.signal);
    await service.close(err !== undefined || why !== 'stop');
    log.info('stopped');
    if (why === 'orphaned') process.exit(1);
  },
);

function end(reason: Reason): void {
  if (reason !== 'retire') {
    hurry.abort();
    const afterMs = closingMsOf(configuration);
    void pause(afterMs).then(() => {
      log.error({ afterMs }, 'shutting down took too long: ending at once');
      process.exit(1);
    });
  }
  if (why !== null) return;
  why = reason;
  close();
}

onOrphaned = () => {
  log.fatal('the supervisor is gone: shutting down');
  end('orphaned');
};
obey = (order) => {
  if (order.kind === 'stop' || order.kind === 'retire') end(order.kind);
  else if (order.kind === 'toggleLogLevel') {
    log.level = log.level === 'debug' ? configuration.logLevel : 'debug';
    log.warn({ logLevel: log.level }, 'SIGUSR2 changed the log level');
  } else if (order.kind === 'ping') tell({ kind: 'pong' });
  else metrics.take(order);
};
// This comes last, since an order may follow at once.
tell({ kind: 'listening', facts: factsOf(configuration, service) });
