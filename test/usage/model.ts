import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { CountedLimits } from '../../src/verify/limits.js';
import type { Charge, Refund, ReplayStore, Use } from '../../src/usage/usage-store.js';
import { Random } from '../oracle/generator/random.js';
import { limitOf, NOW } from './limits.js';

/** One of several processes that charge calls to the same receipts. */
export interface Instance {
  /** Rejects if nothing is known of the call. */
  use(key: string, charge: Charge): Promise<Use>;
  /** Rejects if nothing is known of the refund. */
  refund(key: string, receipts: readonly string[], microUsd: number | null): Promise<Refund>;
  /** Ends it in the middle of its calls, and starts another in its place. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

/** An instance in this process. Its calls share nothing with those of others but the server of the store. */
export async function localInstance(open: () => Promise<ReplayStore>): Promise<Instance> {
  let store = await open();
  return {
    use: (key, charge) => store.use(key, NOW, 961, charge),
    // By the time of the call: a memory store has no clock of its own.
    refund: (key, receipts, microUsd) =>
      (store as Required<ReplayStore>).refund(key, receipts, NOW, microUsd),
    kill: async () => {
      const old = store;
      store = await open();
      await old.close();
    },
    close: () => store.close(),
  };
}

/** An instance in a process of its own, which is killed with SIGKILL. */
export async function processInstance(url: string): Promise<Instance> {
  const waiting = new Map<string, { resolve: (result: never) => void; reject: (error: Error) => void }>();
  let serial = 0;
  const start = async () => {
    const child = fork('test/usage/model-child.mjs', [url]);
    child.on('message', ({ id, result }: { id: string; result: unknown }) => {
      if (result === null) waiting.get(id)?.reject(new Error('refused'));
      else waiting.get(id)?.resolve(result as never);
      waiting.delete(id);
    });
    await once(child, 'message');
    return child;
  };
  const end = async (child: ChildProcess) => {
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
    for (const { reject } of waiting.values()) reject(new Error('killed'));
    waiting.clear();
  };
  let child = await start();
  const ask = <T>(asked: object) =>
    new Promise<T>((resolve, reject) => {
      const id = `${serial++}`;
      if (!child.connected) {
        reject(new Error('killed'));
        return;
      }
      waiting.set(id, { resolve, reject });
      child.send({ id, now: NOW, ...asked }, (error) => error && reject(error));
    });
  return {
    use: (key, charge) => ask({ key, charge }),
    refund: (key, receipts, microUsd) => ask({ key, receipts, microUsd }),
    kill: async () => {
      await end(child);
      child = await start();
    },
    close: () => end(child),
  };
}

/** What is known of the calls under one receipt, without what was given back, added up without any code of the store. */
interface Account {
  readonly limits: CountedLimits;
  allowed: number;
  spent: number;
  /** Calls of which nothing is known, and what they cost. */
  unknown: number;
  unknownCost: number;
}

interface Call {
  readonly key: string;
  readonly chain: readonly Account[];
  readonly cost: number;
  /** Whether its charge is given back if it is allowed, and how much of it; `null`: all, and the call. */
  readonly refund: { readonly microUsd: number | null } | null;
}

/** One schedule: a tree of limited receipts, and calls under its leaves from any instance. */
class Schedule {
  readonly #accounts: Account[] = [];
  readonly #chains: (readonly Account[])[] = [];
  readonly #random: Random;
  readonly #name: string;
  readonly #allowedKeys = new Set<string>();
  readonly #keys: Call[] = [];
  readonly faults: string[] = [];
  /** Calls that were given back. */
  refunded = 0;
  #refunds = 0;

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
    const account = { limits, allowed: 0, spent: 0, unknown: 0, unknownCost: 0 };
    this.#accounts.push(account);
    return account;
  }

  /** Calls of which nothing is known. */
  get unknown(): number {
    return this.#accounts[0]?.unknown ?? 0;
  }

