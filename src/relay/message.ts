import { RPC_ERROR_CODE, type Explained } from '../gate/codes.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { END_BYTES, endsOf, type Line } from './lines.js';

const MIB = 1024 * 1024;
/** The most bytes of the arguments of a call: signed, it is 2.8 times as long. */
export const MAX_ARGUMENT_BYTES = 4 * MIB;
/** The most bytes of one message, either way: the largest call, signed. */
export const MAX_MESSAGE_BYTES = 16 * MIB;

/** JSON-RPC error codes. `TRANSPORT_ERROR` is of failures on the way to the server: the SDKs' transports have no code of their own. */
export const TRANSPORT_ERROR = -32000;
export const INVALID_REQUEST = -32600;

/** A JSON-RPC message, and what decides where it goes. */
export interface Message {
  /** As it came; of one that is too long its two ends. */
  readonly bytes: Buffer;
  /** Whether it must not be sent: the other members say what was found at its ends. */
  readonly isTooLong: boolean;
  /** Empty if it is no JSON object. */
  readonly value: JsonObject;
  /** `undefined` in a response. */
  readonly method: string | undefined;
  readonly params: JsonObject;
  /** `params._meta` */
  readonly meta: JsonObject;
  /** The id of a request, which has an answer; else `null`. */
  readonly id: string | number | null;
  /** The id in JSON: a number as it is written, which a double may not hold. */
  readonly idText: string;
}

/** Reads a JSON text; `undefined` if it is none, or there is none. */
export function readJson(text: string | null): JsonValue | undefined {
  try {
    return text === null ? undefined : (JSON.parse(text) as JsonValue);
  } catch {
    return undefined;
  }
}

export function messageOf({ bytes, isTooLong }: Line): Message {
  const read = isTooLong ? readEnds(bytes) : readJson(decodeUtf8(bytes));
  const value = isJsonObject(read) ? read : {};
  const { id, method, params: given } = value;
  const params = isJsonObject(given) ? given : {};
  const isRequest = typeof method === 'string' && (typeof id === 'string' || typeof id === 'number');
  const isExact = typeof id !== 'number' || Number.isSafeInteger(id);
  // All SDKs write it near an end. A long message may have millions of members of this name.
  const ends = isExact ? '' : endsOf(bytes).toString();
  const numbers = [...ends.matchAll(/"id"\s*:\s*([-+.\deE]+)/g)].map(([, text = '']) => text);
  const written = numbers.find((text) => Number(text) === id);
  return {
    bytes,
    isTooLong,
    value,
    params,
    method: typeof method === 'string' ? method : undefined,
    meta: isJsonObject(params['_meta']) ? params['_meta'] : {},
    id: isRequest ? id : null,
    idText: isRequest ? (written ?? JSON.stringify(id)) : 'null',
  };
}

const STRING = String.raw`"(?:[^"\\]|\\.)*"`;
const MEMBER = String.raw`\s*${STRING}\s*:\s*(?:${STRING}|[\w.+-]+)\s*`;
const FIRST_MEMBERS = new RegExp(String.raw`^\s*\{(?:${MEMBER},)*`);
const LAST_MEMBERS = new RegExp(String.raw`(?:,${MEMBER})*\}\s*$`);

/**
 * What the two ends of a message that is too long say: the members before the first that is an object or an array, and those
 * after the last. All SDKs write the id there. `undefined` if they say nothing.
 */
export function readEnds(bytes: Buffer): JsonValue | undefined {
  const [first = ''] = FIRST_MEMBERS.exec(bytes.toString('utf8', 0, END_BYTES)) ?? [];
  const [last = ''] = LAST_MEMBERS.exec(bytes.toString('utf8', END_BYTES)) ?? [];
  return readJson(`${first}"":0${last}`);
}

/** Whether a value is the answer to a request, or an array in which it is. */
export function answerIn(value: JsonValue | undefined, id: string | number | null): JsonObject | undefined {
  const items = Array.isArray(value) ? (value as readonly JsonValue[]) : [value];
  return items.filter(isJsonObject).find((one) => !Object.hasOwn(one, 'method') && one['id'] === id);
}

/** A JSON-RPC error in one line, without its end. @param idText the id as JSON text */
export function errorLine(idText: string, error: object): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify(error)}}`;
}

export function resultLine(idText: string, result: object): string {
  return `{"jsonrpc":"2.0","id":${idText},"result":${JSON.stringify(result)}}`;
}

/** The answer to a request that is not sent. It has the form of a gate's, so that hosts and agents read one form. */
export function refusalLine(to: Message, refusal: Explained, status = 403): string {
  const { code, message, suggestion } = refusal;
  const data = { code, detail: message, suggestion, status };
  const said = `DRS: ${code}: ${message}. ${suggestion}`;
  return errorLine(to.idText, { code: RPC_ERROR_CODE, message: said, data });
}

/** A number of bytes in words: `380 kB`, `1.06 MB`. */
export function sizeOf(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(2)} MB`;
}
