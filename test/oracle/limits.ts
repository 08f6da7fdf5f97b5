import type { Receipt } from './claims.js';
import { digestOf } from './encoding.js';
import { limitsOfAllCalls } from './policy.js';

/** The limits of docs/spec/usage.md, in integers of any size. */
export interface CountedLimit {
  readonly level: number;
  readonly receipt: string;
  readonly maxCalls: bigint | undefined;
  readonly maxMicroUsd: bigint | undefined;
  readonly exp: number | undefined;
}

/** The receipts of a chain that limit how often it is used. */
export function limitsOf(receipts: readonly Receipt[]): CountedLimit[] {
  return receipts
    .map(({ policy, jwt, exp }, level) => {
      const { calls: maxCalls, microDollars: maxMicroUsd } = limitsOfAllCalls(policy);
      return { level, receipt: digestOf(jwt.text), exp, maxCalls, maxMicroUsd };
    })
    .filter(({ maxCalls, maxMicroUsd }) => maxCalls !== undefined || maxMicroUsd !== undefined);
}

/** The members that are not counted without replay protection. */
export const namesOf = (limits: readonly CountedLimit[]) => [
  ...(limits.some(({ maxMicroUsd }) => maxMicroUsd !== undefined) ? ['max_total_cost_usd'] : []),
  ...(limits.some(({ maxCalls }) => maxCalls !== undefined) ? ['max_calls'] : []),
];

/** What the allowed calls under each receipt have used. Nothing is ever forgotten. */
export class Ledger {
  #used = new Map<string, { readonly calls: bigint; readonly microUsd: bigint }>();
  #before = this.#used;

  /** Charges a call to all limits, or to none. @returns what is left of them, or `undefined` if one is reached */
  charge(limits: readonly CountedLimit[], asked: bigint): object[] | undefined {
    const isPaid = limits.some(({ maxMicroUsd }) => maxMicroUsd !== undefined);
    const cost = isPaid ? asked : 0n;
    const after = limits.map(({ receipt }) => {
      const { calls, microUsd } = this.#used.get(receipt) ?? { calls: 0n, microUsd: 0n };
      return { calls: calls + 1n, microUsd: microUsd + cost };
    });
    const isWithin = limits.every(({ maxCalls, maxMicroUsd }, at) => {
      const { calls, microUsd } = after[at] ?? { calls: 0n, microUsd: 0n };
      return (
        (maxCalls === undefined || calls <= maxCalls) &&
        (maxMicroUsd === undefined || microUsd <= maxMicroUsd)
      );
    });
    if (!isWithin) return undefined;
    this.#before = new Map(this.#used);
    return limits.map(({ level, receipt, maxCalls, maxMicroUsd, exp }, at) => {
      const used = after[at] ?? { calls: 0n, microUsd: 0n };
      this.#used.set(receipt, used);
      return {
        ...{ level, receipt },
        ...(maxCalls !== undefined && { calls_left: Number(maxCalls - used.calls) }),
        ...(maxMicroUsd !== undefined && { usd_left: Number(maxMicroUsd - used.microUsd) / 1e6 }),
        expires_at: exp ?? null,
      };
    });
  }

  /** Gives back what the last call was charged. */
  takeBack(): void {
    this.#used = this.#before;
  }
}
