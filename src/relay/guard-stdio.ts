import type { BriefContext } from '../gate/context.js';
import { gateFailure, type GateFailure } from '../gate/codes.js';
import { forwardMcp, type HandedOn } from '../gate/mcp-forward.js';
import { MCP_COMMAND } from '../gate/mcp-methods.js';
import { rpcError, type GateResponse, type RpcError, type RpcRefusal } from '../gate/response.js';
import { idInUse, TaskOwners } from '../gate/task-owners.js';
import { isJsonObject } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { wholeContextOf } from '../gate/decide.js';
import type { GateDecider } from '../service/gate-decider.js';
import type { LoggedRequest } from '../service/http/logged-request.js';
import { newRequestId } from '../service/http/logged-request.js';
import type { Traced, Tracing } from '../service/observe/tracing.js';
import { errorLine, readJson, resultLine, type Message } from './message.js';
import type { Hook, Decided } from './pump.js';

/** How many calls may be without an answer. Only cancelled ones are forgotten before their answer says whose a task is. */
const MAX_DUE = 10_000;
const OF_LINE = { endpoint: 'gate', status: null, parent: null, code: null, address: null } as const;
const REQUEST = { method: 'POST', target: null, headers: new Map(), mayLackHeaders: true };
const CANCELLED = 'notifications/cancelled';

/**
 * The gate between a client and a server that speak MCP over stdio. What the server writes passes byte for byte; the answers to
 * calls tell who has started which task.
 */
export function stdioGuard(decider: Pick<GateDecider, 'decide'>, tracing: Tracing | null, maxBytes: number) {
  const tasks = new TaskOwners();
  /** The calls whose answers are due, by id, as JSON; those that their client gave up may never be answered. */
  const due = new Map<string, { readonly context: BriefContext; isCancelled: boolean }>();

  async function decide(message: Message): Promise<Decided> {
    const { bytes, isTooLong, value, method, params, id } = message;
    const text = isTooLong ? '' : decodeUtf8(bytes);
    const refuse = (failure: GateFailure) => answer(rpcError(failure), message);
    const invalid = (why: string) => refuse(gateFailure('INVALID_JSONRPC', 'mcp', why));
    if (text === null) return invalid('the line is not UTF-8');
    const key = JSON.stringify(id);
    if (due.has(key)) return refuse(idInUse(id));
    if (due.size >= MAX_DUE) for (const [known, { isCancelled }] of due) if (isCancelled) due.delete(known);
    const full = `${MAX_DUE} requests have no answer yet`;
    if (id !== null && due.size >= MAX_DUE) return refuse(gateFailure('VERIFIER_UNAVAILABLE', 'mcp', full));
    const reason = `the line is longer than DRS_MAX_BODY_BYTES (${maxBytes})`;
    const startedAt = performance.now();
    const asked: LoggedRequest & Traced = { ...OF_LINE, startedAt, requestId: newRequestId() };
    const decision = await decider.decide({
      ...({ protocol: 'mcp', endpoint: 'gate', asked } as const),
      request: { ...REQUEST, body: isTooLong ? { kind: 'too large', reason } : { kind: 'text', text } },
      checkTransport: ({ root_principal }) => tasks.findFailure(value, root_principal),
      mayAsk: true,
    });
    tracing?.record(asked, performance.now() - startedAt);
    if (decision.kind === 'deny') return answerTo(decision.response, message);
    let handedOn: HandedOn | null = null;
    if (decision.kind === 'allow') handedOn = { context: wholeContextOf(decision), token: decision.token };
    else if (decision.observed !== undefined) handedOn = { observed: decision.observed };
    const forwarded = forwardMcp(text, handedOn, value);
    if (forwarded === null) return invalid('the message nests too deep');
    const given = due.get(JSON.stringify(params['requestId'] ?? null));
    if (method === CANCELLED && given !== undefined) given.isCancelled = true;
    if (id !== null && decision.kind === 'allow')
      due.set(key, { context: decision.context, isCancelled: false });
    // A carriage return can only be white space: to some servers it ends a line, and what follows would be a message of its own.
    return { ...message, body: Buffer.from(forwarded.replaceAll('\r', ' ')) };
  }

  /** Settles the calls that a line of the server answers. */
  function hear(line: Buffer): void {
    if (due.size === 0) return;
    const value = readJson(decodeUtf8(line));
    for (const message of Array.isArray(value) ? value : [value]) {
      if (!isJsonObject(message) || Object.hasOwn(message, 'method')) continue;
      const id = JSON.stringify(message['id']);
      const context = due.get(id)?.context;
      due.delete(id);
      if (context?.command === MCP_COMMAND) tasks.record(message['result'], context.root_principal);
    }
  }

  function answerTo({ body }: GateResponse, message: Message): Decided {
    if ('result' in body) return resultLine(message.idText, body.result);
    return answer((body as RpcRefusal).error, message);
  }

  /** Answers with an error; not to a notification, which has no answer. */
  function answer(error: RpcError, { idText, method, value }: Message): Decided {
    return method !== undefined && !Object.hasOwn(value, 'id') ? null : errorLine(idText, error);
  }

  return { maxBytes, decide, hear } satisfies Hook;
}
