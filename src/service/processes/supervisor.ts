import { setTimeout as pause } from 'node:timers/promises';
import { Registry } from 'prom-client';
import type { Logger } from 'pino';
import { show, type Row } from '../observe/exposition.js';
import type { ListeningFacts } from './messages.js';
import { mergeScrapes } from './merge-scrapes.js';
import { ServiceProcess, StartError, type Ending } from './service-process.js';

/** Options of a {@link Supervisor}. */
export interface SupervisorOptions {
  readonly processes: number;
  /** The environment of each process. */
  readonly env: NodeJS.ProcessEnv;
  readonly log: Logger;
  /** Milliseconds in which a replaced process must end. */
  readonly retireMs: number;
  /** Called with the exit code of the last process, if no process serves and none can be started. */
  readonly onGivenUp: (code: number) => void;
}

/** The place of one process among several. */
interface Slot {
  readonly name: string;
  /** The process that serves; `null` if it has died. */
  current: ServiceProcess | null;
  /** The process that a roll starts to replace {@link current}. */
  successor: ServiceProcess | null;
  /** Number of processes that died in this place. */
  deaths: number;
  /** How many in a row died early. The more, the longer the pause before the next start. */
  quickDeaths: number;
}

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
/** A process that ran for this long did not die because of its start. */
const LONG_LIFE_MS = 60_000;
/** How many starts in a row may fail in one place while no process serves. */
const MAX_FAILED_STARTS = 3;

// prettier-ignore
const METRICS: readonly Row<readonly Slot[]>[] = [
  ['drs_process_up', 'gauge', '1 if the process serves', ['process'], (slots) => slots.map(({ name, current }) => [name, current === null ? 0 : 1])],
  ['drs_process_deaths_total', 'counter', 'Processes that ended without having been told to', ['process'], (slots) => slots.map(({ name, deaths }) => [name, deaths])],
];

