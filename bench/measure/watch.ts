import { spawn, type ChildProcess } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { harmonicMean, sum } from 'simple-statistics';
import { CORES, pinned, program } from '../run/programs.js';
import { coreTimes, processorTimeOf, processorTimeOfEndedChildren } from './processor-time.js';

export interface Disturbance {
  /** The floor in µs, measured at the same time; `null` if there was no sample. */
  readonly floor: number | null;
  /** Share of the cores that neither the server nor the generator nor this suite had: other programs, other machines. */
  readonly others: number;
}

export class Watch {
  readonly #samplers: readonly ChildProcess[];
  readonly #samples: { at: number; value: number }[] = [];

  /**
   * @param hasFloors whether a sampler on each core verifies a few signatures all the time, so that a measurement can be divided
   *   by the cost of a signature at the same moment. If `taskset` is missing, the scheduler distributes them.
   */
  constructor(hasFloors = false) {
    const places: readonly (number[] | null)[] =
      CORES?.map((core) => [core]) ?? Array.from({ length: availableParallelism() }, () => null);
    this.#samplers = (hasFloors ? places : []).map((cores) => {
      const [command, args] = pinned(cores, process.execPath, [program('measure/floor-process.js')]);
      const sampler = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
      sampler.on('error', () => undefined);
      createInterface({ input: sampler.stdout }).on('line', (line) =>
        this.#samples.push({ at: performance.now(), value: Number(line) }),
      );
      return sampler;
    });
  }

  /** @param pids of the servers under test, and of generators that do not end meanwhile */
  async during<Value>(
    pids: readonly number[],
    measure: () => Promise<Value>,
  ): Promise<Disturbance & { value: Value }> {
    const before = this.#mark(pids);
    const value = await measure();
    const after = this.#mark(pids);
    const samples = this.#samples.splice(0).filter(({ at }) => at >= before.at && at <= after.at);
    const busy = after.cores.busy - before.cores.busy;
    const total = after.cores.total - before.cores.total;
    return {
      value,
      // The speed changes by half within seconds, and more requests are served while it is high. So the mean cost of a request
      // belongs to the mean of the speed, not to the median of the cost.
      floor: samples.length === 0 ? null : harmonicMean(samples.map((sample) => sample.value)),
      others: Math.max(0, busy - (after.ours - before.ours)) / Math.max(1, total),
    };
  }

  [Symbol.dispose](): void {
    for (const sampler of this.#samplers) sampler.kill();
  }

  #mark(pids: readonly number[]) {
    const { user, system } = process.cpuUsage();
    const running = [...pids, ...this.#samplers.map(({ pid = 0 }) => pid)];
    const ours = user + system + sum(running.map((pid) => processorTimeOf(pid) || 0));
    return { at: performance.now(), cores: coreTimes(), ours: ours + processorTimeOfEndedChildren() };
  }
}
