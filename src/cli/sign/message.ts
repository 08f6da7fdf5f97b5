import { findNodeAtLocation, parseTree, type Node } from 'jsonc-parser';
import { RPC_ERROR_CODE } from '../../gate/codes.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import type { Refusal } from './delegations.js';

/** The most bytes of one message, either way. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** The JSON-RPC error code of failures on the way to the server. The SDKs' transports have no code of their own. */
export const TRANSPORT_ERROR = -32000;
export const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;

/** A JSON-RPC message in its text, and what decides where it goes. */
export interface Message {
  readonly text: string;
  readonly value: JsonObject;
  /** `undefined` in a response. */
  readonly method: string | undefined;
  readonly params: JsonObject;
  /** The id of a request, which has an answer; else `null`. */
  readonly id: string | number | null;
}

/** Reads a JSON text; `undefined` if it is none. */
export function readJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** A value of a JSON text as a message; `null` if it is not an object. */
export function messageOf(text: string, value: JsonValue): Message | null {
  if (!isJsonObject(value)) return null;
  const { id, method, params } = value;
  return {
    text,
    value,
    method: typeof method === 'string' ? method : undefined,
    params: isJsonObject(params) ? params : {},
    id: typeof method === 'string' && (typeof id === 'string' || typeof id === 'number') ? id : null,
  };
}

/**
 * The id of a request as JSON text. A number that a double does not hold is taken from the text of the message.
 *
 * @example idTextOf(message); // '"a"'
 */
export function idTextOf({ id, text }: Message): string {
  const written = JSON.stringify(id);
  if (typeof id !== 'number' || Number.isSafeInteger(id)) return written;
  try {
    const tree = parseTree(text);
    const node = tree && findNodeAtLocation(tree, ['id']);
    return node === undefined ? written : text.slice(node.offset, node.offset + node.length);
  } catch (error) {
    // A text that nests too deep for the parser.
    if (error instanceof RangeError) return written;
    throw error;
  }
}

/**
 * Puts a member into `params._meta`. All else of the text stays as it is, byte for byte.
 *
 * @param text JSON text of a message whose `params` is an object, and `params._meta` an object or absent
 * @example withMeta('{"params":{"name":"a"}}', 'X', 'y'); // '{"params":{"_meta":{"X":"y"},"name":"a"}}'
 */
export function withMeta(text: string, name: string, value: string): string {
  const member = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
  const tree = parseTree(text);
  const meta = tree && findNodeAtLocation(tree, ['params', '_meta']);
  if (meta !== undefined) return insertFirst(text, meta, member);
  const params = tree && findNodeAtLocation(tree, ['params']);
  if (params === undefined) throw new Error('the message has no params');
  return insertFirst(text, params, `"_meta":{${member}}`);
}

function insertFirst(text: string, object: Node, member: string): string {
  const at = object.offset + 1;
  const comma = (object.children ?? []).length === 0 ? '' : ',';
  return `${text.slice(0, at)}${member}${comma}${text.slice(at)}`;
}

/**
 * A JSON-RPC error in one line, without its end.
 *
 * @param idText the id as JSON text
 */
export function errorLine(idText: string, code: number, message: string, data?: object): string {
  const error = JSON.stringify({ code, message, ...(data === undefined ? {} : { data }) });
  return `{"jsonrpc":"2.0","id":${idText},"error":${error}}`;
}

/** The answer to a request that is not sent. It has the form of a gate's, so that hosts and agents read one form. */
export function refusalLine(idText: string, { code, detail, suggestion }: Refusal, status = 403): string {
  const data = { code, detail, suggestion, status };
  return errorLine(idText, RPC_ERROR_CODE, `DRS: ${code}: ${detail}. ${suggestion}`, data);
}
