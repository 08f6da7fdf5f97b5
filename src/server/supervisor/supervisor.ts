import { setTimeout as pause } from 'node:timers/promises';
import { Registry } from 'prom-client';
import type { Logger } from 'pino';
import { showCounter, showGauges } from '../metrics-show.js';
import type { ListeningFacts } from './messages.js';
import { mergeScrapes } from './merge-scrapes.js';
import { ServiceProcess, StartError, type Ending } from './service-process.js';

/** What a {@link Supervisor} works with. */
export interface SupervisorOptions {
  readonly processes: number;
  /** Of each process. */
  readonly env: NodeJS.ProcessEnv;
  readonly log: Logger;
  /** Milliseconds that a process which has been replaced may take to end. */
  readonly retireMs: number;
  /** Called where no process serves and none can be started, with the exit code of the last. */
  readonly onGivenUp: (code: number) => void;
}

/** The place of one process among several. */
interface Slot {
  readonly name: string;
  /** Which serves; `null` where it has died. */
  current: ServiceProcess | null;
  /** Which is being started in the place of {@link current}, by a roll. */
  successor: ServiceProcess | null;
  /** Processes that died here. */
  deaths: number;
  /** Those in a row that did not live long: how long the next start is put off. */
  quickDeaths: number;
}

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
/** A process that lived for so long did not die of its start. */
const LONG_LIFE_MS = 60_000;
/** Where nothing serves, so many starts in a row may fail in one place. */
const MAX_FAILED_STARTS = 3;

/**
 * Runs several processes of a service on one port. One that dies is started again; a roll replaces each by a new one, which
 * listens before the old one leaves.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #slots: readonly Slot[];
  /** All that run: those in their places, those that are starting, and those that leave. */
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
    showGauges(this.#registry, 'drs_process_up', '1 where the process serves', ['process'], (set) => {
      for (const { name, current } of this.#slots) set(current === null ? 0 : 1, name);
    });
    showCounter(
      this.#registry,
      'drs_process_deaths_total',
      'Processes that ended without having been told to',
      ['process'],
      (set) => {
        for (const { name, deaths } of this.#slots) set(deaths, name);
      },
    );
  }

  /**
   * Starts all processes: the first one alone, which tells what may be wrong, then the others.
   *
   * @throws {@link StartError} where one does not start; then all are ended
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

  /** Replaces every process by a new one, one after the other. Where a new one does not start, the old one stays. */
  async roll(): Promise<void> {
    const { log } = this.#options;
    this.#isRollWanted = true;
    if (this.#isRolling) return;
    this.#isRolling = true;
    try {
      // What was changed while processes were being replaced needs another round.
      while (this.#takeWantedRoll()) {
        log.info('rolling: each process is replaced by a new one');
        for (const slot of this.#slots) {
          if (this.#hasToStop()) return;
          // One that has died is being replaced anyway.
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
   * @throws Error where one did not end as it was told to
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

  /** The metrics of all processes in one text. Who asks while they are being gathered gets the same. */
  scrape(): Promise<string> {
    this.#scraping ??= this.#gather().finally(() => (this.#scraping = null));
    return this.#scraping;
  }

  /** A method, since it may change between two looks. */
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

  /** Puts a process that listens into its place, and watches it. */
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
      // A roll that is about to replace it goes on, and then there is nothing to start.
      if (slot.successor === null) void this.#restart(slot);
    });
  }

  /** Starts a process in an empty place, until one listens. Never rejects. */
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
      // The old one died meanwhile, and nobody has started it again.
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
