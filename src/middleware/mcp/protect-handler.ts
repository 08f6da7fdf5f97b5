import type { McpRules } from '../../gate/mcp.js';
import { runWithContext } from '../context.js';
import type { Outcome } from '../events.js';
import type { Guard } from '../guard.js';
import { DrsRefusalError } from '../refusal-error.js';
import { withHandlerAuthInfo } from './auth-info.js';
import { callMessage, countMessage, openMessage, refuseBatched } from './open-call.js';

/** Wraps a handler of a gated method. See `McpProtection`. */
export function protectHandler<Q extends { method?: string; params: object }, X, R>(
  guard: Guard,
  rules: McpRules,
  handler: (request: Q, extra: X) => R | Promise<R>,
): (request: Q, extra: X) => Promise<R> {
  return async (request, extra) => {
    countMessage(extra);
    const opened = openMessage(() => callMessage(request, extra), extra, rules);
    const decision = await guard.admit(await refuseBatched(opened, extra));
    if (decision.kind === 'deny') throw new DrsRefusalError(decision);
    if (decision.kind === 'pass') return runWithContext(null, null, () => handler(request, extra));
    const { context } = decision;
    let outcome: Outcome = 'error';
    try {
      const result = await runWithContext(context, null, () =>
        handler(request, withHandlerAuthInfo(extra, context)),
      );
      if (!isError(result)) outcome = 'ok';
      return result;
    } finally {
      decision.finish(isAborted(extra) ? 'cancelled' : outcome);
    }
  };
}

/** Whether a result says that its tool failed. */
export function isError(result: unknown): boolean {
  return typeof result === 'object' && result !== null && 'isError' in result && result.isError === true;
}

/** Whether the call was cancelled. Both SDKs have a signal; in 2.x it is one level deeper. */
function isAborted(extra: unknown): boolean {
  const { signal, mcpReq } = (extra ?? {}) as { signal?: unknown; mcpReq?: { signal?: unknown } };
  return [signal, mcpReq?.signal].some((given) => given instanceof AbortSignal && given.aborted);
}
