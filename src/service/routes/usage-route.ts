import { setImmediate } from 'node:timers/promises';
import { toUsd } from '../../protocol/money.js';
import type { ReplayStore } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import { refusal, type Answer, type Answering, type Incoming } from '../http/incoming.js';
import type { AdminCall } from '../observe/logs/admin-log.js';
import type { AdminAccess } from './admin-access.js';
import type { RouteContext } from './context.js';

const ENTRIES_PER_TURN = 10_000;

/** `GET /admin/usage?receipt=sha256:…`, and `POST /admin/usage/prune`. */
export class UsageRoute {
  readonly #context: RouteContext;
  readonly #access: AdminAccess;

  constructor(context: RouteContext, access: AdminAccess) {
    this.#context = context;
    this.#access = access;
  }

  /** Checks, in this order: whether it is configured, the token, that there is no body, the query. */
  readonly serve = (incoming: Incoming): Answering =>
    this.#access.admitBodiless(incoming, (call) => {
      const query = incoming.query ?? '';
      const receipt = readReceipt(query);
      if (receipt !== null) return this.#answer(call, receipt);
      this.#access.log.record('malformed', call);
      return refusal(400, `the query is ${show(query)}, expected receipt=sha256: and 64 hex digits`);
    });

  /** The same checks without a query. Then forgets the counters of receipts that are revoked for good. */
  readonly prune = (incoming: Incoming): Answering =>
    this.#access.admitBodiless(incoming, (call) => this.#prune(call));

  async #prune(call: AdminCall): Promise<Answer> {
    const { engine, gate: ofGate } = this.#context;
    const revoked = new Set<string>();
    const prune = async (store: ReplayStore | null) => (await store?.prune?.(revoked)) ?? null;
    const facts = { pruned: true, token: this.#access.tokenName };
    try {
      let seen = 0;
      for (const { target, exp } of engine.revocation.list()) {
        // An entry with an end is dropped some day, and a receipt without one could then be used again.
        if (typeof target === 'string' && target.startsWith('sha256:') && exp === null) revoked.add(target);
        // There may be a million: others have their turn meanwhile.
        if (++seen % ENTRIES_PER_TURN === 0) await setImmediate();
      }
      const [verify, gate] = [await prune(engine.replays), await prune(ofGate.replays)];
      this.#access.log.record('done', call, { ...facts, verify, gate });
      return { status: 200, body: JSON.stringify({ verify, gate }) };
    } catch (error) {
      this.#access.log.record('failed', call, { ...facts, err: error });
      return refusal(503, 'the store of used invocations cannot tell; try again');
    }
  }

  async #answer(call: AdminCall, receipt: string): Promise<Answer> {
    const facts = { receipt, token: this.#access.tokenName };
    const { engine, gate: ofGate } = this.#context;
    try {
      const [verify, gate] = await Promise.all([
        usageIn(engine.replays, receipt),
        usageIn(ofGate.replays, receipt),
      ]);
      this.#access.log.record('listed', call, facts);
      return { status: 200, body: JSON.stringify({ receipt, verify, gate }) };
    } catch (error) {
      this.#access.log.record('failed', call, { ...facts, err: error });
      return refusal(503, 'the store of used invocations cannot tell; try again');
    }
  }
}

/** @returns `null` if nothing is counted there */
async function usageIn(store: ReplayStore | null, receipt: string): Promise<object | null> {
  if (store === null) return null;
  const { calls, microUsd } = (await store.usageOf(receipt)) ?? { calls: 0, microUsd: 0 };
  return { calls, total_cost_usd: toUsd(microUsd) };
}

/** The digest that a query asks for; `null` if it asks for anything else. */
function readReceipt(query: string): string | null {
  const [, hex] = /^receipt=sha256(?::|%3[Aa])([\da-f]{64})$/.exec(query) ?? [];
  return hex === undefined ? null : `sha256:${hex}`;
}
