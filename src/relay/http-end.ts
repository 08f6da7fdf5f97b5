import { createParser, type EventSourceMessage, type ParseError } from 'eventsource-parser';
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { BUNDLE_HEADER, MAX_HEADER_BUNDLE } from '../gate/carriers.js';
import { encodeNameHeader } from '../gate/context.js';
import { LISTEN, subjectOf, VERSION_META } from '../gate/mcp-methods.js';
import { isJsonObject } from '../protocol/json.js';
import { readAtMost, type HttpTarget } from './http-target.js';
import type { Say } from './lines.js';
import {
  answerIn,
  errorLine,
  idTextOf,
  INVALID_REQUEST,
  MAX_MESSAGE_BYTES,
  messageOf,
  PARSE_ERROR,
  readBytes,
  readJson,
  sizeOf,
  TRANSPORT_ERROR,
  type Message,
} from './message.js';
import type { Outcome, Send, Sent } from './pump.js';

/** The most requests that are unanswered at a time, and bytes in them. */
const MAX_IN_FLIGHT = 256;
const MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024;
/** How often in a row to try in vain to reach a server on which a request depends. */
const MAX_RESUMES = 5;
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

/** The headers that the server wants to see again in each request, in the versions before 2026-07-28. */
type Session = Partial<Record<'mcp-session-id' | 'mcp-protocol-version', string>>;

/**
 * The way to a server that speaks Streamable HTTP: each message of the host becomes a POST, and what the server answers
 * becomes lines. To the server this is the client: it keeps the session, and begins it again where the server has lost it.
 *
 * @param ownHeaders more headers of each request, such as `Authorization`, by names in lower case
 * @param note tells the operator something
 */
