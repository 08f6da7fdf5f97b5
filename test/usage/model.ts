import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { CountedLimits } from '../../src/verify/limits.js';
import type { Charge, Refund, ReplayStore, Use } from '../../src/usage/usage-store.js';
import { ended, hasEnded } from '../support/child.js';
import { Random } from '../oracle/generator/random.js';
import { limitOf, NOW } from './limits.js';

/** One of several processes that charge calls to the same receipts. */
export interface Instance {
  /** Rejects if nothing is known of the call. */
  use(key: string, charge: Charge): Promise<Use>;
  /** Rejects if nothing is known of it. */
  refund(key: string, refund: Refund): Promise<Answer>;
  /** Ends it in the middle of its calls, and starts another in its place. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

type Answer = 'refunded' | 'repeated' | 'unknown';

/** An instance in this process. Its calls share nothing with those of others but the server of the store. */
export async function localInstance(open: () => Promise<ReplayStore>): Promise<Instance> {
  let store = await open();
  return {
    use: (key, charge) => store.use(key, NOW, 961, charge),
    refund: (key, refund) => store.refund?.(key, refund) ?? Promise.reject(new Error('none')),
    kill: async () => {
      const old = store;
      store = await open();
      await old.close();
    },
    close: () => store.close(),
  };
}

/**
 * An instance in a process of its own, which is killed with SIGKILL.
 *
 * @param where the URL of Redis, or the folder of a store in a file
 */
export async function processInstance(where: string): Promise<Instance & { freeze(): void; thaw(): void }> {
  const waiting = new Map<string, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();
  let serial = 0;
  const start = async () => {
    const child = fork('test/usage/model-child.mjs', [where]);
    child.on('message', ({ id, answer }: { id: string; answer: unknown }) => {
      if (answer === null) waiting.get(id)?.reject(new Error('refused'));
      else waiting.get(id)?.resolve(answer);
      waiting.delete(id);
    });
    await Promise.race([once(child, 'message'), ended(child)]);
    if (hasEnded(child)) throw new Error('an instance ended before it was ready');
    return child;
  };
  const end = async (child: ChildProcess) => {
    child.kill('SIGKILL');
    await ended(child);
    for (const { reject } of waiting.values()) reject(new Error('killed'));
    waiting.clear();
  };
  let child = await start();
  const ask = <T>(question: object) =>
    new Promise<T>((resolve, reject) => {
      const id = `${serial++}`;
      if (!child.connected) {
        reject(new Error('killed'));
        return;
      }
      waiting.set(id, { resolve: (answer) => resolve(answer as T), reject });
      child.send({ id, ...question, now: NOW }, (error) => error && reject(error));
    });
  return {
    use: (key, charge) => ask({ key, charge }),
    refund: (key, refund) => ask({ key, refund }),
    kill: async () => {
      await end(child);
      child = await start();
    },
    close: () => end(child),
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
  };
}

/** What is known of the calls under one receipt, added up without any code of the store. */
interface Account {
  readonly limits: CountedLimits;
  allowed: number;
  spent: number;
  /** Calls of which nothing is known, and what they cost. */
  unknown: number;
  unknownCost: number;
  /** What was given back, and what may have been. */
  back: number;
  backCost: number;
  unknownBack: number;
  unknownBackCost: number;
}

interface Call {
  readonly key: string;
  readonly chain: readonly Account[];
  readonly cost: number;
}

/** One schedule: a tree of limited receipts, and calls under its leaves from any instance. */
class Schedule {
  readonly #accounts: Account[] = [];
  readonly #chains: (readonly Account[])[] = [];
  readonly #random: Random;
  readonly #name: string;
  readonly #allowedKeys = new Set<string>();
  readonly #refundedKeys = new Set<string>();
  readonly #keys: Call[] = [];
  readonly faults: string[] = [];

  constructor(seed: number, name: string) {
    this.#random = new Random(seed);
    this.#name = name;
    const root = this.#account(0);
    for (let leaf = 0; leaf <= this.#random.below(3); leaf++) {
      const middle = this.#random.below(2) === 0 ? [this.#account(1)] : [];
      this.#chains.push([root, ...middle, this.#account(2)]);
    }
  }

  #account(level: number): Account {
    const maxCalls = this.#random.below(4) === 0 ? null : this.#random.below(9);
    const maxTotalMicroUsd = maxCalls === null || this.#random.below(2) === 0 ? this.#random.below(25) : null;
    const limits = limitOf(`${this.#name}/${this.#accounts.length}`, { level, maxCalls, maxTotalMicroUsd });
    const charges = { allowed: 0, spent: 0, unknown: 0, unknownCost: 0 };
    const backs = { back: 0, backCost: 0, unknownBack: 0, unknownBackCost: 0 };
    const account = { limits, ...charges, ...backs };
    this.#accounts.push(account);
    return account;
  }

  /** Calls of which nothing is known. */
  get unknown(): number {
    return this.#accounts[0]?.unknown ?? 0;
  }

