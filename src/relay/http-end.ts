import { createParser, ParseError, type EventSourceMessage } from 'eventsource-parser';
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { encodeNameHeader } from '../gate/context.js';
import { LISTEN, subjectOf, VERSION_META } from '../gate/mcp-methods.js';
import { readAtMost } from '../protocol/read-at-most.js';
import { isJsonObject } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import type { HttpTarget } from './http-target.js';
import type { Say } from './lines.js';
import { answerIn, errorLine, INVALID_REQUEST, MAX_MESSAGE_BYTES, messageOf } from './message.js';
import { readJson, sizeOf, TRANSPORT_ERROR } from './message.js';
import { bundleHeader, type Decided, type Send, type Sent } from './pump.js';

/** The most bytes in requests that are unanswered at a time, and what one counts as at least: so there are 256 at most. */
const MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024;
const MIN_BYTES = MAX_BYTES_IN_FLIGHT / 256;
/** How long messages wait for the server to take a notification before them. */
const NOTIFICATION_MS = 5000;
/** How long to wait for answers after the host has sent its last message. */
const LAST_ANSWERS_MS = 30_000;
/** How long a server may take to end: a stream on which it has answered, or a session. */
const ENDING_MS = 1000;
const [MIN_RETRY_MS, FIRST_RETRY_MS, MAX_RETRY_MS] = [100, 1000, 30_000];
const MAX_SHOWN = 200;
const INITIALIZE = 'initialize';
const INITIALIZED = 'notifications/initialized';
const CANCELLED = 'notifications/cancelled';
const EVENT_STREAM = 'text/event-stream';
const [VERSION, SESSION] = ['mcp-protocol-version', 'mcp-session-id'];
const OF_SSE = 'this server speaks the transport of 2024-11-05 (HTTP with SSE), expected Streamable HTTP';
const OF_KEPT = '; if it has lost the session, restart the host: MCP says so with 404 alone';
const OF_LOST = '; the session is begun again: this may be repeated, but the server may have done it';

/** By names in lower case. Those of a session the server wants to see again, in the versions before 2026-07-28. */
type Headers = Record<string, string>;

/**
 * The way to a server that speaks Streamable HTTP: each message of the host becomes a POST, and what the server answers
 * becomes lines. To the server this is the client: it keeps the session, and begins it again where the server has lost it.
 *
 * @param ownHeaders more headers of each request, such as `Authorization`, by names in lower case
 * @param note tells the operator something
 */
