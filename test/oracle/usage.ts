import type { JsonObject } from './json.js';
import { costOf, limitsOfAllCalls } from './policy.js';

/** Counts what all calls together used under each receipt, as docs/spec/policy.md says. Nothing is ever forgotten. */
export class Usage {
  readonly #calls = new Map<string, bigint>();
  readonly #spent = new Map<string, bigint>();

  /** Charges a call to all receipts with a limit, given by their digests, or to none. Returns whether it was charged. */
  charge(
    receipts: readonly { readonly digest: string; readonly policy: JsonObject }[],
    args: JsonObject,
  ): boolean {
    const cost = costOf(args);
    const charged = receipts.flatMap(({ digest, policy }) => {
      const limits = limitsOfAllCalls(policy);
      if (limits.calls === undefined && limits.microDollars === undefined) return [];
      const calls = (this.#calls.get(digest) ?? 0n) + 1n;
      const spent = (this.#spent.get(digest) ?? 0n) + cost;
      const fits = (limits.calls ?? calls) >= calls && (limits.microDollars ?? spent) >= spent;
      return [{ digest, calls, spent, fits }];
    });
    if (!charged.every(({ fits }) => fits)) return false;
    for (const { digest, calls, spent } of charged) {
      this.#calls.set(digest, calls);
      this.#spent.set(digest, spent);
    }
    return true;
  }
}
