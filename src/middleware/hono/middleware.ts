import type { Context, MiddlewareHandler } from 'hono';
import type { DrsContext } from '../context.js';
import { openFetch, refusalResponse } from '../fetch.js';
import { Guard, runAdmitted } from '../guard.js';
import { checkProtection, type MiddlewareOptions, ROUTE } from '../options.js';

/** Options of {@link drsHono}. */
export type HonoMiddlewareOptions = MiddlewareOptions<Context>;

/** The context variable of a route behind {@link drsHono}. */
export interface DrsEnv<C extends DrsContext | null = DrsContext> {
  Variables: { drs: C };
}

/**
 * Hono middleware that lets only verified calls reach the handlers behind it. Handlers find the call in the context
 * variable `drs`, or with `drsContext()`. Put it in front of everything that reads the body.
 *
 * @throws TypeError naming every problem with the options
 * @example
 * app.post('/weather', drsHono({ ...drs, tool: 'weather' }), async (c) => {
 *   return c.json(forecast((await c.req.json()).city, c.var.drs.agent));
 * });
 */
export function drsHono(
  options: HonoMiddlewareOptions & { readonly optional: true },
): MiddlewareHandler<DrsEnv<DrsContext | null>>;
export function drsHono(
  options: HonoMiddlewareOptions & { readonly optional?: false },
): MiddlewareHandler<DrsEnv>;
export function drsHono(given: HonoMiddlewareOptions): MiddlewareHandler {
  const options = checkProtection(given, ROUTE);
  const guard = new Guard('http', options);
  return async (c, next) => {
    const { opened, sent: request } = await openFetch(c.req.raw, options, c, parametersOf(c));
    const decision = await guard.admit(opened);
    if (decision.kind === 'deny') return refusalResponse(decision);
    c.req.raw = request;
    c.set('drs', decision.kind === 'allow' ? decision.context : null);
    const hasFailed = () => c.error !== undefined || c.res.status >= 400;
    await runAdmitted(decision, request, next, hasFailed, () => request.signal.aborted);
    return undefined;
  };
}

/** The parameters of all routes that serve a request: Hono itself shows a middleware those of its own path alone. */
function parametersOf(c: Context): Record<string, true> {
  // oxlint-disable-next-line typescript/no-deprecated -- its replacement is not in every Hono 4
  const names = c.req.matchedRoutes.flatMap(({ path }) => path.match(/(?<=:)[^/{?]+/g) ?? []);
  return Object.fromEntries(names.map((name) => [name, true]));
}
