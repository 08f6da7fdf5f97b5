import { spawn, type ChildProcess } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { harmonicMean } from 'simple-statistics';
import { CORES, pinned } from '../run/cores.js';
import { program } from '../run/programs.js';
import { coreTimes, processorTimeOfEndedChildren, scheduledOf, type CoreTimes } from './processor-time.js';

/** The state of the machine while something was measured. */
export interface Disturbance {
  /** The floor in µs, measured on the same cores at the same time; `null` if the time was too short for a sample. */
  readonly floor: number | null;
  /** Share of the cores that other programs had: not the server, the generator or this suite. */
  readonly others: number;
  /** Share of the cores that the hypervisor gave to other machines. */
  readonly stolen: number;
}

interface Mark {
  readonly at: number;
  readonly cores: CoreTimes | null;
  readonly ours: number;
}

/**
 * Watches the machine during measurements. A sampler pinned to each core verifies a few signatures all the time, so
 * that a measurement can be divided by the cost of a signature at the same moment.
 */
export class Watch {
  readonly #samplers: readonly ChildProcess[];
  readonly #samples: { core: number; at: number; value: number }[] = [];

  private constructor(samplers: readonly ChildProcess[]) {
    this.#samplers = samplers;
    for (const [at, { stdout }] of samplers.entries()) {
      const core = CORES?.[at] ?? at;
      if (stdout === null) continue;
      createInterface({ input: stdout }).on('line', (line) =>
        this.#samples.push({ core, at: performance.now(), value: Number(line) }),
      );
    }
  }

  /** Starts the samplers. If `taskset` is missing, they are not pinned, and the scheduler distributes them. */
  static start(): Watch {
    const file = program('measure/floor-process.js');
    const places: (number[] | null)[] =
      CORES?.map((core) => [core]) ?? Array.from({ length: availableParallelism() }, () => null);
    const samplers = places.map((cores) =>
      spawn(...pinned(cores, process.execPath, [file]), { stdio: ['ignore', 'pipe', 'ignore'] }),
    );
    for (const sampler of samplers) sampler.on('error', () => undefined);
    return new Watch(samplers);
  }

  /**
   * @param pids of the servers under test
   * @param cores on which they run; `null`: on all
   */
  async during<Value>(
    pids: readonly number[],
    measure: () => Promise<Value>,
    cores: readonly number[] | null = null,
  ): Promise<{ value: Value; interference: Disturbance }> {
    const before = this.#mark(pids);
    const value = await measure();
    return { value, interference: this.#since(before, this.#mark(pids), cores) };
  }

  stop(): void {
    for (const sampler of this.#samplers) sampler.kill();
  }

  #mark(servers: readonly number[]): Mark {
    const own = process.cpuUsage();
    const pids = [...servers, ...this.#samplers.map((sampler) => sampler.pid ?? 0)];
    const running = pids.reduce((sum, one) => sum + (scheduledOf(one)?.ran ?? 0), 0);
    const ours = own.user + own.system + running + (processorTimeOfEndedChildren() ?? 0);
    return { at: performance.now(), cores: coreTimes(), ours };
  }

  #since(before: Mark, after: Mark, cores: readonly number[] | null): Disturbance {
    const samples = this.#samples.filter(
      ({ core, at }) => at >= before.at && at <= after.at && cores?.includes(core) !== false,
    );
    this.#samples.length = 0;
    return {
      // The speed changes by half within seconds, and more requests are served while it is high. So the mean cost of a request
      // belongs to the mean of the speed, not to the median of the cost.
      floor: samples.length === 0 ? null : harmonicMean(samples.map(({ value }) => value)),
      ...shares(before, after),
    };
  }
}

function shares(before: Mark, after: Mark): Pick<Disturbance, 'others' | 'stolen'> {
  if (before.cores === null || after.cores === null) return { others: 0, stolen: 0 };
  const total = Math.max(1, after.cores.total - before.cores.total);
  const busy = after.cores.busy - before.cores.busy;
  const others = Math.max(0, busy - (after.ours - before.ours)) / total;
  return { others, stolen: (after.cores.stolen - before.cores.stolen) / total };
}
