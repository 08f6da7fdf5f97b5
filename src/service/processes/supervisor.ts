import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { resourcesHere } from '../../verifier/resources.js';
import type { Configuration } from '../configuration/configuration.js';
import { addressesOfAll, shareOut } from '../configuration/share-out.js';
import { StartError, type Running } from '../running.js';
import { mergeScrapes } from '../observe/metrics/process-metrics.js';

/** What the supervisor and its processes send each other. An answer has the kind of its question. */
export interface Message {
  /** `retire`: another process has taken its place. `orphaned`: a process tells it itself if its supervisor is gone. */
  readonly kind: 'stop' | 'retire' | 'orphaned' | 'logLevel' | 'ping' | 'metrics' | 'scrape' | 'listening';
  /** Metrics: with `metrics` those of one process, with `scrape` those of all. */
  readonly text?: string;
  /** What is logged about a process that listens. */
  readonly facts?: object;
}

/** The place of one process among several. */
interface Place {
  readonly name: string;
  /** The process that serves; `null` if it has died. */
  current: Worker | null;
  deaths: number;
  /** Before the next start. It doubles while processes die early. */
  pauseMs: number;
}

const ENTRY = fileURLToPath(new URL('./child.js', import.meta.url));
/** How long a scrape waits for a process. One that does not answer must not block the metrics of the others. */
const METRICS_MS = 2_000;
const PING_MS = 5_000;
/** How many pings in a row a process may leave unanswered. While it starts it answers none. */
const MAX_UNANSWERED = 4;
const MAX_UNANSWERED_AT_START = 12;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
/** A process that ran for this long did not die because of its start. */
const LONG_LIFE_MS = 60_000;
/** How many starts in a row may fail in one place while no process serves. */
const MAX_FAILED_STARTS = 3;

/** Runs several processes of a service on one port, and starts another one where one dies. */
export class Supervisor implements Running {
  facts: object = {};
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: Logger;
  readonly #places: readonly Place[];
  /** Takes the metrics of a process. */
  readonly #asked = new Map<Worker, (text: string) => void>();
  #scraping: Promise<string> | null = null;
  #isStopping = false;
  #wantedRolls = 0;

  private constructor(env: NodeJS.ProcessEnv, processes: number, log: Logger) {
    this.#env = env;
    this.#log = log;
    const empty = { current: null, deaths: 0, pauseMs: FIRST_PAUSE_MS };
    this.#places = Array.from({ length: processes }, (_, at) => ({ name: `${at}`, ...empty }));
  }

