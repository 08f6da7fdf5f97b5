import { channel } from '#call-scope';
import type { Protocol } from '../gate/codes.js';
import type { GateContext } from '../gate/context.js';
import type { Denial } from '../gate/request.js';
import type { JsonObject } from '../protocol/json.js';
import { isAmount } from '../protocol/policy.js';

/** The name of the event of an executed call, and of its `diagnostics_channel`. */
export const TOOL_CALL = 'drs:tool-call';

/** The name of the event of a refused call, and of its `diagnostics_channel`. */
export const REFUSAL = 'drs:refusal';

/**
 * How a call ended: `ok`; `error` if its handler failed (an HTTP status of 400 or more, a JSON-RPC error, a result
 * with `isError`); `cancelled` if the caller disconnected or cancelled before the answer.
 */
export type Outcome = 'ok' | 'error' | 'cancelled';

/** One verified call that was executed. */
export interface ToolCallEvent {
  readonly event: typeof TOOL_CALL;
  readonly root_principal: string;
  readonly chain_depth: number;
  readonly command: string;
  /** `args.tool`; empty if the call names none. */
  readonly tool: string;
  readonly policy_result: 'pass';
  /** What was charged, in US dollars: what the operator says that the call costs, else the estimate that the caller signed, else 0. */
  readonly cost_usd: number;
  readonly inv_jti: string;
  /** The DID that signed the call. */
  readonly agent: string;
  /** When the call was over; ISO 8601, UTC. */
  readonly at: string;
  readonly outcome: Outcome;
}

/** Why a call was refused: what its caller was told. */
export interface Refusal {
  /** A code of docs/codes.md. */
  readonly code: string;
  /** The HTTP status, even if the call did not come over HTTP. */
  readonly status: number;
  readonly message: string;
  readonly suggestion: string;
}

/** The call that was refused. */
export interface RefusedCall {
  readonly protocol: Protocol;
  /**
   * What was called: a tool (`mcp`), a method (`a2a`), the route's tool (`http`). Unverified, and cut to 200
   * characters.
   */
  readonly tool: string | null;
  /** The chain's context if the chain is valid but the call is not, for example a replay; else `null`. */
  readonly context: GateContext | null;
  /** When; ISO 8601, UTC. */
  readonly at: string;
  /** Whether the gate is on trial, and let it pass. */
  readonly observed: boolean;
}

/** What the diagnostics channel `drs:refusal` gets. */
export interface RefusalEvent extends Refusal, RefusedCall {
  readonly event: typeof REFUSAL;
}

/** Receivers of events, besides the `diagnostics_channel`s. */
export interface EventOptions {
  /** Called with the event of each executed call. Its errors go to `onError`. */
  readonly onToolCall?: (event: ToolCallEvent) => unknown;
  /** Called with each refused call. Its errors go to `onError`. */
  readonly onRefused?: (refusal: Refusal, call: RefusedCall) => unknown;
  /** Gets the event of each executed call as a line of JSON: a stream, such as `process.stderr` or an open file. */
  readonly eventSink?: { write(line: string): unknown };
  /**
   * Called with errors that the caller does not see: of the verifier, a subscriber, a sink. Default: `console.error`.
   */
  readonly onError?: (error: Error) => void;
}

const toolCalls = channel(TOOL_CALL);
const refusals = channel(REFUSAL);

/** Publishes the event of an executed call, of strings and numbers only. Never throws and never waits. */
export function publishToolCall(
  context: GateContext,
  args: JsonObject,
  outcome: Outcome,
  { onToolCall, eventSink, onError }: EventOptions,
): void {
  const cost = context.cost_usd ?? args['estimated_cost_usd'];
  const event: ToolCallEvent = Object.freeze({
    event: TOOL_CALL,
    root_principal: context.root_principal,
    chain_depth: context.chain_depth,
    command: context.command,
    tool: context.tool ?? '',
    policy_result: 'pass',
    cost_usd: isAmount(cost) ? cost : 0,
    inv_jti: context.invocation,
    agent: context.agent,
    at: new Date().toISOString(),
    outcome,
  });
  toolCalls.publish(event);
  guarded(() => onToolCall?.(event), onError);
  guarded(() => eventSink?.write(`${JSON.stringify(event)}\n`), onError);
}

/**
 * Publishes a refusal. Never throws and never waits.
 *
 * @param context the chain's context, if the chain is valid
 */
export function publishRefusal(
  { failure, protocol, requested }: Denial,
  context: GateContext | null,
  observed: boolean,
  { onRefused, onError }: EventOptions,
): void {
  if (onRefused === undefined && !refusals.hasSubscribers) return;
  const { code, status, message, suggestion } = failure;
  const refusal: Refusal = Object.freeze({ code, status, message, suggestion });
  const at = new Date().toISOString();
  const call: RefusedCall = Object.freeze({ protocol, tool: requested, context, at, observed });
  refusals.publish(Object.freeze({ event: REFUSAL, ...refusal, ...call } satisfies RefusalEvent));
  guarded(() => onRefused?.(refusal, call), onError);
}

export function reportError(error: unknown, onError: EventOptions['onError'] = console.error): void {
  try {
    onError(error instanceof Error ? error : new Error(String(error)));
  } catch {
    // `onError` itself failed: there is nobody left to tell.
  }
}

/** Calls a function of the operator. Never throws and never waits. */
export function guarded(subscriber: () => unknown, onError: EventOptions['onError']): void {
  try {
    // A promise of any realm: unheard, what it rejects with would end the process.
    Promise.resolve(subscriber()).catch((error: unknown) => reportError(error, onError));
  } catch (error) {
    reportError(error, onError);
  }
}
