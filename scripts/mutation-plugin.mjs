// A test runner for Stryker that loads the code once and not for each mutant. Most mutants then take milliseconds.
// Stryker's runner for Vitest starts a thread and loads all modules for each of them, which takes a second.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { BroadcastChannel } from 'node:worker_threads';
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';
import {
  DryRunStatus,
  TestStatus,
  determineHitLimitReached,
  toMutantRunResult,
} from '@stryker-mutator/api/test-runner';
import { createVitest } from 'vitest/node';

/** @import { CompleteDryRunResult, MutantRunOptions, MutantRunResult, TestResult } from '@stryker-mutator/api/test-runner' */
/** @import { MutantCoverage } from '@stryker-mutator/api/core' */
/** @import { Vitest } from 'vitest/node' */
/** @import { Order, Outcome, Report } from '../test/support/mutation-runner.js' */

// Quick tests run first: one that takes longer than these many milliseconds only if no quicker one has found the mutant.
const GRADES_MS = [20, 100, 400];

// In Stryker's copy of the project, for the other processes: how long each test takes.
const TIMES = 'mutation-times.json';

class InProcessRunner {
  #channel = new BroadcastChannel('drs-mutation');
  /** @type {Vitest | undefined} */
  #vitest;
  /** @type {string[]} */
  #files = [];
  /** @type {Map<string, number> | undefined} */
  #times;
  #isFirst = true;
  #isSpoilt = false;

  capabilities() {
    return { reloadEnvironment: false };
  }

  async init() {
    process.env['VITEST'] = '1';
    this.#vitest = await createVitest('test', { config: 'vitest.mutation.config.ts', watch: false });
    const found = await this.#vitest.globTestSpecifications();
    // The folder's own tests first: they find most mutants, and some others take long to load.
    const own = `/test/${process.env['MUTATED_FOLDER']}/`;
    const files = found.map(({ moduleId }) => moduleId);
    this.#files = [
      ...files.filter((file) => file.includes(own)),
      ...files.filter((file) => !file.includes(own)),
    ];
    const ready = this.#answer();
    // This ends only if the thread does: test/support/mutation-runner.ts carries out orders and runs no file by itself.
    void this.#vitest.start(this.#files.slice(0, 1)).then(() => process.exit(1));
    await ready;
  }

  /** @returns {Promise<CompleteDryRunResult>} */
  async dryRun() {
    const { outcomes, coverage } = await this.#carryOut({ files: this.#files });
    writeFileSync(TIMES, JSON.stringify(outcomes.map(({ id, ms }) => [id, ms])));
    const mutantCoverage = /** @type {MutantCoverage} */ (coverage);
    return { status: DryRunStatus.Complete, tests: outcomes.map(toTestResult), mutantCoverage };
  }

  /**
   * @param {MutantRunOptions} options
   * @returns {Promise<MutantRunResult>}
   */
  async mutantRun({ testFilter = [], activeMutant, hitLimit }) {
    // Stryker then starts another process, and asks that one.
    if (this.#isSpoilt) throw new Error('an earlier mutant has left something behind');
    const times = (this.#times ??= new Map(
      /** @type {[string, number][]} */ (JSON.parse(readFileSync(TIMES, 'utf8'))),
    ));
    /** @param {string} id */
    const gradeOf = (id) => GRADES_MS.filter((ms) => ms < (times.get(id) ?? 0)).length;
    const groups = [...GRADES_MS.keys(), GRADES_MS.length].map((grade) =>
      testFilter.filter((id) => gradeOf(id) === grade),
    );
    const order = { files: this.#files, groups, mutant: activeMutant.id, hitLimit };
    const { outcomes, hitCount, isClean, isStuck } = await this.#carryOut(order);
    this.#isSpoilt = !isClean;
    if (this.#isSpoilt && !this.#isFirst)
      throw new Error('an earlier mutant has left something behind, or this one has');
    this.#isFirst = false;
    this.#isSpoilt ||= isStuck;
    const errors = this.#vitest?.state.errorsSet;
    if (errors !== undefined && errors.size > 0) {
      this.#isSpoilt = true;
      return toMutantRunResult({
        status: DryRunStatus.Error,
        errorMessage: [...errors].map(String).join('\n'),
      });
    }
    const tests = outcomes.map(toTestResult);
    return toMutantRunResult(
      determineHitLimitReached(hitCount, hitLimit) ?? { status: DryRunStatus.Complete, tests },
    );
  }

  dispose() {
    this.#channel.close();
    // Not waited for: its one file never ends, so closing would wait for some time until it gives up.
    void this.#vitest?.close();
    return Promise.resolve();
  }

  /**
   * @param {Order} order
   * @returns {Promise<Report>}
   */
  async #carryOut(order) {
    const answer = this.#answer();
    this.#channel.postMessage(order);
    const report = /** @type {Report | { error: string }} */ (await answer);
    if ('error' in report) throw new Error(report.error);
    return report;
  }

  /** @returns {Promise<unknown>} */
  #answer() {
    return new Promise((settle) => {
      this.#channel.onmessage = (event) => settle(/** @type {MessageEvent} */ (event).data);
    });
  }
}

/**
 * @param {Outcome} outcome
 * @returns {TestResult}
 */
function toTestResult({ id, fileName, ms, message }) {
  const test = { id, name: id.slice(id.indexOf('#') + 1), timeSpentMs: ms, fileName: resolve(fileName) };
  if (message === undefined) return { ...test, status: TestStatus.Success };
  return { ...test, status: TestStatus.Failed, failureMessage: message };
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'in-process', InProcessRunner)];