  /** Starts the processes. @throws OptionsError if the memory is too small; {@link StartError} if one does not start */
  static async start(env: NodeJS.ProcessEnv, configuration: Configuration, log: Logger): Promise<Supervisor> {
    const { processes } = configuration;
    const { cores, memoryBytes } = resourcesHere();
    const shares = shareOut(env, processes, { cores, memoryBytes });
    const addresses = await addressesOfAll(configuration);
    const childEnv = { ...env, ...shares, ...addresses, PROCESSES: '1', SHARE_PORT: '1' };
    const supervisor = new Supervisor(childEnv, processes, log);
    // Whatever ends this process. Those that should end in order have done so before.
    process.once('exit', () => running().forEach((worker) => worker.process.kill('SIGKILL')));
    const [first, ...others] = supervisor.#places as [Place, ...Place[]];
    // The first one starts alone, so that a wrong configuration is reported once.
    const facts = await supervisor.#fill(first);
    await Promise.all(others.map((place) => supervisor.#fill(place)));
    supervisor.facts = { ...facts, processes, cores, shares };
    return supervisor;
  }

  /** Replaces every process by a new one, one after the other. If a new one does not start, the old ones stay. */
  async reload(): Promise<void> {
    // If another roll is wanted while this one runs, a second round follows: files may have changed in between.
    if (++this.#wantedRolls > 1) return;
    try {
      do {
        this.#wantedRolls = 1;
        this.#log.info('rolling: each process is replaced by a new one');
        for (const place of this.#places) {
          const old = place.current;
          if (this.#isStopping) return;
          // A process that has died is being restarted anyway.
          if (old === null) continue;
          await this.#fill(place);
          await ended(old);
        }
        this.#log.info('rolled: all processes are new');
      } while (this.#wantedRolls > 1);
    } catch (err) {
      this.#log.error({ err }, 'the roll was broken off: a new process does not start, so the old ones stay');
    }
    this.#wantedRolls = 0;
  }

  toggleLogLevel(): void {
    for (const worker of running()) send(worker, { kind: 'logLevel' });
  }

  /** @throws Error if a process does not end with exit code 0 */
  async close(): Promise<void> {
    this.#log.info('shutting down all processes');
    this.#isStopping = true;
    for (const worker of running()) send(worker, { kind: 'stop' });
    const codes = await Promise.all(running().map(ended));
    if (codes.some((code) => code !== 0)) throw new Error('a process did not end with exit code 0');
  }

  /** Starts a process. Once it listens, it takes the place, and the one that had it retires. */
  #fill(place: Place): Promise<object> {
    cluster.setupPrimary({ exec: ENTRY, args: [place.name], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const worker = cluster.fork(this.#env);
    const startedAt = performance.now();
    const log = this.#log.child({ process: place.name, pid: worker.process.pid });
    let unanswered = MAX_UNANSWERED - MAX_UNANSWERED_AT_START;
    // Unanswered pings are counted instead of time: if the supervisor was suspended, the answers have arrived meanwhile.
    const pings = setInterval(() => {
      send(worker, { kind: 'ping' });
      if (unanswered++ < MAX_UNANSWERED) return;
      // The kernel would go on giving it connections, which nobody answers.
      log.error('a process stands still: it is killed');
      worker.process.kill('SIGKILL');
    }, PING_MS);
    return new Promise((resolve, reject) => {
      worker.on('message', ({ kind, text = '', facts = {} }: Message) => {
        if (kind !== 'stop') unanswered = 0;
        else if (this.#isStopping) send(worker, { kind }); // a new process asks
        if (kind === 'listening' && !worker.isDead()) {
          if (place.current !== null) send(place.current, { kind: 'retire' });
          place.current = worker;
          resolve(facts);
        } else if (kind === 'metrics') this.#asked.get(worker)?.(text);
        else if (kind === 'scrape') void this.#scrape().then((all) => send(worker, { kind, text: all }));
      });
      // A process that could not be forked has an error, and does not exit.
      worker.on('error', (error) => {
        clearInterval(pings);
        reject(error);
      });
      worker.once('exit', (code: number | null, signal: NodeJS.Signals | null) => {
        clearInterval(pings);
        const ending = signal ?? `exit code ${code}`;
        reject(new StartError(`a process ended with ${ending} before it listened`, code ?? 1));
        if (place.current !== worker) return;
        place.current = null;
        if (this.#isStopping) return;
        place.deaths++;
        const livedMs = Math.round(performance.now() - startedAt);
        if (livedMs >= LONG_LIFE_MS) place.pauseMs = FIRST_PAUSE_MS;
        log.error({ code, signal, livedMs }, `a process ended with ${ending}: it is started again`);
        void this.#refill(place);
      });
    });
  }

  /** Starts processes in an empty place until one listens. Never rejects. */
  async #refill(place: Place): Promise<void> {
    // A roll may have filled the place meanwhile.
    const isOver = () => this.#isStopping || place.current !== null;
    for (let failures = 1; ; failures++) {
      await pause(place.pauseMs);
      place.pauseMs = Math.min(2 * place.pauseMs, MAX_PAUSE_MS);
      if (isOver()) return;
      try {
        await this.#fill(place);
        this.#log.info({ process: place.name }, 'a process was started again');
        return;
      } catch (err) {
        if (isOver()) return;
        this.#log.error({ process: place.name, err }, 'a process does not start again');
        if (failures < MAX_FAILED_STARTS || this.#places.some(({ current }) => current !== null)) continue;
        this.#log.fatal('no process serves, and none can be started: giving up');
        process.exit(err instanceof StartError ? err.code : 1);
      }
    }
  }

  /** The metrics of all processes in one text. Calls share one answer while it is being gathered. */
  #scrape(): Promise<string> {
    return (this.#scraping ??= this.#gather().finally(() => (this.#scraping = null)));
  }

  async #gather(): Promise<string> {
    const serving = this.#places.flatMap(({ current }) => current ?? []);
    const metricsOf = (worker: Worker) =>
      new Promise<string>((resolve) => {
        this.#asked.set(worker, resolve);
        setTimeout(resolve, METRICS_MS, '');
        send(worker, { kind: 'metrics' });
      }).finally(() => this.#asked.delete(worker));
    const texts = await Promise.all(serving.map(metricsOf));
    return mergeScrapes(this.#places, texts);
  }
}

/** All processes: those that serve, those that start, and those that are ending. */
function running(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((worker) => worker?.isDead() === false) as Worker[];
}

/** The exit code of a process, once it has ended; `null` if a signal ended it. */
async function ended(worker: Worker): Promise<number | null> {
  if (!worker.isDead()) await once(worker, 'exit');
  return worker.process.exitCode;
}

/** Errors are ignored: a process that cannot receive is about to end, which is noticed. */
function send(worker: Worker, message: Message): void {
  if (worker.isConnected()) worker.send(message, () => undefined);
}
