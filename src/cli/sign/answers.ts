import type { IncomingMessage } from 'node:http';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { errorLine, idTextOf, readJson, TRANSPORT_ERROR, type Message } from './message.js';

/** Whether a value is the answer to a request. */
export function isAnswerTo(value: JsonValue | undefined, id: string | number | null): value is JsonObject {
  return isJsonObject(value) && !Object.hasOwn(value, 'method') && value['id'] === id;
}

/** A JSON text in one line. A line end in JSON is always between two tokens, where a space means the same. */
export function oneLine(json: string): string {
  return json.replaceAll(/[\r\n]/g, ' ');
}

/** An answer over HTTP that is not the JSON or the stream that was expected. */
interface Failed {
  readonly response: IncomingMessage;
  /** The body; `null` if it is too large or no text. */
  readonly text: string | null;
  readonly hasSession: boolean;
}

/** The JSON-RPC error for a request that the server has not answered as it should: its own one, if it sent one. */
export function failureLine(message: Message, failed: Failed): string {
  const { response, text } = failed;
  const idText = idTextOf(message);
  const status = response.statusCode ?? 0;
  const value = text === null || status < 300 ? undefined : readJson(text);
  if (text !== null && isAnswerTo(value, message.id) && isJsonObject(value['error'])) return oneLine(text);
  // The gate does not know the id of a request that it did not read.
  if (isJsonObject(value) && value['id'] === null && isJsonObject(value['error']))
    return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify(value['error'])}}`;
  return errorLine(idText, TRANSPORT_ERROR, reasonFor(failed), { status });
}

const MAX_SHOWN = 200;

function reasonFor({ response, text, hasSession }: Failed): string {
  const { statusCode: status = 0, headers } = response;
  if (status >= 300 && status < 400) {
    const location = JSON.stringify((headers.location ?? 'another address').slice(0, MAX_SHOWN));
    return `the server redirects to ${location}, which is not followed: name that address with --to, if you trust it`;
  }
  if (status === 404 && hasSession) return 'the session has ended: connect to the server again';
  if (status === 401)
    return 'the server wants to know who calls (401): give it a token with --header-env "Authorization: <variable>"';
  if (status < 300)
    return `the server answered with ${headers['content-type'] ?? 'no content type'}, which is not a JSON-RPC answer`;
  const shown = text === null || text === '' ? '' : `: ${text.slice(0, MAX_SHOWN)}`;
  return `the server answered with ${status}${shown}`;
}