export function httpEnd(
  target: HttpTarget,
  ownHeaders: Readonly<Record<string, string>>,
  say: Say,
  note: (message: string) => void,
) {
  /** The requests of the client that have no answer yet. */
  const requests = new Map<Message, { readonly done: Promise<void>; readonly abort: () => void }>();
  /** Ends the stream of the server's own messages, and all requests. */
  const closing = new AbortController();
  let current: Session = {};
  /** The last `initialize`. */
  let handshake: { readonly message: Message; readonly sent: Sent } | null = null;
  let renewing: Promise<void> | null = null;
  let closed: Promise<void> | null = null;

  const send: Send = async (sent, message, again) => {
    const refuse = (code: number, what: string) =>
      say(errorLine(idTextOf(message), { code, message: `${what}: it was not sent` }));
    await renewing?.catch(() => undefined);
    if (message === null)
      return readBytes(sent.bytes) === undefined
        ? refuse(PARSE_ERROR, 'a line is not JSON')
        : refuse(INVALID_REQUEST, 'a message is no object (a batch, for example)');
    if (message.id === null) return notify(message, sent);
    const bytes = [...requests.keys(), message].reduce((sum, one) => sum + one.bytes.length, 0);
    if (requests.size >= MAX_IN_FLIGHT || bytes > MAX_BYTES_IN_FLIGHT)
      return refuse(TRANSPORT_ERROR, `${requests.size} requests have no answer yet`);
    const isHandshake = message.method === INITIALIZE;
    if (isHandshake) {
      handshake = { message, sent };
      // What this client had is over: neither its id nor its version are known to the server that answers.
      await endSession();
    }
    const controller = new AbortController();
    const done = request(message, sent, controller.signal, again).finally(() => requests.delete(message));
    requests.set(message, { done, abort: () => controller.abort() });
    // What comes next needs the session and the version.
    return isHandshake ? done : undefined;
  };

  /** Waits for the last answers, then ends the session. */
  async function end(): Promise<void> {
    // These do not end by themselves.
    for (const [{ method }, { abort }] of requests) if (method === LISTEN) abort();
    const answered = Promise.all([...requests.values()].map(({ done }) => done));
    await Promise.race([answered, delay(LAST_ANSWERS_MS, null, { ref: false })]);
    await close();
  }

  /** Ends what is under way, and the session. */
  function close(): Promise<void> {
    closing.abort();
    return (closed ??= endSession().then(target.close));
  }

  async function endSession(): Promise<void> {
    const ended = current;
    current = {};
    if (!('mcp-session-id' in ended)) return;
    const headers = headersOf(ended, '*/*');
    const signal = AbortSignal.timeout(ENDING_MS);
    (await target.exchange({ method: 'DELETE', headers, signal }).catch(() => null))?.resume();
  }

  /** Sends a notification or a response. The messages after it wait until the server has taken it. */
  async function notify(message: Message, sent: Sent): Promise<void> {
    const given = message.method === CANCELLED ? message.params['requestId'] : undefined;
    const [cancelled, pending] = [...requests].find(([{ id }]) => id === given) ?? [];
    // From version 2026-07-28 on, a client cancels by closing the stream.
    if (cancelled === undefined || versionOf(cancelled) === null)
      await Promise.race([postOne(message, sent), delay(NOTIFICATION_MS, null, { ref: false })]);
    // Servers send no answer to a request that was cancelled, and may leave its stream open.
    pending?.abort();
  }

  async function postOne(message: Message, sent: Sent): Promise<void> {
    const what = message.method ?? 'an answer to the server';
    const session = current;
    try {
      const response = await post(session, message, sent, closing.signal);
      response.resume();
      const status = response.statusCode ?? 0;
      if (status >= 300) note(`the server answered ${what} with ${status}`);
      else if (message.method === INITIALIZED) void readServerStream(session);
    } catch (error) {
      if (!closing.signal.aborted) note(`${what} was not sent: ${(error as Error).message}`);
    }
  }

  /** Sends a request, and says what the server answers. */
  async function request(
    message: Message,
    sent: Sent,
    cancelling: AbortSignal,
    again: () => Promise<Outcome>,
  ): Promise<void> {
    const signal = AbortSignal.any([cancelling, closing.signal]);
    const session = current;
    try {
      let failed = await ask(message, sent, session, signal, say);
      if (failed?.isLost === true && 'mcp-session-id' in session) {
        await renew(session);
        // Once: what is lost again at once was never kept. A gate before the server may have used the bundle up.
        const outcome = await again();
        if (outcome.kind === 'answer') await say(outcome.line ?? '');
        failed = outcome.kind === 'answer' ? null : await ask(message, outcome, current, signal, say);
      }
      if (failed !== null) await say(failed.line);
    } catch (error) {
      const failure = { code: TRANSPORT_ERROR, message: (error as Error).message };
      if (!signal.aborted) await say(errorLine(idTextOf(message), failure));
    }
  }

  /** Begins the session again that the server has lost: several requests may find that out. */
  async function renew(lost: Session): Promise<void> {
    if (current === lost) renewing ??= initializeAgain().finally(() => (renewing = null));
    await renewing;
  }

  async function initializeAgain(): Promise<void> {
    if (handshake === null) throw new Error('the server has lost the session');
    const session: Session = {};
    // The client has heard the answer to its own one.
    const hear = () => Promise.resolve();
    const failed = await ask(handshake.message, handshake.sent, session, closing.signal, hear);
    if (failed !== null) throw new Error('the server has lost the session, and refuses a new one');
    current = session;
    const bytes = Buffer.from(JSON.stringify({ jsonrpc: '2.0', method: INITIALIZED }));
    await postOne(messageOf(bytes) as Message, { kind: 'send', bytes });
    note('the server had lost the session: a new one was begun');
  }

  /** Sends a request, and has the messages heard with which the server answers; what else it answers is returned. */
  async function ask(
    message: Message,
    sent: Sent,
    session: Session,
    signal: AbortSignal,
    hear: Say,
  ): Promise<{ readonly line: string; readonly isLost: boolean } | null> {
    const take = async (text: string) => {
      const answer = answerIn(readJson(text), message.id);
      const { protocolVersion } = isJsonObject(answer?.['result']) ? answer['result'] : {};
      if (message.method === INITIALIZE && typeof protocolVersion === 'string')
        session['mcp-protocol-version'] = protocolVersion;
      await hear(oneLine(text));
      return answer !== undefined;
    };
    const response = await post(session, message, sent, signal);
    const { statusCode: status = 0, headers } = response;
    const { 'content-encoding': coding = 'identity', 'mcp-session-id': id } = headers;
    if (coding.toLowerCase() !== 'identity') {
      response.destroy();
      throw new Error(`the server answered in the coding "${coding}", and identity was asked for`);
    }
    const isGood = status >= 200 && status < 300;
    if (isGood && message.method === INITIALIZE && id !== undefined) session['mcp-session-id'] = String(id);
    if (isGood && typeOf(response) === 'text/event-stream') {
      if ((await follow(response, session, signal, take, true)) === 'taken') return null;
      throw new Error('the connection ended before the answer; the server may have done what was asked');
    }
    const text = await readAtMost(response, MAX_MESSAGE_BYTES);
    if (isGood && typeOf(response) === 'application/json' && readJson(text) !== undefined) {
      await take(text ?? '');
      return null;
    }
    // Some servers say with 400 that they do not know the session.
    const isLost = status === 404 || (status === 400 && /\bsession\b/i.test(text ?? ''));
    return { line: failureLine(message, sent, response, text), isLost };
  }

  /** Reads what the server sends by itself, while the session lasts and the server has such a stream. */
  async function readServerStream(session: Session): Promise<void> {
    const { signal } = closing;
    const take = (data: string) => say(oneLine(data)).then(() => false);
    try {
      const first = await resume(session, '', signal);
      if (typeof first !== 'number') {
        // Where the stream was there, it is the session that is not.
        if (typeof (await follow(first, session, signal, take, false)) === 'number') await renew(session);
        // Not every server has one.
      } else if (first !== 405) note(`the server's own messages do not come: it answered with ${first}`);
    } catch (error) {
      if (!signal.aborted) note((error as Error).message);
    }
  }

  /**
   * Reads a stream of events, and asks for more of it where it breaks off.
   *
   * @param take returns whether this was the last that is wanted
   * @param isOfRequest whether it is worth nothing without its rest: then that is asked for only a few times in a row in vain,
   *   and only where it broke off; else as long as the session lasts
   * @returns what ended it; a number is the status with which the server refuses more
   */
  async function follow(
    first: IncomingMessage | null,
    session: Session,
    signal: AbortSignal,
    take: (data: string) => Promise<boolean>,
    isOfRequest: boolean,
  ): Promise<number | 'taken' | 'over'> {
    let [lastEventId, retryMs, response] = ['', FIRST_RETRY_MS, first as IncomingMessage | number | null];
    for (let failures = 0; typeof response !== 'number';) {
      failures = response === null ? failures + 1 : 0;
      const events: EventSourceMessage[] = [];
      const onRetry = (ms: number) => (retryMs = ms);
      const parser = createParser({ ...EVENT_LIMIT, onRetry, onEvent: (event) => events.push(event) });
      const decoder = new TextDecoder();
      try {
        // It is read only as fast as the events are taken.
        for await (const chunk of response?.iterator({ destroyOnReturn: false }) ?? []) {
          parser.feed(decoder.decode(chunk as Buffer, { stream: true }));
          for (const { id = '', event = 'message', data } of events.splice(0)) {
            if (id !== '') lastEventId = id;
            if (event === 'message' && data !== '' && (await take(data))) return 'taken';
          }
        }
      } catch (error) {
        // A connection has broken: what was to come is asked for again, if the stream can be continued.
        if (error instanceof RangeError) throw error;
      } finally {
        // Where the server ends the stream after its answer, the connection serves the next request.
        const ended = response?.resume();
        setTimeout(() => ended?.destroy(), ENDING_MS).unref();
      }
      // Whether it can be reached counts: balancers cut streams in which nothing is said.
      const isUnreachable = failures === MAX_RESUMES;
      if (isUnreachable) note('the server cannot be reached: what it says comes when it can');
      if (isOfRequest ? isUnreachable || lastEventId === '' : current !== session) return 'over';
      // A server that says 0 must not be asked without a pause.
      const waitMs = Math.max(retryMs, MIN_RETRY_MS) * 2 ** failures;
      await delay(Math.min(waitMs, MAX_RETRY_MS), null, { signal });
      response = await resume(session, lastEventId, signal);
    }
    return response;
  }

  /** Continues a stream after its last event; the status if the server says that it does not, `null` if it says nothing. */
  async function resume(session: Session, lastEventId: string, signal: AbortSignal) {
    const last = lastEventId === '' ? {} : { 'last-event-id': lastEventId };
    const headers = { ...headersOf(session, 'text/event-stream'), ...last };
    const response = await target.exchange({ method: 'GET', headers, signal }).catch(() => null);
    const { statusCode: status = 503 } = response ?? {};
    if (response !== null && status === 200 && typeOf(response) === 'text/event-stream') return response;
    response?.resume();
    return status >= 500 || status === 429 ? null : status;
  }

  function post(session: Session, message: Message, { bytes: body, bundle = '' }: Sent, signal: AbortSignal) {
    const headers = headersOf(session, 'application/json, text/event-stream');
    headers['content-type'] = 'application/json';
    const version = versionOf(message);
    if (version !== null && message.method !== undefined) {
      headers['mcp-protocol-version'] = version;
      headers['mcp-method'] = encodeNameHeader(message.method);
      const name = subjectOf(message.method, message.params);
      if (typeof name === 'string') headers['mcp-name'] = encodeNameHeader(name);
    }
    if (bundle !== '' && bundle.length <= MAX_HEADER_BUNDLE) headers[BUNDLE_HEADER] = bundle;
    return target.exchange({ method: 'POST', headers, signal }, body);
  }

  function headersOf(session: Session, accept: string): Record<string, string> {
    return { ...ownHeaders, 'accept-encoding': 'identity', accept, ...session };
  }

  return { send, end, close };
}

