import { CallScope, followsCalls } from '#call-scope';
import type { GateContext } from '../gate/context.js';
import type { Refunded } from '../usage/refund.js';

/** What a handler gets to know about the verified call that it serves, and can do about it. Frozen; each call has its own. */
export interface DrsContext extends GateContext {
  /**
   * Gives back what the call was charged to the limits of its receipts: once, until 60 s after it was allowed.
   *
   * @param usd the part of the cost that was not spent, in US dollars; default: the call did not happen, so that it no
   *   longer counts and has cost nothing
   * @throws RefundError (the promise rejects) if nothing was given back, or nobody knows
   * @example
   * const drs = drsContext();
   * const bill = await search(query).catch(async (error) => {
   *   await drs.refund();
   *   throw error;
   * });
   * await drs.refund(0.05 - bill.usd);
   */
  refund(usd?: number): Promise<Refunded>;
}

const ofRequest = new WeakMap<object, DrsContext>();
// `null` in an unverified handler, even if a verified one has called it: it must not find the outer call's context.
const ofCall = new CallScope<DrsContext | null>();

/**
 * The verified call that a handler serves. Throws if there is none, so call it first in handlers that need one.
 *
 * @param request the request that the middleware let pass; default: the call whose handler is running. Callbacks of the
 *   request's own events do not run in its handler's context: pass the request there.
 * @throws Error if no call was verified: the middleware did not run, or let a request without a bundle pass; or if there
 *   is no `request` and the runtime (browsers, workers) does not know which call a handler serves
 * @example
 * app.post('/weather', drsMiddleware({ ...drs, tool: 'weather' }), (req, res) => {
 *   const { root_principal, agent } = drsContext(req);
 * });
 */
export function drsContext(request?: object): DrsContext {
  const context = findDrsContext(request);
  if (context !== null) return context;
  throw new Error(
    'no verified call here: put the DRS middleware in front of this handler; if it is `optional`, use findDrsContext()',
  );
}

/**
 * The verified call that a handler serves, or `null` if a request without a bundle was let pass.
 *
 * @param request as for {@link drsContext}
 */
export function findDrsContext(request?: object): DrsContext | null {
  if (request !== undefined) return ofRequest.get(request) ?? null;
  if (followsCalls) return ofCall.getStore() ?? null;
  throw new Error(
    'this runtime does not know which call a handler serves: pass the request that the handler got, as in drsContext(request)',
  );
}

/**
 * Runs a handler so that it finds the context.
 *
 * @param context `null` if the call was not verified: the handler then finds no context
 */
export function runWithContext<T>(context: DrsContext | null, request: object | null, handler: () => T): T {
  if (request !== null) setContext(context, request);
  return ofCall.run(context, handler);
}

/** Attaches a context to a request, for handlers that run outside {@link runWithContext}. */
export function setContext(context: DrsContext | null, request: object): void {
  if (context === null) ofRequest.delete(request);
  else ofRequest.set(request, context);
}
