import { MAX_PAGE_BODY, PAGE_METHODS, pageOf, TOO_LARGE } from '../../approval/page.js';
import type { RouteContext } from '../core.js';
import { answerTo } from '../http/body-handler.js';
import type { Exchange } from '../http/exchange.js';
import type { Route } from '../http/serve.js';
import type { Ticket } from '../load/gatekeeper.js';
import { RateLimit } from '../load/rate-limit.js';

/** Somebody who opens a question sends ten. All persons behind one proxy may be one client. */
const REQUESTS_PER_MINUTE = 300;

/** The route of the page on which persons say yes, for all paths below `/approve/`. None if nobody is asked. */
export function approveRows({
  gate: { approvals },
  configuration,
  log,
}: Pick<RouteContext, 'gate' | 'configuration' | 'log'>): readonly (readonly [path: string, route: Route])[] {
  if (approvals === null) return [];
  const answer = pageOf(approvals, (err) => log.error({ err }, 'a question could not be answered'));
  const serve = (exchange: Exchange, ticket: Ticket) =>
    answer({
      method: exchange.method,
      path: exchange.path,
      origin: exchange.header('origin'),
      read: async () => {
        const bytes = await exchange.read(MAX_PAGE_BODY, ticket);
        if (bytes === 'gone') return null;
        if (bytes === 'too_large') return TOO_LARGE;
        return typeof bytes === 'string' ? answerTo(bytes, configuration) : bytes;
      },
    });
  const rateLimit = new RateLimit(REQUESTS_PER_MINUTE, 0, 60);
  const row = {
    endpoint: 'approve',
    methods: PAGE_METHODS,
    rateLimit,
    takesAnyOrigin: true,
    takesQuery: true,
    serve,
  } as const;
  return [['/approve', row]];
}
