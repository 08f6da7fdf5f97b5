import type { BriefContext, GateContext } from '../gate/context.js';
import { gateFailure, type GateFailure } from '../gate/codes.js';
import { denied } from '../gate/decide.js';
import { forwardMcp, type HandedOn } from '../gate/mcp-forward.js';
import { MCP_COMMAND } from '../gate/mcp-methods.js';
import { responseTo, type GateResponse, type RpcRefusal } from '../gate/response.js';
import { idInUse, TaskOwners } from '../gate/task-owners.js';
import { isJsonObject } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { wholeContextOf, type GateDecider } from '../service/gate-decider.js';
import type { LoggedRequest } from '../service/http/incoming.js';
import { newRequestId } from '../service/http/request-ids.js';
import type { Traced, Tracing } from '../service/observe/tracing.js';
import { idTextOf, readBytes, type Message } from './message.js';
import type { Hook, Outcome } from './pump.js';

/** So many calls may have no answer. None is forgotten before its answer says whose a task is, but for cancelled ones. */
const MAX_DUE = 10_000;
const CANCELLED = 'notifications/cancelled';

/** What {@link stdioGuard} needs. */
export interface StdioGuardParts {
  readonly decider: Pick<GateDecider, 'decide'>;
  readonly tracing: Tracing | null;
  readonly maxBytes: number;
  /** Tells the operator of a notification that was dropped. */
  readonly dropped: (code: string) => void;
}

/**
 * The gate between a client and a server that speak MCP over stdio. What the server writes passes byte for byte; the answers to
 * calls tell who has started which task.
 */
export function stdioGuard({ decider, tracing, maxBytes, dropped }: StdioGuardParts) {
  const tasks = new TaskOwners();
  /** The calls whose answers are due, by id, as JSON. */
  const due = new Map<string, BriefContext>();
  /** Those of them that their client gave up, and may never be answered; oldest first. */
  const cancelled = new Set<string>();

  async function decide(line: Buffer, message: Message | null, isTooLong = false): Promise<Outcome> {
    const text = isTooLong ? '' : decodeUtf8(line);
    if (text === null) return refuse('the line is not UTF-8', message);
    const id = message?.id ?? null;
    const key = JSON.stringify(id);
    if (due.has(key)) return refuse(idInUse(id), message);
    const full = `${MAX_DUE} requests have no answer yet`;
    if (id !== null && !hasRoom()) return refuse(gateFailure('VERIFIER_UNAVAILABLE', 'mcp', full), message);
    const reason = `the line is longer than DRS_MAX_BODY_BYTES (${maxBytes})`;
    const asked: LoggedRequest & Traced = {
      ...({ endpoint: 'gate', status: null, startedAt: performance.now() } as const),
      ...{ parent: null, code: null, address: null, requestId: newRequestId() },
    };
    const decision = await decider.decide({
      ...({ protocol: 'mcp', endpoint: 'gate', asked } as const),
      request: {
        ...{ method: 'POST', path: null, headers: () => [], mayLackHeaders: true },
        body: isTooLong ? { kind: 'too large', reason } : { kind: 'text', text },
      },
      findFault: ({ root_principal }) => tasks.findFault(message?.value ?? {}, root_principal),
    });
    tracing?.record(asked, performance.now() - asked.startedAt);
    if (decision.kind === 'deny') return answer(decision.code, decision.response, message);
    let context: GateContext | null = null;
    let handedOn: HandedOn | null = null;
    if (decision.kind === 'allow') {
      context = wholeContextOf(decision);
      handedOn = { context, token: decision.token };
    } else if (decision.observed !== undefined) handedOn = { observed: decision.observed };
    const forwarded = lineOf(text, handedOn);
    if (forwarded === null) return refuse('the message nests too deep', message);
    const given = JSON.stringify(message?.params['requestId'] ?? null);
    if (message?.method === CANCELLED && due.has(given)) cancelled.add(given);
    if (id !== null && context !== null) due.set(key, context);
    return { kind: 'send', bytes: Buffer.from(forwarded) };
  }

  function read(line: Buffer): Buffer {
    if (due.size === 0) return line;
    const value = readBytes(line);
    for (const item of Array.isArray(value) ? value : [value]) settle(item);
    return line;
  }

  function hasRoom(): boolean {
    for (const id of cancelled) {
      if (due.size < MAX_DUE) break;
      cancelled.delete(id);
      due.delete(id);
    }
    return due.size < MAX_DUE;
  }

  /** @param why a text says why it is no message */
  function refuse(why: GateFailure | string, message: Message | null): Outcome {
    const failure = typeof why === 'string' ? gateFailure('INVALID_JSONRPC', 'mcp', why) : why;
    const denial = denied({ protocol: 'mcp', id: null, requested: null }, failure);
    return answer(failure.code, responseTo(denial), message);
  }

  /** Answers with an error; not to a notification, which has no answer. */
  function answer(code: string, response: GateResponse, message: Message | null): Outcome {
    const isNotification = message?.method !== undefined && !Object.hasOwn(message.value, 'id');
    if (isNotification) dropped(code);
    return { kind: 'answer', line: isNotification ? null : lineOfAnswer(response, message) };
  }

  /** Ends what is due, if this is its answer. */
  function settle(message: unknown): void {
    if (!isJsonObject(message) || Object.hasOwn(message, 'method')) return;
    const id = JSON.stringify(message['id']);
    const found = due.get(id);
    due.delete(id);
    cancelled.delete(id);
    if (found?.command === MCP_COMMAND) tasks.record(message['result'], found.root_principal);
  }

  return { maxBytes, decide, read } satisfies Hook;
}

/** What the server gets; `null` if that cannot be written. */
function lineOf(text: string, handedOn: HandedOn | null): string | null {
  try {
    // It can only be white space: to some servers a carriage return ends a line, and what follows would be a message of
    // its own.
    return forwardMcp(text, handedOn).replaceAll('\r', ' ');
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** An answer; where the gate has not read the id, with that of the message. */
function lineOfAnswer({ body }: GateResponse, message: Message | null): string {
  const { id, error } = body as RpcRefusal;
  return `{"jsonrpc":"2.0","id":${id === null ? idTextOf(message) : JSON.stringify(id)},"error":${JSON.stringify(error)}}`;
}