export function httpEnd(
  target: HttpTarget,
  ownHeaders: Readonly<Headers>,
  say: Say,
  note: (message: string) => void,
) {
  /** The requests of the client that have no answer yet. */
  const requests = new Map<Sent, { readonly done: Promise<void>; readonly abort: () => void }>();
  /** Ends the stream of the server's own messages, and all requests. */
  const closing = new AbortController();
  let current: Headers = {};
  /** The last `initialize`. */
  let handshake: Sent | null = null;
  let renewing: Promise<void> | null = null;
  let ended: Promise<void> | null = null;

  const send: Send = async (sent, again) => {
    const { id, idText, method, value } = sent;
    const refuse = (code: number, what: string) =>
      say(errorLine(idText, { code, message: `${what}: it was not sent` }));
    await renewing?.catch(() => undefined);
    if (Object.keys(value).length === 0) return refuse(INVALID_REQUEST, 'a line is no JSON object');
    if (id === null) return notify(sent);
    const held = [...requests.keys(), sent].map(({ body }) => Math.max(body.length, MIN_BYTES));
    if (held.reduce((sum, bytes) => sum + bytes) > MAX_BYTES_IN_FLIGHT)
      return refuse(TRANSPORT_ERROR, `${requests.size} requests have no answer yet`);
    if (method === INITIALIZE) {
      handshake = sent;
      // What this client had is over: neither its id nor its version are known to the server that answers.
      await endSession();
    }
    const controller = new AbortController();
    const done = request(sent, controller.signal, again).finally(() => requests.delete(sent));
    requests.set(sent, { done, abort: () => controller.abort() });
    // What comes next needs the session and the version.
    return method === INITIALIZE ? done : undefined;
  };

  /** Waits for the last answers, then ends the session. @param graceMs how long; after it, what is under way ends */
  async function end(graceMs = LAST_ANSWERS_MS): Promise<void> {
    // These do not end by themselves.
    for (const [{ method }, { abort }] of requests) if (method === LISTEN) abort();
    const answered = Promise.all([...requests.values()].map(({ done }) => done));
    await Promise.race([answered, delay(graceMs, null, { ref: false })]);
    closing.abort();
    await (ended ??= endSession().then(target.close));
  }

  async function endSession(): Promise<void> {
    const session = current;
    current = {};
    if (!(SESSION in session)) return;
    (await exchange('DELETE', session, AbortSignal.timeout(ENDING_MS)).catch(() => null))?.resume();
  }

  /** Sends a notification or a response. The messages after it wait until the server has taken it. */
  async function notify(sent: Sent): Promise<void> {
    const { method = 'an answer to the server', params } = sent;
    const given = method === CANCELLED ? params['requestId'] : undefined;
    const [cancelled, pending] = [...requests].find(([{ id }]) => id === given) ?? [];
    const session = current;
    const report = ({ message: why }: Error) => closing.signal.aborted || note(`${method}: ${why}`);
    const take = async () => {
      const { statusCode: status = 0 } = (await post(session, sent, closing.signal)).resume();
      if (status >= 300) throw new Error(`the server answered with ${status}`);
      // What the server says by itself comes while the session lasts, if the server has such a stream.
      const tell = (data: string) => say(oneLine(data)).then(() => false);
      if (method === INITIALIZED) follow(null, session, closing.signal, tell).catch(report);
    };
    // From version 2026-07-28 on, which each message names, a client cancels by closing the stream.
    if (cancelled?.meta[VERSION_META] === undefined)
      await Promise.race([take().catch(report), delay(NOTIFICATION_MS, null, { ref: false })]);
    // Servers send no answer to a request that was cancelled, and may leave its stream open.
    pending?.abort();
  }

  /** Sends a request, and says what the server answers. */
  async function request(sent: Sent, cancelling: AbortSignal, again: () => Promise<Decided>): Promise<void> {
    const signal = AbortSignal.any([cancelling, closing.signal]);
    const session = current;
    try {
      let failed = await ask(sent, session, signal, say);
      // Several requests may find that out.
      if (failed?.isLost === true && current === session)
        renewing ??= renew().finally(() => (renewing = null));
      const renewed = renewing?.catch((error: unknown) => note(String(error)));
      if (failed?.isUnread === true) {
        await renewing;
        // Only once: a session that is lost again at once was never kept. A gate before the server may have used the bundle up.
        const outcome = await again();
        failed = null;
        if (typeof outcome === 'string') await say(outcome);
        else if (outcome !== null) failed = await ask(outcome, current, signal, say);
      }
      if (failed === null) return;
      if (sent.method === INITIALIZE && [400, 404, 405].includes(failed.status)) {
        const soon = AbortSignal.any([closing.signal, AbortSignal.timeout(ENDING_MS)]);
        // Servers of 2024-11-05 have a stream without an `initialize`.
        if (typeof (await openStream({}, soon)) !== 'number') throw new Error(OF_SSE);
      }
      await say(failed.line);
      if (failed.isLost) await renewed;
    } catch (error) {
      const failure = { code: TRANSPORT_ERROR, message: (error as Error).message };
      if (!signal.aborted) await say(errorLine(sent.idText, failure));
    }
  }

  /** Begins the session again that the server has lost. */
  async function renew(): Promise<void> {
    if (handshake === null) throw new Error('the server has lost the session');
    const session: Headers = {};
    // The client has heard the answer to its own one.
    const failed = await ask(handshake, session, closing.signal, () => Promise.resolve());
    if (failed !== null) throw new Error('the server has lost the session, and refuses a new one');
    current = session;
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', method: INITIALIZED }));
    await notify({ ...messageOf({ bytes: body, isTooLong: false }), body });
    note('the server had lost the session: a new one was begun');
  }

  /** Sends a request, and has the messages heard with which the server answers; what else it answers is returned. */
  async function ask(sent: Sent, session: Headers, signal: AbortSignal, hear: Say) {
    const isHandshake = sent.method === INITIALIZE;
    const take = async (text: string) => {
      const answer = answerIn(readJson(text), sent.id);
      const { protocolVersion } = isJsonObject(answer?.['result']) ? answer['result'] : {};
      if (isHandshake && typeof protocolVersion === 'string') session[VERSION] = protocolVersion;
      await hear(oneLine(text));
      return answer !== undefined;
    };
    const response = await post(session, sent, signal);
    const { statusCode: status = 0, headers } = response;
    const { 'content-encoding': coding = 'identity', 'mcp-session-id': id } = headers;
    if (coding.toLowerCase() !== 'identity') {
      response.destroy();
      throw new Error(`the server answered in the coding "${coding}", and identity was asked for`);
    }
    const isGood = status >= 200 && status < 300;
    if (isGood && isHandshake && id !== undefined) session[SESSION] = String(id);
    if (isGood && typeOf(response) === EVENT_STREAM) {
      if (await follow(response, session, signal, take)) return null;
      throw new Error('the connection ended before the answer; the server may have done what was asked');
    }
    const bytes = await readAtMost(response, MAX_MESSAGE_BYTES);
    const text = bytes === null ? null : decodeUtf8(bytes);
    const isJson = isGood && typeOf(response) === 'application/json';
    if (!isJson || text === null || readJson(text) === undefined)
      return failureOf(sent, response, text, SESSION in session);
    await take(text);
    return null;
  }

  /**
   * Reads a stream of events, and asks for more of it where it breaks off. Of an answer, it asks for the events behind the last
   * that came, since the rest is worth nothing without what came before, and gives up when it asks in vain.
   *
   * @param first `null` for what the server says by itself, which is asked for as long as the session lasts
   * @param take takes a message, and says whether it was the last that is wanted
   * @returns whether the last has come
   */
  async function follow(
    first: IncomingMessage | null,
    session: Headers,
    signal: AbortSignal,
    take: (data: string) => Promise<boolean>,
  ) {
    let [lastEventId, retryMs, failures] = ['', FIRST_RETRY_MS, 0];
    for (let next = first; ; next = null) {
      const opened = next ?? (await openStream(session, signal, lastEventId));
      // Only a stream that cannot be opened counts as a failure: balancers cut streams in which nothing is said.
      failures = typeof opened === 'number' ? failures + 1 : 0;
      if (typeof opened !== 'number') {
        for await (const { id = '', event = 'message', data } of eventsOf(opened, (ms) => (retryMs = ms))) {
          if (id !== '') lastEventId = id;
          if (event === 'message' && data !== '' && (await take(data))) return true;
        }
        // A request is lost with the process that had it: one that is started in its place does not know it.
      } else if (first !== null || (opened < 500 && opened !== 429)) {
        // Not every server speaks by itself.
        if (first === null && opened !== 405)
          note(`the server's own messages do not come: it answered with ${opened}`);
        return false;
      }
      if (first === null ? current !== session : lastEventId === '') return false;
      // A server that says 0 must not be asked without a pause.
      const waitMs = Math.max(retryMs, MIN_RETRY_MS) * 2 ** failures;
      await delay(Math.min(waitMs, MAX_RETRY_MS), null, { signal });
    }
  }

  /** Asks for a stream of events, or for what comes after an event. @returns the status where there is none */
  async function openStream(session: Headers, signal: AbortSignal, lastEventId = '') {
    const headers = lastEventId === '' ? session : { ...session, 'last-event-id': lastEventId };
    const found = await exchange('GET', headers, signal).catch(() => null);
    if (found?.statusCode === 200 && typeOf(found) === EVENT_STREAM) return found;
    return found?.resume().statusCode ?? 503;
  }

  function post(session: Headers, sent: Sent, signal: AbortSignal) {
    const { method, params, meta, body, bundle } = sent;
    const headers: Headers = { ...session, 'content-type': 'application/json', ...bundleHeader(bundle) };
    const version = meta[VERSION_META];
    if (typeof version === 'string' && method !== undefined) {
      headers[VERSION] = version;
      headers['mcp-method'] = encodeNameHeader(method);
      const name = subjectOf(method, params);
      if (typeof name === 'string') headers['mcp-name'] = encodeNameHeader(name);
    }
    return exchange('POST', headers, signal, body);
  }

  function exchange(method: string, given: Headers, signal: AbortSignal, body?: Buffer) {
    const asked = { accept: `application/json, ${EVENT_STREAM}`, 'accept-encoding': 'identity' };
    return target.exchange({ method, headers: { ...ownHeaders, ...asked, ...given }, signal }, body);
  }

  return { send, end };
}