  /** Makes calls, some at the same time, some again with an invocation that was used. */
  async run(instances: readonly Instance[]): Promise<void> {
    const pending: Promise<void>[] = [];
    for (let wave = 0; wave < 4; wave++) {
      const calls = Array.from({ length: 1 + this.#random.below(6) }, () => {
        const old = this.#keys[this.#random.below(this.#keys.length * 3 + 1)];
        if (old !== undefined) return old;
        const chain = this.#random.pick(this.#chains);
        const refund =
          this.#random.below(3) > 0
            ? null
            : { microUsd: this.#random.below(2) > 0 ? null : this.#random.below(9) };
        const call = {
          key: `${this.#name}:${this.#keys.length}`,
          chain,
          cost: this.#random.below(8),
          refund,
        };
        this.#keys.push(call);
        return call;
      });
      const answers = await Promise.all(
        calls.map(async (call) => ({ call, use: await this.#call(this.#random.pick(instances), call) })),
      );
      // Some while the next calls are made.
      const refunds = answers.map(({ call, use }) => this.#refund(instances, call, use));
      if (this.#random.below(2) === 0) await Promise.all(refunds);
      else pending.push(...refunds);
    }
    await Promise.all(pending);
  }

  async #call(instance: Instance, { key, chain, cost }: Call): Promise<Use | null> {
    const charge = { limits: chain.map(({ limits }) => limits), costMicroUsd: cost, clockSkewSecs: 0 };
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
      for (const [at, { calls, microUsd }] of use.usage.entries()) {
        const { maxCalls, maxTotalMicroUsd } = (chain[at] as Account).limits;
        if (calls > (maxCalls ?? Infinity) || microUsd > (maxTotalMicroUsd ?? Infinity))
          this.faults.push(`${key} was allowed above a limit: ${calls}, ${microUsd}`);
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
    return use;
  }

  /** Gives a call back, from several instances at the same time, and again until the answer is known. */
  async #refund(
    instances: readonly Instance[],
    { key, chain, cost, refund }: Call,
    use: Use | null,
  ): Promise<void> {
    if (refund === null || use?.kind !== 'new') return;
    const { microUsd } = refund;
    const charged = chain.some(({ limits }) => limits.maxTotalMicroUsd !== null) ? cost : 0;
    const ask = async () => {
      for (let tries = 0; tries < 100; tries++) {
        try {
          const receipts = chain.map(({ limits }) => limits.receipt);
          const answer = await (instances[(tries + this.#refunds++) % instances.length] as Instance).refund(
            key,
            receipts,
            microUsd,
          );
          // `again` after a try without an answer: that try was the one, or another asker.
          return answer.kind;
        } catch {
          await pause(150);
        }
      }
      return 'no answer';
    };
    const kinds = await Promise.all([ask(), ask()]);
    kinds.push(await ask());
    const back = (microUsd ?? 0) <= charged;
    const expected = back ? 'again' : 'above';
    const made = kinds.filter((kind) => kind === 'refunded').length;
    if (made > (back ? 1 : 0) || kinds.some((kind) => kind !== expected && kind !== 'refunded'))
      this.faults.push(`${key} for ${charged}: a refund of ${microUsd} was ${kinds.join(', ')}`);
    if (!back) return;
    this.refunded++;
    for (const account of chain) {
      if (microUsd === null) account.allowed--;
      if (account.limits.maxTotalMicroUsd !== null) account.spent -= microUsd ?? cost;
    }
  }

  /** Compares what the store says in the end with what is known. */
  async check(store: ReplayStore): Promise<void> {
    for (const { limits, allowed, spent, unknown, unknownCost } of this.#accounts) {
      const { calls, microUsd } = (await store.usageOf(limits.receipt)) ?? { calls: 0, microUsd: 0 };
      const facts = JSON.stringify({ limits, allowed, spent, unknown, unknownCost, calls, microUsd });
      if (allowed > (limits.maxCalls ?? Infinity) || spent > (limits.maxTotalMicroUsd ?? Infinity))
        this.faults.push(`more than a limit: ${facts}`);
      if (calls < allowed || microUsd < spent) this.faults.push(`a call was not charged: ${facts}`);
      if (calls > allowed + unknown || microUsd > spent + unknownCost)
        this.faults.push(`charged without a call: ${facts}`);
    }
  }
}

/** Runs schedules at the same time, while something else happens. @returns what is wrong */
export async function runBatch(
  seeds: readonly number[],
  instances: readonly Instance[],
  disturb: () => Promise<void> = () => Promise.resolve(),
): Promise<{
  readonly check: (store: ReplayStore) => Promise<string[]>;
  readonly unknown: number;
  readonly refunded: number;
}> {
  const schedules = seeds.map((seed) => new Schedule(seed, `${process.pid}.${seed}.${batch++}`));
  // Some are spread over the disturbance, which takes a second.
  const running = schedules.map(async (schedule, at) => {
    await pause((at % 20) * 5);
    await schedule.run(instances);
  });
  await Promise.all([...running, disturb()]);
  return {
    unknown: schedules.reduce((sum, schedule) => sum + schedule.unknown, 0),
    refunded: schedules.reduce((sum, schedule) => sum + schedule.refunded, 0),
    check: async (store) => {
      for (const schedule of schedules) await schedule.check(store);
      return schedules.flatMap(({ faults }) => faults);
    },
  };
}

let batch = 0;
