import { channel } from 'node:diagnostics_channel';
import type { InvocationClaims } from '../protocol/claims.js';
import { isAmount } from '../protocol/policy.js';
import type { VerdictContext } from '../verify/receipt.js';

/** The name of the event and of its `diagnostics_channel`. */
export const TOOL_CALL = 'drs:tool-call';

/** One verified call that was executed. Service document 6 */
export interface ToolCallEvent {
  readonly event: typeof TOOL_CALL;
  readonly root_principal: string;
  readonly chain_depth: number;
  readonly command: string;
  /** `args.tool`; empty where the call names none. */
  readonly tool: string;
  readonly policy_result: 'pass';
  /** The estimate that the caller signed, in US dollars; 0 where there is none. */
  readonly cost_usd: number;
  readonly inv_jti: string;
}

/** Where events go besides the `diagnostics_channel`. */
export interface EventOptions {
  /** Called with each event. What it throws goes to `onError`. */
  readonly onToolCall?: (event: ToolCallEvent) => unknown;
  /** Gets each event as a line of JSON: a stream, such as `process.stderr` or an open file. */
  readonly eventSink?: { write(line: string): unknown };
  /** Told of faults that the caller is not told of: of a verifier, a subscriber, a sink. Default: `console.error`. */
  readonly onError?: (error: Error) => void;
}

const toolCalls = channel(TOOL_CALL);

/** The event of a call. */
export function toolCallEvent(context: VerdictContext, { cmd, args, jti }: InvocationClaims): ToolCallEvent {
  const { tool, estimated_cost_usd: cost } = args;
  return Object.freeze({
    event: TOOL_CALL,
    root_principal: context.root_principal,
    chain_depth: context.chain_depth,
    command: cmd,
    tool: typeof tool === 'string' ? tool : '',
    policy_result: 'pass',
    cost_usd: isAmount(cost) ? cost : 0,
    inv_jti: jti,
  });
}

/** Publishes an event. Never throws, and waits for nobody. */
export function publishToolCall(
  event: ToolCallEvent,
  { onToolCall, eventSink, onError }: EventOptions,
): void {
  toolCalls.publish(event);
  guarded(() => onToolCall?.(event), onError);
  guarded(() => eventSink?.write(`${JSON.stringify(event)}\n`), onError);
}

/** Reports a fault to whoever is configured to hear of it. */
export function reportError(error: unknown, onError: EventOptions['onError'] = console.error): void {
  try {
    onError(error instanceof Error ? error : new Error(String(error)));
  } catch {
    // There is nobody left to tell.
  }
}

function guarded(subscriber: () => unknown, onError: EventOptions['onError']): void {
  try {
    const result = subscriber();
    if (result instanceof Promise) result.catch((error: unknown) => reportError(error, onError));
  } catch (error) {
    reportError(error, onError);
  }
}
