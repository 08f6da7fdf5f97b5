import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../protocol/json.js';
import { gateFailure, type GateFailure, type Protocol } from './codes.js';
import type { RequestBody } from './request.js';

/** A JSON-RPC message, its envelope checked. */
export interface RpcMessage {
  /** `undefined` in a response. */
  readonly method: string | undefined;
  readonly params: JsonValue | undefined;
  readonly id: JsonValue | undefined;
  /** Why nothing in the message may be bound although it parses; `null` where it may. */
  readonly defect: string | null;
  /** Whether parsing has happened elsewhere, so that numbers beyond 2^53 cannot be trusted. */
  readonly isReparsed: boolean;
}

/** What a body holds in place of a message. */
export interface RpcDefect {
  readonly failure: GateFailure;
  readonly id: JsonValue;
}

/**
 * Reads the one JSON-RPC message in a body.
 *
 * Its text must be JSON with one meaning as far as the envelope goes: with `method` twice, or `Method` beside it, what is
 * checked here might not be what the server runs. Defects elsewhere are reported in `defect`: a message that is not checked
 * passes with them.
 */
export function readRpcMessage(
  protocol: Protocol,
  body: Extract<RequestBody, { kind: 'text' | 'value' }>,
): RpcMessage | RpcDefect {
  const invalid = (message: string, id: JsonValue = null): RpcDefect => ({
    failure: gateFailure('INVALID_JSONRPC', protocol, message),
    id,
  });
  const parsed = body.kind === 'text' ? parse(body.text) : { value: body.value, defect: null };
  if ('syntax' in parsed) return invalid(`the body is not JSON: ${parsed.syntax}`);
  if ('size' in parsed) return { failure: gateFailure('BODY_TOO_LARGE', protocol, parsed.size), id: null };
  const { value, defect } = parsed;
  if (Array.isArray(value)) {
    const message = `the body is a batch of ${value.length} JSON-RPC messages, expected one`;
    return { failure: gateFailure('BATCH_NOT_SUPPORTED', protocol, message), id: null };
  }
  if (!isJsonObject(value)) return invalid('the body is not a JSON object');
  const id = own(value, 'id');
  const echoed = echoOf(id, defect !== null);
  if (defect !== null && body.kind === 'text' && isAmbiguousEnvelope(body.text)) {
    return invalid(`the body is not strict JSON: ${defect}`, echoed);
  }
  const lookalike = findLookalike(value, ENVELOPE);
  if (lookalike !== null) {
    return invalid(
      `the member ${JSON.stringify(lookalike)} is another member to parsers that ignore case`,
      echoed,
    );
  }
  if (own(value, 'jsonrpc') !== '2.0') return invalid('the member jsonrpc is not "2.0"', echoed);
  if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number') {
    return invalid('the id is not a string, a number or null', echoed);
  }
  const method = own(value, 'method');
  if (method === undefined && !Object.hasOwn(value, 'result') && !Object.hasOwn(value, 'error')) {
    return invalid('the message has no method', echoed);
  }
  if (method !== undefined && typeof method !== 'string')
    return invalid('the method is not a string', echoed);
  return { method, params: own(value, 'params'), id, defect, isReparsed: body.kind === 'value' };
}

/** A member of an object, and nothing that the object inherits. */
export function own(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

const MAX_ECHOED = 1024;

/**
 * The id of a message as it is answered: as it came, of whatever JSON type, unless it is longer than any client makes
 * it, or a number that may not be the one that was sent.
 *
 * @param isInexact whether the message's numbers may have been rounded
 */
export function echoOf(id: unknown, isInexact: boolean): JsonValue {
  switch (typeof id) {
    case 'string':
      return id.length <= MAX_ECHOED ? id : null;
    case 'number':
      return Number.isFinite(id) && !(isInexact && Math.abs(id) > Number.MAX_SAFE_INTEGER) ? id : null;
    case 'boolean':
      return id;
    case 'object':
      return isShort(id, 0, { left: MAX_ECHOED }) ? (id as JsonValue) : null;
    default:
      return null;
  }
}

/** Whether a value is small: its depth and the sum of its members and characters. */
function isShort(value: unknown, depth: number, room: { left: number }): boolean {
  room.left -= typeof value === 'string' ? value.length + 1 : 1;
  if (room.left < 0) return false;
  if (typeof value !== 'object' || value === null) return true;
  if (depth >= 16) return false;
  if (Array.isArray(value))
    return value.length <= room.left && value.every((item) => isShort(item, depth + 1, room));
  const names = Object.keys(value);
  return (
    names.length <= room.left &&
    names.every((name) => {
      room.left -= name.length;
      return isShort((value as Record<string, unknown>)[name], depth + 1, room);
    })
  );
}

const ENVELOPE: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error']);
const MAX_MEMBER = 16;

/**
 * A member that a parser which ignores case (Go's, for one) takes for one of the protocol, though it is another:
 * `Method`, `paramſ`.
 */
export function findLookalike(object: JsonObject, names: ReadonlySet<string>): string | null {
  for (const name of Object.keys(object)) {
    if (name.length > MAX_MEMBER || names.has(name)) continue;
    // Both ways: some letters outside ASCII have a capital in it, others a small letter.
    if (names.has(name.toUpperCase().toLowerCase())) return name;
  }
  return null;
}

function parse(
  text: string,
): { value: unknown; defect: string | null } | { syntax: string } | { size: string } {
  const { value, defect } = parseStrictJson(text);
  if (defect === undefined) return { value, defect: null };
  if (defect.kind === 'syntax') return { syntax: text === '' ? 'it is empty' : defect.message };
  if (defect.kind === 'size') return { size: `the body: ${defect.message}` };
  return { value: JSON.parse(text), defect: defect.message };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
// "jsonrpc" with each letter as an escape, in quotes: a longer name is another one.
const MAX_NAME_TEXT = 7 * 6 + 2;

/**
 * Whether a member that decides what is checked occurs twice in the outermost object. One pass that keeps nothing but a
 * depth: the text is as large as a caller likes.
 *
 * @param text an object that `JSON.parse` has accepted
 */
function isAmbiguousEnvelope(text: string): boolean {
  const seen = new Set<string>();
  let depth = 0;
  let isNameNext = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      const start = at++;
      while (text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
      if (depth !== 1 || !isNameNext || at + 1 - start > MAX_NAME_TEXT) continue;
      const name = JSON.parse(text.slice(start, at + 1)) as string;
      if (name !== 'method' && name !== 'jsonrpc') continue;
      if (seen.has(name)) return true;
      seen.add(name);
    } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      depth++;
      isNameNext = unit === OPEN_BRACE;
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) depth--;
    else if (unit === COMMA) isNameNext = true;
    else if (unit === COLON) isNameNext = false;
  }
  return false;
}

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;