/**
 * Runs several processes of a service on one port. It restarts a process that dies. A roll replaces each process by a
 * new one, which listens before the old one leaves.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #slots: readonly Slot[];
  /** All running processes: those that serve, those that start, and those that are ending. */
  readonly #running = new Set<ServiceProcess>();
  readonly #registry = new Registry();
  #isStopping = false;
  #isRolling = false;
  #isRollWanted = false;
  #scraping: Promise<string> | null = null;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.processes }, (_, at) => ({
      name: String(at),
      current: null,
      successor: null,
      deaths: 0,
      quickDeaths: 0,
    }));
    show(this.#registry, METRICS, this.#slots);
  }

  /**
   * Starts all processes. The first one starts alone, so that a wrong configuration is reported once.
   *
   * @throws {@link StartError} if one does not start; then all are ended
   */
  async start(): Promise<ListeningFacts> {
    const [first, ...others] = this.#slots as [Slot, ...Slot[]];
    const startIn = async (slot: Slot) => {
      const process = this.#launch(slot);
      const facts = await process.listening;
      this.#install(slot, process);
      return facts;
    };
    try {
      const facts = await startIn(first);
      await Promise.all(others.map(startIn));
      return facts;
    } catch (error) {
      this.kill();
      throw error;
    }
  }

  /** Replaces every process by a new one, one after the other. If a new one does not start, the old ones stay. */
  async roll(): Promise<void> {
    const { log } = this.#options;
    this.#isRollWanted = true;
    if (this.#isRolling) return;
    this.#isRolling = true;
    try {
      // A roll that was asked for while this one runs needs another round: files may have changed in between.
      while (this.#takeWantedRoll()) {
        log.info('rolling: each process is replaced by a new one');
        for (const slot of this.#slots) {
          if (this.#hasToStop()) return;
          // A process that has died is being restarted anyway.
          if (slot.current !== null) await this.#replace(slot, slot.current);
        }
        log.info('rolled: all processes are new');
      }
    } catch (error) {
      log.error(
        { err: error },
        'the roll was broken off: a new process does not start, so the old ones stay',
      );
    } finally {
      this.#isRolling = false;
    }
  }

  toggleLogLevel(): void {
    for (const process of this.#running) process.toggleLogLevel();
  }

  /**
   * Asks all processes to stop.
   *
   * @throws Error if one did not end with exit code 0
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const running = [...this.#running];
    for (const process of running) process.stop();
    const endings = await Promise.all(running.map((process) => process.ended));
    const failed = endings.find(({ code }) => code !== 0);
    if (failed !== undefined) throw new Error(`a process ended with ${describe(failed)} while stopping`);
  }

  /** Ends all processes at once. */
  kill(): void {
    this.#isStopping = true;
    for (const process of this.#running) process.kill();
  }

  /** The metrics of all processes in one text. Calls share one answer while it is being gathered. */
  scrape(): Promise<string> {
    this.#scraping ??= this.#gather().finally(() => (this.#scraping = null));
    return this.#scraping;
  }

  /** A method, not a field: TypeScript would assume that a field does not change between two checks. */
  #hasToStop(): boolean {
    return this.#isStopping;
  }

  #takeWantedRoll(): boolean {
    const isWanted = this.#isRollWanted;
    this.#isRollWanted = false;
    return isWanted;
  }

  async #gather(): Promise<string> {
    const serving = this.#slots.flatMap(({ current }) => current ?? []);
    const texts = await Promise.all(serving.map((process) => process.metrics()));
    return mergeScrapes([await this.#registry.metrics(), ...texts.filter((text) => text !== null)]);
  }

  #launch({ name }: Slot): ServiceProcess {
    const { env, log } = this.#options;
    const onStuck = () => log.error({ process: name }, 'a process stands still: it is killed');
    const process = new ServiceProcess(name, env, () => this.scrape(), onStuck);
    this.#running.add(process);
    void process.ended.then(() => this.#running.delete(process));
    return process;
  }

  /** Puts a process that listens into its place, and restarts it if it dies. */
  #install(slot: Slot, process: ServiceProcess): void {
    slot.current = process;
    void process.ended.then((ending) => {
      if (slot.current !== process) return;
      slot.current = null;
      if (this.#hasToStop()) return;
      slot.deaths++;
      const livedMs = Math.round(performance.now() - process.startedAt);
      this.#options.log.error(
        { process: slot.name, pid: process.pid, ...ending, livedMs },
        `a process ended with ${describe(ending)}: it is started again`,
      );
      if (livedMs >= LONG_LIFE_MS) slot.quickDeaths = 0;
      // If a roll is replacing this process, the new one takes its place.
      if (slot.successor === null) void this.#restart(slot);
    });
  }

  /** Starts processes in an empty place until one listens. Never rejects. */
  async #restart(slot: Slot): Promise<void> {
    for (let failures = 0; ;) {
      await pause(Math.min(FIRST_PAUSE_MS * 2 ** slot.quickDeaths, MAX_PAUSE_MS));
      if (this.#hasToStop()) return;
      slot.quickDeaths++;
      const process = this.#launch(slot);
      try {
        await process.listening;
        this.#options.log.info({ process: slot.name, pid: process.pid }, 'a process was started again');
        this.#install(slot, process);
        return;
      } catch (error) {
        if (this.#hasToStop()) return;
        this.#options.log.error({ process: slot.name, err: error }, 'a process does not start again');
        const isNothingLeft = this.#slots.every(({ current }) => current === null);
        if (++failures >= MAX_FAILED_STARTS && isNothingLeft) {
          this.#options.onGivenUp(error instanceof StartError ? error.code : 1);
          return;
        }
      }
    }
  }

  async #replace(slot: Slot, old: ServiceProcess): Promise<void> {
    const process = this.#launch(slot);
    slot.successor = process;
    try {
      await process.listening;
    } catch (error) {
      slot.successor = null;
      // The old process died meanwhile and was not restarted, because of this roll.
      if (slot.current === null && !this.#hasToStop()) void this.#restart(slot);
      throw error;
    }
    slot.successor = null;
    this.#install(slot, process);
    old.retire();
    const timer = setTimeout(() => {
      this.#options.log.error({ pid: old.pid }, 'a process that was replaced did not end: it is killed');
      old.kill();
    }, this.#options.retireMs);
    await old.ended;
    clearTimeout(timer);
  }
}

function describe({ code, signal }: Ending): string {
  return signal ?? `exit code ${code}`;
}
