import { toUsd } from '../../protocol/money.js';
import type { ReplayStore } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import { refusal, type Answer, type Answering, type Incoming } from '../http/incoming.js';
import type { AdminCall } from '../observe/logs/admin-log.js';
import type { AdminAccess } from './admin-access.js';
import type { RouteContext } from './context.js';

/** `GET /admin/usage?receipt=sha256:…` */
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
