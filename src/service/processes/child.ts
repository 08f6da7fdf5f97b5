import cluster from 'node:cluster';
import { ignoreInspectorSignal } from '../early-signals.js';
import type { Message } from './supervisor.js';

// One process of several. The supervisor forks this file with the process's number as argument, and sends it orders. Signals
// that reach the whole process group (Ctrl+C, systemd) are ignored: the supervisor handles them. Nothing of the service is
// imported statically, so that a signal finds these handlers soon.
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2'] as const;
for (const signal of SIGNALS) process.on(signal, () => undefined);
ignoreInspectorSignal();

/** A replaced process has this time besides, for its connections: idle ones last up to 12 s. */
const RETIRE_MS = 20_000;
/** Longer than the supervisor waits for a process that does not answer. */
const METRICS_MS = 5_000;
const tell = (message: Message): unknown => process.connected && process.send?.(message, () => undefined);
// Until the process listens, it only ends.
let obey = ({ kind }: Message): void => {
  if (kind === 'stop' || kind === 'orphaned') process.exit(kind === 'stop' ? 0 : 1);
};
process.on('message', (message: Message) => obey(message));
// node:cluster has thrown away what came before.
tell({ kind: 'stop' });
process.on('disconnect', () => obey({ kind: 'orphaned' }));
// Otherwise node:cluster ends this process as soon as its supervisor is gone, and open requests get no answer.
if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;

const { closingMsOf, endGracefully } = await import('../running.js');
const { factsOf, openLog, orExit, readOrExit, startHere, toggleLogLevel } = await import('../main.js');

let scraping: Promise<string> | null = null;
let scraped: ((text: string) => void) | null = null;
/** The metrics of all processes. Calls share one answer while it is on its way. */
const scrapeAll = (): Promise<string> =>
  (scraping ??= new Promise<string>((resolve, reject) => {
    scraped = resolve;
    setTimeout(reject, METRICS_MS, new Error('the supervisor did not gather the metrics of all processes'));
    tell({ kind: 'scrape' });
  }).finally(() => (scraping = null)));

const name = process.argv[2] ?? '';
const configuration = readOrExit(process.env);
const log = openLog(configuration).child({ process: name });
const service = await orExit(log, () => startHere(configuration, log, { process: name, scrapeAll }));
let why: 'stop' | 'retire' | 'orphaned' | 'error' | null = null;
/** Aborted when a process that retires must no longer wait for its clients. */
const hurry = new AbortController();
const { close } = endGracefully({
  log,
  skip: SIGNALS,
  delayMs: RETIRE_MS + closingMsOf(configuration),
  close: async () => {
    why ??= 'error';
    log.info({ why }, 'shutting down: what is in flight is answered first');
    // A process without a supervisor leaves the port too, so that the next supervisor's processes can have it alone.
    if (why === 'retire' || why === 'orphaned') await service.retire(hurry.signal);
    await service.close(why !== 'stop');
  },
});
obey = ({ kind, text = '' }) => {
  if (kind === 'ping') tell({ kind });
  else if (kind === 'logLevel') toggleLogLevel(log, configuration);
  else if (kind === 'scrape') scraped?.(text);
  else if (kind === 'metrics')
    // If this fails, the supervisor leaves this process out.
    service.scrape().then(
      (own) => tell({ kind, text: own }),
      () => undefined,
    );
  else if (kind !== 'listening') {
    if (kind === 'orphaned') log.fatal('the supervisor is gone: shutting down');
    if (kind !== 'retire') hurry.abort();
    if (why !== null) return;
    why = kind;
    close();
  }
};
// This comes last, since an order may follow at once.
tell({ kind: 'listening', facts: factsOf(configuration, service) });
