import { isJsonObject, type JsonObject } from '../protocol/json.js';
import { MAX_JSON_DEPTH } from '../protocol/json-defects.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import type { CallBody } from './request.js';

/** The headers that say how a body is to be read; `undefined` or `null` where there is none. */
export interface BodyHeaders {
  readonly contentType: string | null | undefined;
  readonly contentEncoding: string | null | undefined;
}

/**
 * The body of an HTTP request. Whoever signs a call also chooses its headers, so a body that a handler's parser could
 * take for other arguments than these bytes say in UTF-8 JSON (another charset, a form, a compressed body) binds to
 * nothing.
 *
 * @example bodyOfBytes(bytes, { contentType: 'text/plain', contentEncoding: null }).kind; // 'unusable'
 */
export function bodyOfBytes(
  bytes: Buffer,
  { contentType, contentEncoding }: BodyHeaders,
): Extract<CallBody, { kind: 'text' | 'unusable' }> {
  if (contentEncoding && contentEncoding.trim().toLowerCase() !== 'identity') {
    return unusable(
      `the body is encoded (Content-Encoding: ${brief(contentEncoding)}), expected it as it is`,
    );
  }
  if (contentType && !isUtf8Json(contentType)) {
    return unusable(`the body is ${brief(contentType)}, expected application/json in UTF-8`);
  }
  const text = decodeUtf8(bytes);
  return text === null ? unusable('the body is not UTF-8') : { kind: 'text', text };
}

/** A body that equals no signed arguments. */
export function unusable(reason: string): Extract<CallBody, { kind: 'unusable' }> {
  return { kind: 'unusable', reason };
}

/** Why arguments cannot be bound: not an object, or one with a member that stands for something else. */
export type ArgumentsDefect = 'not an object' | 'reserved';

/**
 * The arguments of a JSON-RPC call as they are signed: those of the call, and the tool beside them.
 *
 * @param args an object, or `undefined` where the call has none
 * @example signedArgumentsOf('search', { query: 'tea' }); // { tool: 'search', query: 'tea' }
 */
export function signedArgumentsOf(tool: string, args: unknown): JsonObject | ArgumentsDefect {
  if (args === undefined) return { tool };
  if (!isJsonObject(args)) return 'not an object';
  return Object.hasOwn(args, 'tool') ? 'reserved' : { tool, ...args };
}

/**
 * A value that was parsed elsewhere, to be compared with the signed arguments: unless a number in it may be what rounding
 * left of another.
 */
export function bodyOfValue(value: unknown): CallBody {
  return holdsInexactNumber(value)
    ? unusable('a number is beyond 2^53, where what was sent cannot be told from what rounding left')
    : { kind: 'value', value };
}

/**
 * Whether a value holds a number that may be what rounding left of another, now that its text is gone. Nested no deeper
 * than signed arguments can be: what lies below matches nothing.
 */
function holdsInexactNumber(value: unknown, depth = 0): boolean {
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER;
  if (typeof value !== 'object' || value === null || depth > MAX_JSON_DEPTH) return false;
  return Object.values(value).some((item) => holdsInexactNumber(item, depth + 1));
}

function isUtf8Json(contentType: string): boolean {
  // Two values joined by a comma: parsers differ in which one they take.
  if (contentType.includes(',')) return false;
  const [type = '', ...parameters] = contentType.toLowerCase().split(';');
  if (!/^application\/(?:[\w.-]+\+)?json$/.test(type.trim())) return false;
  return parameters.every((parameter) => {
    const [name = '', value = ''] = parameter.split('=');
    return name.trim() !== 'charset' || /^"?utf-?8"?$/.test(value.trim());
  });
}

function brief(header: string): string {
  return header.length > 80 ? `${header.slice(0, 80)}…` : header;
}