/** A JSON text in one line. A line end in JSON is always between two tokens, where a space means the same. */
const oneLine = (json: string) => json.replaceAll(/[\r\n]/g, ' ');

const typeOf = ({ headers: { 'content-type': type = '' } }: IncomingMessage) =>
  type.replace(/;.*/, '').trim().toLowerCase();

/** The events of a stream, read only as fast as they are taken, until it ends or its connection breaks. */
async function* eventsOf(response: IncomingMessage, onRetry: (ms: number) => void) {
  const events: EventSourceMessage[] = [];
  const parser = createParser({
    maxBufferSize: MAX_MESSAGE_BYTES,
    onRetry,
    onEvent: (event) => events.push(event),
    onError: (error) => {
      // Others are fields that are not known, which clients ignore.
      if (error.type === 'max-buffer-size-exceeded') throw error;
    },
  });
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.iterator({ destroyOnReturn: false })) {
      parser.feed(decoder.decode(chunk as Buffer, { stream: true }));
      yield* events.splice(0);
    }
  } catch (error) {
    if (error instanceof ParseError) throw error;
  } finally {
    // Where the server ends the stream after its answer, the connection serves the next request.
    response.resume();
    setTimeout(() => response.destroy(), ENDING_MS).unref();
  }
}

/** What a server has said that is no answer, as an error for the client, and what it says of the session. @param read `null`: unreadable */
function failureOf(sent: Sent, response: IncomingMessage, read: string | null, hasSession: boolean) {
  const { statusCode: status = 0 } = response;
  const text = read ?? '';
  const value = readJson(read);
  // Some servers say with 400 that they do not know it.
  const isLost = hasSession && (status === 404 || (status === 400 && /\bsession\b/i.test(text)));
  // Nothing else proves that the server has not done what was asked: to do it twice may cost twice.
  const isOfNone = isJsonObject(value) && value['id'] === null && isJsonObject(value['error']);
  const isUnread = isLost && status === 404 && (read === '' || isOfNone);
  const isKept = hasSession && [401, 410, 503].includes(status);
  const hint = (isLost ? OF_LOST : '') + (isKept ? OF_KEPT : '');
  // The gate does not know the id of a request that it did not read.
  const own = status < 300 ? undefined : (answerIn(value, sent.id) ?? answerIn(value, null))?.['error'];
  const found = { code: TRANSPORT_ERROR, message: findingIn(sent, response, text), data: { status } };
  const error = isJsonObject(own) ? own : found;
  const said = typeof error['message'] === 'string' && { message: error['message'] + hint };
  return { line: errorLine(sent.idText, { ...error, ...said }), status, isLost, isUnread };
}

/** What to say of an answer, and what to do. */
function findingIn({ bundle, body, bytes }: Sent, response: IncomingMessage, text: string): string {
  const { statusCode: status = 0, headers } = response;
  const { location, 'content-type': type = 'no content type' } = headers;
  let what = text === '' ? '' : `: ${text.slice(0, MAX_SHOWN)}`;
  if (status < 300) what = ` and ${type}, which is not a JSON-RPC answer`;
  if (location !== undefined) {
    const shown = JSON.stringify(location.slice(0, MAX_SHOWN));
    what = `, and redirects to ${shown}, which is not followed: name that address with --to, if you trust it`;
  }
  if (status === 401) what = ': give it a token with --header-env "Authorization: <variable>"';
  if (status === 413) {
    const signed = bundle === undefined ? '' : `, with their signature ${sizeOf(body.length)}`;
    what = ` (your arguments are ${sizeOf(bytes.length)}${signed})`;
  }
  return `the server answered with ${status}${what}`;
}