const EVENT_LIMIT = {
  maxBufferSize: MAX_MESSAGE_BYTES,
  onError: ({ type }: ParseError) => {
    // Others are fields that are not known, which clients ignore.
    if (type === 'max-buffer-size-exceeded')
      throw new RangeError(`the server sent an event of more than ${MAX_MESSAGE_BYTES} characters`);
  },
};

/** A JSON text in one line. A line end in JSON is always between two tokens, where a space means the same. */
const oneLine = (json: string) => json.replaceAll(/[\r\n]/g, ' ');

const typeOf = ({ headers: { 'content-type': type = '' } }: IncomingMessage) =>
  type.replace(/;.*/, '').trim().toLowerCase();

/** The version of the protocol that a message names itself, as messages do from 2026-07-28 on. */
function versionOf({ params }: Message): string | null {
  const meta = params['_meta'];
  const version = isJsonObject(meta) ? meta[VERSION_META] : undefined;
  return typeof version === 'string' ? version : null;
}

/** The JSON-RPC error for a request that the server has not answered as it should: its own one, if it sent one. */
function failureLine(message: Message, sent: Sent, response: IncomingMessage, text: string | null): string {
  const { statusCode: status = 0, headers } = response;
  const { location, 'content-type': type = 'no content type' } = headers;
  const value = status < 300 ? undefined : readJson(text);
  // The gate does not know the id of a request that it did not read.
  const error = (answerIn(value, message.id) ?? answerIn(value, null))?.['error'];
  if (isJsonObject(error)) return errorLine(idTextOf(message), error);
  const signed = sent.bundle === undefined ? '' : `, with their signature ${sizeOf(sent.bytes.length)}`;
  const hints: Readonly<Record<number, string>> = {
    401: ': give it a token with --header-env "Authorization: <variable>"',
    413: ` (your arguments are ${sizeOf(message.bytes.length)}${signed})`,
  };
  const moved = `, and redirects to ${JSON.stringify(location?.slice(0, MAX_SHOWN))}, which is not followed: name that address with --to, if you trust it`;
  const said = `: ${text?.slice(0, MAX_SHOWN) ?? ''}`;
  const what = status < 300 ? ` and ${type}, which is not a JSON-RPC answer` : said.length > 2 ? said : '';
  const reason = `the server answered with ${status}${hints[status] ?? ''}${location === undefined ? what : moved}`;
  return errorLine(idTextOf(message), { code: TRANSPORT_ERROR, message: reason, data: { status } });
}
