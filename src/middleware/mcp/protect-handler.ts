import { runWithContext } from '../context.js';
import type { Gate } from '../gate.js';
import { DrsRefusalError } from '../json-rpc.js';
import { countMessage, judgeToolCall } from './call.js';

/** Wraps a handler of `tools/call`. See `McpProtection`. */
export function protectHandler<Q extends { params: object }, X, R>(
  gate: Gate,
  handler: (request: Q, extra: X) => R | Promise<R>,
): (request: Q, extra: X) => Promise<R> {
  return async (request, extra) => {
    countMessage(extra);
    const judged = await judgeToolCall(gate, request.params, extra);
    if (judged.kind === 'refused') throw new DrsRefusalError(judged.refusal);
    if (judged.kind === 'absent') return runWithContext(null, null, () => handler(request, extra));
    try {
      return await runWithContext(judged.context, null, () => handler(request, extra));
    } finally {
      gate.publish(judged);
    }
  };
}
