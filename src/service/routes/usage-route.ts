import { toUsd } from '../../protocol/money.js';
import type { ReplayStore } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import type { Exchange } from '../http/exchange.js';
import type { HttpRequest } from '../http/front-end.js';
import type { RequestHead } from '../http/request-head.js';
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
  readonly serve = (exchange: Exchange, { hasBody }: RequestHead, req: HttpRequest): void => {
    const query = req.getQuery() ?? '';
    const call = this.#access.admit(exchange, req);
    if (call === null) return;
    if (hasBody) {
      this.#access.log.record('malformed', call);
      exchange.refuse(400, 'the request has a body, expected none');
      return;
    }
    const receipt = readReceipt(query);
    if (receipt === null) {
      this.#access.log.record('malformed', call);
      exchange.refuse(400, `the query is ${show(query)}, expected receipt=sha256: and 64 hex digits`);
    } else void this.#answer(exchange, call, receipt);
  };

  async #answer(exchange: Exchange, call: AdminCall, receipt: string): Promise<void> {
    const facts = { receipt, token: this.#access.tokenName };
    const { engine, gateReplays } = this.#context;
    try {
      const [verify, gate] = await Promise.all([
        usageIn(engine.replays, receipt),
        usageIn(gateReplays, receipt),
      ]);
      this.#access.log.record('listed', call, facts);
      exchange.answer(200, JSON.stringify({ receipt, verify, gate }));
    } catch (error) {
      this.#access.log.record('failed', call, { ...facts, err: error });
      exchange.refuse(503, 'the store of used invocations cannot tell; try again');
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
