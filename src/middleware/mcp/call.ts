import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { bodyOfCall, holdsInexactNumber, unusable, type CallBody } from '../call-body.js';
import type { Admission, Gate, Rejection } from '../gate.js';
import { BUNDLE_HEADER } from '../refusal.js';

/** The method that is protected; every other one passes. */
export const TOOLS_CALL = 'tools/call';

/** The command of a tool call. */
export const MCP_COMMAND = '/mcp/tools/call';

/** Where a bundle stands in `params._meta`: the first is written, either is read. */
export const META_KEYS = [BUNDLE_HEADER, 'xyz.okeyamy.drs/bundle'] as const;

const WHERE = `no bundle in params._meta["${BUNDLE_HEADER}"], nor a header of that name`;

/**
 * Judges one tool call.
 *
 * @param params of the request, as it came
 * @param extra what the SDK passes beside a message or to a handler; over HTTP it has the headers
 */
export async function judgeToolCall(
  gate: Gate,
  params: unknown,
  extra: unknown,
): Promise<Admission | Rejection | { readonly kind: 'absent' }> {
  const { name, arguments: args, _meta: meta } = isJsonObject(params) ? params : ({} as JsonObject);
  const opened = gate.open(bundleOf(meta, extra), WHERE);
  if (opened.kind !== 'presented') return opened;
  // One bundle is for one call. All of a batch have come before this goes on.
  await Promise.resolve();
  const body = isBatched(extra)
    ? unusable('the call is part of a JSON-RPC batch, expected a request of its own')
    : exactBodyOf(name, args);
  return gate.judge(opened, body, 'enforced', MCP_COMMAND);
}

/** What a call came with, wherever it stands; an array, which is no bundle, where several differ. */
function bundleOf(meta: unknown, extra: unknown): unknown {
  const found = META_KEYS.map((key) =>
    isJsonObject(meta) && Object.hasOwn(meta, key) ? meta[key] : undefined,
  );
  const given = new Set([...found, headerOf(extra)].filter((value) => value !== undefined));
  return given.size > 1 ? [...given] : [...given][0];
}

function exactBodyOf(name: unknown, args: unknown): CallBody {
  const body = bodyOfCall(name, args, 'arguments');
  if (body.kind === 'value' && holdsInexactNumber(body.value)) {
    return unusable('a number is beyond 2^53, where what was sent cannot be told from what rounding left');
  }
  return body;
}

/** The bundle header, in each of the shapes that the two SDKs give headers in. */
function headerOf(extra: unknown): unknown {
  const headers =
    at(at(extra, 'request'), 'headers') ?? // 2.x, beside a message
    at(at(at(extra, 'http'), 'req'), 'headers') ?? // 2.x, to a handler
    at(at(extra, 'requestInfo'), 'headers'); // 1.x, to both
  if (headers instanceof Headers) return headers.get(BUNDLE_HEADER) ?? undefined;
  return at(headers, BUNDLE_HEADER.toLowerCase());
}

const messagesOf = new WeakMap<object, number>();

/**
 * Counts the messages that one HTTP request brought: the SDKs take batches apart before anyone sees them, but hand
 * each message the same request.
 */
export function countMessage(extra: unknown): void {
  const source = sourceOf(extra);
  if (source !== null) messagesOf.set(source, (messagesOf.get(source) ?? 0) + 1);
}

function isBatched(extra: unknown): boolean {
  const source = sourceOf(extra);
  return source !== null && (messagesOf.get(source) ?? 0) > 1;
}

function sourceOf(extra: unknown): object | null {
  const source = at(extra, 'request') ?? at(at(extra, 'http'), 'req') ?? at(extra, 'requestInfo');
  return typeof source === 'object' && source !== null ? source : null;
}

function at(value: unknown, member: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[member] : undefined;
}
