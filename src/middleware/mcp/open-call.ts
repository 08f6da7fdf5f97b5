import { gateFailure } from '../../gate/codes.js';
import { denied } from '../../gate/decide.js';
import { openMcp, type McpRules } from '../../gate/mcp.js';
import { readHeaders, type Opening } from '../../gate/request.js';

/**
 * Opens one message of an MCP transport. The SDKs have parsed it, so the gate trusts no number beyond 2^53.
 *
 * @param extra what the SDK passes with a message; over HTTP it has the headers
 */
export function openMessage(message: object, extra: unknown, rules: McpRules): Opening {
  try {
    const body = { kind: 'value', value: message } as const;
    const headers = headersIn(extra);
    const request = { method: 'POST', target: null, headers: readHeaders(headers ?? {}), body };
    return openMcp({ ...request, mayLackHeaders: headers === null }, rules);
  } catch {
    // A value in this process can throw when it is read.
    const failure = gateFailure('INVALID_JSONRPC', 'mcp', 'the message cannot be read');
    return denied({ protocol: 'mcp', id: null, requested: null }, failure);
  }
}

/**
 * Denies a call that came in a batch: a bundle is for one call. The SDKs split batches and pass on all messages of one
 * batch in the same turn of the event loop, so this waits for a promise before it counts them.
 */
export async function refuseBatched(opened: Opening, extra: unknown): Promise<Opening> {
  await Promise.resolve();
  if (opened.kind !== 'check' || !isBatched(extra)) return opened;
  const { protocol, id, requested } = opened;
  const message = 'the call is part of a JSON-RPC batch, expected a request of its own';
  return denied({ protocol, id, requested }, gateFailure('BATCH_NOT_SUPPORTED', 'mcp', message));
}

/** The headers of the HTTP request that brought a message; `null` if it came without. */
function headersIn(extra: unknown): Headers | null {
  const headers = at(sourceOf(extra), 'headers');
  return typeof headers === 'object' && headers !== null ? (headers as Headers) : null;
}

const messagesOf = new WeakMap<object, number>();

/** Counts the messages of one HTTP request. The SDKs pass the same request object with each of them. */
export function countMessage(extra: unknown): void {
  const source = sourceOf(extra);
  if (source !== null) messagesOf.set(source, (messagesOf.get(source) ?? 0) + 1);
}

function isBatched(extra: unknown): boolean {
  const source = sourceOf(extra);
  return source !== null && (messagesOf.get(source) ?? 0) > 1;
}

/** The request of 2.x, or what 1.x says of it. */
function sourceOf(extra: unknown): object | null {
  const source = at(extra, 'request') ?? at(extra, 'requestInfo');
  return typeof source === 'object' && source !== null ? source : null;
}

function at(value: unknown, member: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[member] : undefined;
}
