import { relative } from 'node:path';
import { BroadcastChannel } from 'node:worker_threads';
import { startTests, type Suite, type Task, type Test, type VitestRunnerImportSource } from '@vitest/runner';
import { TestRunner, vi } from 'vitest';

/** What `scripts/mutation-plugin.mjs` asks for. */
export interface Order {
  readonly files: readonly string[];
  /** Tests by their ids. A group runs only if none of the groups before it has failed. Without groups, all tests run. */
  readonly groups?: readonly (readonly string[])[];
  /** The mutant that is active, if any. */
  readonly mutant?: string;
  /** How often the mutant may be reached before that counts as an endless loop. */
  readonly hitLimit?: number | undefined;
}

/** The answer to an {@link Order}. */
export interface Report {
  readonly outcomes: readonly Outcome[];
  readonly hitCount: number;
  /** Whether the tests that failed pass again without the mutant. */
  readonly isClean: boolean;
  /** Whether a test ran out of time, so that it may still be running. */
  readonly isStuck: boolean;
  /** Which test reached which mutants, how often, since the process began. */
  readonly coverage: unknown;
}

/** How a test went. */
export interface Outcome {
  readonly id: string;
  readonly fileName: string;
  readonly ms: number;
  /** Of its error, if it failed. */
  readonly message?: string;
}

/** The state of Stryker's instrumented code. */
interface Switches {
  activeMutant?: string | undefined;
  currentTestId?: string | undefined;
  hitCount?: number;
  hitLimit?: number | undefined;
  mutantCoverage?: unknown;
}
const switches = ((globalThis as { __stryker__?: Switches }).__stryker__ ??= {});

/** Name of the channel between this thread and the plugin, in one process. */
const CHANNEL = 'drs-mutation';

/**
 * Runs tests of one file. The modules of `src/` stay loaded, and only the test file is evaluated again: to load them
 * for each mutant would take a hundred times as long as most tests.
 */
class FileRun extends TestRunner {
  readonly outcomes: Outcome[] = [];
  readonly #mutant: string | undefined;
  readonly #wanted: ReadonlySet<string> | undefined;

  constructor(outer: TestRunner, mutant: string | undefined, wanted: ReadonlySet<string> | undefined) {
    super(outer.config);
    Object.defineProperty(this, 'moduleRunner', { value: outer['moduleRunner'] });
    this.__setTraces(outer['_otel'] as never);
    this.#mutant = mutant;
    this.#wanted = wanted;
  }

  override importFile(file: string, source: VitestRunnerImportSource): unknown {
    const { evaluatedModules } = this['workerState'] as {
      evaluatedModules: { getModuleById(id: string): object | undefined };
    };
    const module = evaluatedModules.getModuleById(file);
    if (module !== undefined)
      Object.assign(module, { promise: undefined, exports: undefined, evaluated: false });
    return super.importFile(file, source);
  }

  onCollected(files: readonly Suite[]): void {
    for (const { result, name } of files) {
      if (result?.state === 'fail') throw new Error(`${name}: ${result.errors?.[0]?.message}`);
    }
    // Not earlier: what happens while modules are loaded is not what tests show.
    switches.activeMutant = this.#mutant;
  }

  override async onBeforeRunTask(test: Test): Promise<void> {
    if (this.#wanted?.has(idOf(test)) === false) test.mode = 'skip';
    else switches.currentTestId = idOf(test);
    await super.onBeforeRunTask(test);
  }

  override onAfterRunTask(test: Test): void {
    switches.currentTestId = undefined;
    const { state, duration = 0, errors } = test.result ?? {};
    const outcome = { id: idOf(test), fileName: test.file.filepath, ms: duration };
    if (state === 'pass') this.outcomes.push(outcome);
    else if (state === 'fail') {
      this.outcomes.push({ ...outcome, message: errors?.[0]?.message ?? 'failed' });
      // One is enough; but without a mutant, each failure shall be told.
      if (this.#mutant !== undefined) this['cancelRun'] = true;
    }
    super.onAfterRunTask(test);
  }

  /** A hook that fails fails the first test of its suite. (What Vitest does here for snapshots is not needed.) */
  override onAfterRunSuite(suite: Suite): Promise<void> {
    const message = suite.result?.errors?.[0]?.message;
    const test = message === undefined ? undefined : firstTestOf(suite);
    if (message !== undefined && test !== undefined)
      this.outcomes.push({ id: idOf(test), fileName: test.file.filepath, ms: 0, message });
    return Promise.resolve();
  }
}

function firstTestOf(suite: Suite): Test | undefined {
  for (const task of suite.tasks) {
    const test = task.type === 'suite' ? firstTestOf(task) : task;
    if (test !== undefined) return test;
  }
  return undefined;
}

/** The id that Stryker's reports give a test. */
function idOf(test: Test): string {
  const names = [];
  for (let task: Task | undefined = test; task !== undefined; task = task.suite) names.unshift(task.name);
  return `${relative(process.cwd(), test.file.filepath)}#${names.join(' ')}`;
}

/** Instead of running the file that it is asked to run, carries out orders until the process ends. */
export default class MutationRunner extends TestRunner {
  override async importFile(): Promise<never> {
    const channel = new BroadcastChannel(CHANNEL);
    channel.onmessage = ({ data }: { data: unknown }) => {
      void this.#carryOut(data as Order).then(
        (report) => channel.postMessage(report),
        (error: unknown) => channel.postMessage({ error: String(error) }),
      );
    };
    channel.postMessage('ready');
    return new Promise<never>(() => {});
  }

  async #carryOut({ files, groups, mutant, hitLimit }: Order): Promise<Report> {
    Object.assign(switches, { hitCount: 0, hitLimit });
    const outcomes: Outcome[] = [];
    for (const group of groups ?? [undefined]) {
      outcomes.push(...(await this.#run(files, mutant, group)));
      if (outcomes.some(isFailure)) break;
    }
    const { hitCount = 0 } = switches;
    const failed = outcomes.filter(isFailure);
    const ids = failed.map(({ id }) => id);
    const isStuck = failed.some(({ message = '' }) => /timed out in \d+ms/.test(message));
    const isClean =
      mutant === undefined ||
      failed.length === 0 ||
      isStuck ||
      !(await this.#run(files, undefined, ids)).some(isFailure);
    return { outcomes, hitCount, isClean, isStuck, coverage: switches.mutantCoverage };
  }

  async #run(
    files: readonly string[],
    mutant: string | undefined,
    ids?: readonly string[],
  ): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const wanted = ids === undefined ? undefined : new Set(ids);
    for (const file of files) {
      const path = relative(process.cwd(), file);
      if (ids?.some((id) => id.startsWith(`${path}#`)) === false) continue;
      const run = new FileRun(this, mutant, wanted);
      try {
        await startTests([file], run);
      } finally {
        switches.activeMutant = undefined;
        vi.useRealTimers();
        vi.restoreAllMocks();
      }
      outcomes.push(...run.outcomes);
      if (mutant !== undefined && outcomes.some(isFailure)) break;
    }
    return outcomes;
  }
}

const isFailure = ({ message }: Outcome) => message !== undefined;
