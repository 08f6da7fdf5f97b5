import { RPC_ERROR_CODE } from '../gate/codes.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { Scan } from './scan.js';

const MIB = 1024 * 1024;
/** The most bytes of the arguments of a call: signed, it is 2.8 times as long. */
export const MAX_ARGUMENT_BYTES = 4 * MIB;
/** The most bytes of one message, either way: the largest call, signed. */
export const MAX_MESSAGE_BYTES = 16 * MIB;

/** JSON-RPC error codes. `TRANSPORT_ERROR` is of failures on the way to the server: the SDKs' transports have no code of their own. */
export const TRANSPORT_ERROR = -32000;
export const INVALID_REQUEST = -32600;
export const PARSE_ERROR = -32700;

/** A JSON-RPC message, and what decides where it goes. */
export interface Message {
  readonly bytes: Buffer;
  readonly value: JsonObject;
  /** `undefined` in a response. */
  readonly method: string | undefined;
  readonly params: JsonObject;
  /** The id of a request, which has an answer; else `null`. */
  readonly id: string | number | null;
}

/** Reads a JSON text; `undefined` if it is none. */
export function readJson(text: string | null): JsonValue | undefined {
  try {
    return text === null ? undefined : (JSON.parse(text) as JsonValue);
  } catch {
    return undefined;
  }
}

/** Reads the bytes of one message, or of a batch; `undefined` if they are no JSON in UTF-8. */
export const readBytes = (bytes: Buffer): JsonValue | undefined => readJson(decodeUtf8(bytes));

/** A value as a message; `null` if it is not an object. */
export function messageOf(bytes: Buffer, value: JsonValue | undefined): Message | null {
  if (!isJsonObject(value)) return null;
  const { id, method, params } = value;
  return {
    ...{ bytes, value, method: typeof method === 'string' ? method : undefined },
    params: isJsonObject(params) ? params : {},
    id: typeof method === 'string' && (typeof id === 'string' || typeof id === 'number') ? id : null,
  };
}

/** Whether a value is the answer to a request, or an array in which it is. */
export function answerIn(value: JsonValue | undefined, id: string | number | null): JsonObject | undefined {
  const items = Array.isArray(value) ? (value as readonly JsonValue[]) : [value];
  return items.filter(isJsonObject).find((one) => !Object.hasOwn(one, 'method') && one['id'] === id);
}

/** The id of a message as it is written, also one that a double does not hold; `null` as JSON if it has none. */
export function idTextOf(bytes: Buffer): string {
  const scan = new Scan();
  scan.push(bytes);
  return scan.id ?? 'null';
}

/**
 * Puts a member into `params._meta`. All else stays as it is, byte for byte.
 *
 * @param bytes of a message in strict JSON whose `params` is an object, and `params._meta` an object or absent
 * @example withMeta(Buffer.from('{"params":{"name":"a"}}'), 'X', 'y'); // '{"params":{"_meta":{"X":"y"},"name":"a"}}'
 */
export function withMeta(bytes: Buffer, name: string, value: string): Buffer {
  const scan = new Scan();
  scan.push(bytes);
  const member = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
  const hasMeta = scan.meta >= 0;
  const at = hasMeta ? scan.meta : scan.params;
  const rest = bytes.subarray(at);
  const comma = rest.find((byte) => byte > 0x20) === 0x7d ? '' : ',';
  return Buffer.concat([
    bytes.subarray(0, at),
    Buffer.from((hasMeta ? member : `"_meta":{${member}}`) + comma),
    rest,
  ]);
}

/**
 * A JSON-RPC error in one line, without its end.
 *
 * @param idText the id as JSON text
 */
export function errorLine(idText: string, code: number, message: string, data?: object): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message, data })}}`;
}

/** Why a call is not signed. The words are those of the gate's answers. */
export interface Refusal {
  readonly code: string;
  readonly detail: string;
  readonly suggestion: string;
}

/** The answer to a request that is not sent. It has the form of a gate's, so that hosts and agents read one form. */
export function refusalLine(idText: string, { code, detail, suggestion }: Refusal, status = 403): string {
  const data = { code, detail, suggestion, status };
  return errorLine(idText, RPC_ERROR_CODE, `DRS: ${code}: ${detail}. ${suggestion}`, data);
}

/** A number of bytes in words: `380 kB`, `1.06 MB`. */
export function sizeOf(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(2)} MB`;
}