  /** Makes calls, some at the same time, some again with an invocation that was used. */
  async run(instances: readonly Instance[]): Promise<void> {
    for (let wave = 0; wave < 4; wave++) {
      const calls = Array.from({ length: 1 + this.#random.below(6) }, () => {
        const old = this.#keys[this.#random.below(this.#keys.length * 3 + 1)];
        if (old !== undefined) return old;
        const chain = this.#random.pick(this.#chains);
        const call = { key: `${this.#name}:${this.#keys.length}`, chain, cost: this.#random.below(8) };
        this.#keys.push(call);
        return call;
      });
      const refunds = this.#keys.filter(() => this.#random.below(3) === 0);
      await Promise.all([
        ...calls.map((call) => this.#call(this.#random.pick(instances), call)),
        ...refunds.map((call) => this.#refund(this.#random.pick(instances), call)),
      ]);
    }
  }

  async #call(instance: Instance, { key, chain, cost }: Call): Promise<void> {
    const charge = { limits: chain.map(({ limits }) => limits), costMicroUsd: cost };
    let use: Use | null;
    try {
      use = await instance.use(key, charge);
    } catch {
      use = null;
      // As a client does before it tries again.
      await pause(150);
    }
    if (use?.kind === 'new') {
      if (this.#allowedKeys.has(key)) this.faults.push(`${key} was allowed twice`);
      this.#allowedKeys.add(key);
      // At once, too: what is given back later could hide it.
      for (const [at, { calls, microUsd }] of use.usage.entries()) {
        const { maxCalls, maxTotalMicroUsd } = (chain[at] as Account).limits;
        if (calls > (maxCalls ?? Infinity) || microUsd > (maxTotalMicroUsd ?? Infinity))
          this.faults.push(`${key} was allowed above a limit: ${calls} calls, ${microUsd}`);
      }
    }
    if (use?.kind === 'reached') {
      const { used, asked, limit } = use.limit;
      if (used + asked <= limit) this.faults.push(`${key} was refused with ${limit - used} left`);
    }
    for (const account of chain) {
      const paid = account.limits.maxTotalMicroUsd === null ? 0 : cost;
      if (use === null) {
        account.unknown++;
        account.unknownCost += paid;
      }
      if (use?.kind !== 'new') continue;
      account.allowed++;
      account.spent += paid;
    }
  }

  /** Gives a call back that was allowed, or not yet, or never, from any instance. */
  async #refund(instance: Instance, { key, chain, cost }: Call): Promise<void> {
    const calls = this.#random.below(2) === 0 ? 0 : 1;
    const amount = calls === 1 ? cost : this.#random.below(cost + 1);
    const backOf = ({ limits }: Account) => (limits.maxTotalMicroUsd === null ? 0 : amount);
    const parts = chain.map((account) => ({ receipt: account.limits.receipt, microUsd: backOf(account) }));
    const answer = await instance.refund(key, { calls, parts }).catch(() => null);
    if (answer === 'refunded' && this.#refundedKeys.has(key)) this.faults.push(`${key} was given back twice`);
    if (answer === 'refunded') this.#refundedKeys.add(key);
    for (const account of chain) {
      if (answer === 'refunded') {
        account.back += calls;
        account.backCost += backOf(account);
      }
      if (answer !== null) continue;
      account.unknownBack += calls;
      account.unknownBackCost += backOf(account);
    }
  }

  /** Compares what the store says in the end with what is known. */
  async check(store: ReplayStore): Promise<void> {
    for (const account of this.#accounts) {
      const { limits, allowed, spent, unknown, unknownCost } = account;
      const { back, backCost, unknownBack, unknownBackCost } = account;
      const { calls, microUsd } = (await store.usageOf(limits.receipt)) ?? { calls: 0, microUsd: 0 };
      const facts = JSON.stringify({ ...account, calls, microUsd });
      const [most, mostCost] = [back + unknownBack, backCost + unknownBackCost];
      if (
        allowed - most > (limits.maxCalls ?? Infinity) ||
        spent - mostCost > (limits.maxTotalMicroUsd ?? Infinity)
      )
        this.faults.push(`more than a limit: ${facts}`);
      if (calls > (limits.maxCalls ?? Infinity) || microUsd > (limits.maxTotalMicroUsd ?? Infinity))
        this.faults.push(`counted above a limit: ${facts}`);
      if (calls < 0 || microUsd < 0) this.faults.push(`below 0: ${facts}`);
      if (calls < allowed - most || microUsd < spent - mostCost)
        this.faults.push(`a call was not charged: ${facts}`);
      if (calls > allowed + unknown - back || microUsd > spent + unknownCost - backCost)
        this.faults.push(`charged without a call: ${facts}`);
    }
  }
}

/** Runs schedules at the same time, while something else happens. @returns what is wrong */
export async function runBatch(
  seeds: readonly number[],
  instances: readonly Instance[],
  disturb: () => Promise<void> = () => Promise.resolve(),
): Promise<{ readonly check: (store: ReplayStore) => Promise<string[]>; readonly unknown: number }> {
  const schedules = seeds.map((seed) => new Schedule(seed, `${process.pid}.${seed}.${batch++}`));
  // Some are spread over the disturbance, which takes a second.
  const running = schedules.map(async (schedule, at) => {
    await pause((at % 20) * 5);
    await schedule.run(instances);
  });
  await Promise.all([...running, disturb()]);
  return {
    unknown: schedules.reduce((sum, schedule) => sum + schedule.unknown, 0),
    check: async (store) => {
      for (const schedule of schedules) await schedule.check(store);
      return schedules.flatMap(({ faults }) => faults);
    },
  };
}

let batch = 0;
