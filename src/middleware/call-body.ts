import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { decodeUtf8 } from '../protocol/utf8.js';

/** What a call asks for, to be compared with the signed arguments. */
export type CallBody =
  /** JSON text, which may still turn out to be none. */
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'value'; readonly value: JsonObject }
  /** Nothing that could equal any signed arguments. */
  | { readonly kind: 'unusable'; readonly reason: string }
  /** Not looked at. */
  | { readonly kind: 'unread' };

/** The headers that say how a body is to be read; `undefined` or `null` where there is none. */
export interface BodyHeaders {
  readonly contentType: string | null | undefined;
  readonly contentEncoding: string | null | undefined;
}

/**
 * The body of an HTTP request. Whoever signs a call also chooses its headers, so a body that a handler's parser could
 * take for other arguments than these bytes say in UTF-8 JSON (another charset, a form, a compressed body) binds to
 * nothing.
 */
export function bodyOfBytes(bytes: Buffer, { contentType, contentEncoding }: BodyHeaders): CallBody {
  if (contentEncoding && contentEncoding.toLowerCase() !== 'identity') {
    return unusable(`the body is encoded (Content-Encoding: ${contentEncoding}), expected it as it is`);
  }
  if (contentType && !isUtf8Json(contentType)) {
    return unusable(`the body is ${contentType}, expected application/json in UTF-8`);
  }
  const text = decodeUtf8(bytes);
  return text === null ? unusable('the body is not UTF-8') : { kind: 'text', text };
}

/**
 * The body of a JSON-RPC call: the tool, and its arguments beside it. Service document 4.6
 *
 * @param args an object, or nothing
 * @example bodyOfCall('search', { query: 'tea' }, 'arguments'); // value { tool: 'search', query: 'tea' }
 */
export function bodyOfCall(tool: unknown, args: unknown, member: 'arguments' | 'params'): CallBody {
  if (typeof tool !== 'string') return unusable('the call names no tool');
  if (args === undefined) return { kind: 'value', value: { tool } };
  if (!isJsonObject(args)) return unusable(`${member} is not an object`);
  if (Object.hasOwn(args, 'tool')) {
    return unusable(`${member} has a member named "tool", which would stand in for the tool that is called`);
  }
  return { kind: 'value', value: { tool, ...args } };
}

/** Whether a value holds a number that may be what rounding left of another, now that its text is gone. */
export function holdsInexactNumber(value: JsonValue, depth = 0): boolean {
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER;
  // Signed arguments nest less deep than this, so that what lies below matches nothing.
  if (typeof value !== 'object' || value === null || depth > 64) return false;
  return Object.values(value).some((item) => holdsInexactNumber(item, depth + 1));
}

export function unusable(reason: string): CallBody {
  return { kind: 'unusable', reason };
}

function isUtf8Json(contentType: string): boolean {
  const [type = '', ...parameters] = contentType.toLowerCase().split(';');
  if (!/^application\/(?:[\w.-]+\+)?json$/.test(type.trim())) return false;
  return parameters.every((parameter) => {
    const [name = '', value = ''] = parameter.split('=');
    return name.trim() !== 'charset' || /^"?utf-?8"?$/.test(value.trim());
  });
}
