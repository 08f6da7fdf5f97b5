import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { BUNDLE_HEADER, MAX_HEADER_BUNDLE } from '../gate/carriers.js';
import { encodeNameHeader } from '../gate/context.js';
import { LISTEN, subjectOf, VERSION_META } from '../gate/mcp-methods.js';
import { isJsonObject } from '../protocol/json.js';
import { newPosition, readEvents, waitBefore, type StreamPosition } from './events.js';
import { readAtMost, type HttpTarget } from './http-target.js';
import type { Output } from './lines.js';
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
import { withId, type Outcome, type Sent, type ServerEnd } from './pump.js';

/** What the way to an HTTP server needs. */
export interface HttpEndOptions {
  readonly target: HttpTarget;
  /** More headers of each request, such as `Authorization`, by names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly output: Output;
  /** Tells the operator something. */
  readonly note: (message: string) => void;
  /** Aborts when this process is told to end. */
  readonly stop: AbortSignal;
}

/** The most requests that are unanswered at a time, and bytes in them. */
const MAX_IN_FLIGHT = 256;
const MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024;
/** How often in a row to try in vain to reach a server on which a request depends. */
const MAX_RESUMES = 5;
/** How long messages wait for the server to take a notification before them. */
const NOTIFICATION_MS = 5000;
/** How long to wait for answers after the host has sent its last message. */
const LAST_ANSWERS_MS = 30_000;
/** How long a server may keep a stream open on which it has answered. */
const LAST_EVENTS_MS = 1000;
const DELETE_MS = 2000;
const MAX_SHOWN = 200;
const INITIALIZE = 'initialize';
const INITIALIZED = 'notifications/initialized';
const CANCELLED = 'notifications/cancelled';

/** What the server wants to see again in each request, in the versions before 2026-07-28. */
interface Session {
  id: string | null;
  version: string | null;
}

/** A request that has no answer yet. */
interface Pending {
  readonly message: Message;
  readonly session: Session;
  readonly controller: AbortController;
  /** Whether the client has asked, and not this relay, again. */
  readonly isAsked: boolean;
  isAnswered: boolean;
}

/**
 * The way to a server that speaks Streamable HTTP: each message of the host becomes a POST, and what the server answers
 * becomes lines. To the server this is the client: it keeps the session, and begins it again where the server has lost it.
 */
export class HttpEnd implements ServerEnd {
  readonly #options: HttpEndOptions;
  readonly #pending = new Map<string, Pending>();
  readonly #working = new Set<Promise<void>>();
  /** Ends the stream of the server's own messages, and all requests. */
  readonly #closing = new AbortController();
  #session: Session = { id: null, version: null };
  /** The last `initialize`. */
  #handshake: { readonly message: Message; readonly sent: Sent } | null = null;
  #renewing: Promise<void> | null = null;

  constructor(options: HttpEndOptions) {
    this.#options = options;
  }

  async send(sent: Sent, message: Message | null, again: () => Promise<Outcome>): Promise<void> {
    const refuse = (code: number, what: string) =>
      this.#options.output.insert(errorLine(idTextOf(sent.bytes), code, `${what}: it was not sent`));
    await this.#renewing?.catch(() => undefined);
    if (message === null)
      return readBytes(sent.bytes) === undefined
        ? refuse(PARSE_ERROR, 'a line is not JSON')
        : refuse(INVALID_REQUEST, 'a message is not an object (a batch, for example)');
    if (message.id === null) return this.#notify(message, sent);
    const pending = [...this.#pending.values()].map(({ message: { bytes } }) => bytes.length);
    const bytes = pending.reduce((sum, length) => sum + length, message.bytes.length);
    if (pending.length >= MAX_IN_FLIGHT || bytes > MAX_BYTES_IN_FLIGHT)
      return refuse(TRANSPORT_ERROR, `${pending.length} requests have no answer yet`);
    const isHandshake = message.method === INITIALIZE;
    if (isHandshake) {
      this.#handshake = { message, sent };
      // What this client had is over: neither its id nor its version are known to the server that answers.
      await this.#endSession();
      this.#session = { id: null, version: null };
    }
    const done = this.#track(this.#request(message, sent, again));
    // What comes next needs the session and the version.
    return isHandshake ? done : undefined;
  }

  /** Waits for the last answers, unless this process is told to end, then ends the session. */
  async end(): Promise<void> {
    const { stop } = this.#options;
    // These do not end by themselves.
    for (const { message, isAnswered, controller } of this.#pending.values())
      if (isAnswered || message.method === LISTEN) controller.abort();
    const waiting = delay(LAST_ANSWERS_MS, null, { ref: false, signal: stop }).catch(() => null);
    await Promise.race([Promise.all(this.#working), waiting]);
    this.#closing.abort();
    await this.#endSession();
    this.#options.target.close();
  }

  async #endSession(): Promise<void> {
    if (this.#session.id === null) return;
    const outgoing = { method: 'DELETE', headers: this.#headersOf(this.#session) };
    const asked = this.#options.target.exchange({ ...outgoing, signal: AbortSignal.timeout(DELETE_MS) });
    (await asked.catch(() => null))?.resume();
  }

  #track(work: Promise<void>): Promise<void> {
    const tracked = work.finally(() => this.#working.delete(tracked));
    this.#working.add(tracked);
    return tracked;
  }

  /** Sends a notification or a response. The messages after it wait until the server has taken it. */
  async #notify(message: Message, sent: Sent): Promise<void> {
    const cancelled =
      message.method === CANCELLED ? this.#pending.get(keyOf(message.params['requestId'])) : undefined;
    // From version 2026-07-28 on, a client cancels by closing the stream.
    if (cancelled !== undefined && versionOf(cancelled.message) !== null) {
      cancelled.controller.abort();
      return;
    }
    const posted = this.#track(this.#postOne(message, sent));
    await Promise.race([posted, delay(NOTIFICATION_MS, null, { ref: false })]);
    // Servers send no answer to a request that was cancelled, and may leave its stream open.
    cancelled?.controller.abort();
  }

  async #postOne(message: Message, sent: Sent): Promise<void> {
    const { note } = this.#options;
    const what = message.method ?? 'an answer to the server';
    const session = this.#session;
    try {
      const response = await this.#post(session, message, sent, this.#closing.signal);
      response.resume();
      const status = response.statusCode ?? 0;
      if (status >= 300) note(`the server answered ${what} with ${status}`);
      else if (message.method === INITIALIZED) void this.#readServerStream(session);
    } catch (error) {
      if (!this.#closing.signal.aborted) note(`${what} was not sent: ${(error as Error).message}`);
    }
  }

  /** @param again `null` if it is not sent once more */
  async #request(
    message: Message,
    sent: Sent,
    again: (() => Promise<Outcome>) | null,
    isAsked = true,
  ): Promise<void> {
    const pending: Pending = {
      ...{ message, session: this.#session, controller: new AbortController(), isAsked, isAnswered: false },
    };
    const key = keyOf(message.id);
    if (isAsked) this.#pending.set(key, pending);
    const signal = AbortSignal.any([pending.controller.signal, this.#closing.signal]);
    try {
      const response = await this.#post(pending.session, message, sent, signal);
      const status = response.statusCode ?? 0;
      if (message.method === INITIALIZE && status < 300)
        pending.session.id = headerOf(response, 'mcp-session-id');
      const isLost = await this.#read(response, pending, sent, { signal, mayRepeat: again !== null });
      if (!isLost || again === null) return;
      await this.#renew(pending.session);
      // Once: what is lost again at once was never kept. A gate before the server may have used the bundle up.
      const outcome = await again();
      if (outcome.kind === 'send') await this.#request(message, outcome, null);
      else await this.#options.output.insert(withId(outcome.line ?? '', () => idTextOf(message.bytes)));
    } catch (error) {
      if (signal.aborted) return;
      if (!isAsked) throw error;
      pending.isAnswered = true;
      const line = errorLine(idTextOf(message.bytes), TRANSPORT_ERROR, (error as Error).message);
      await this.#options.output.insert(line);
    } finally {
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    }
  }

  /** Begins the session again that the server has lost: several requests may find that out. */
  async #renew(lost: Session): Promise<void> {
    if (this.#session === lost)
      this.#renewing ??= this.#initializeAgain().finally(() => (this.#renewing = null));
    await this.#renewing;
  }

  async #initializeAgain(): Promise<void> {
    if (this.#handshake === null) throw new Error('the server has lost the session');
    const { message, sent } = this.#handshake;
    const lost = this.#session;
    this.#session = { id: null, version: null };
    try {
      await this.#request(message, sent, null, false);
    } catch (error) {
      // The next request tries again.
      this.#session = lost;
      throw error;
    }
    const bytes = Buffer.from(JSON.stringify({ jsonrpc: '2.0', method: INITIALIZED }));
    await this.#postOne(messageOf(bytes, readBytes(bytes)) as Message, { kind: 'send', bytes });
    this.#options.note('the server had lost the session: a new one was begun');
  }

  /** @returns whether the server has lost the session, so that the request may be sent once more */
  async #read(
    response: IncomingMessage,
    pending: Pending,
    sent: Sent,
    { signal, mayRepeat }: { readonly signal: AbortSignal; readonly mayRepeat: boolean },
  ): Promise<boolean> {
    const status = response.statusCode ?? 0;
    requirePlain(response);
    const isGood = status >= 200 && status < 300;
    if (isGood && typeOf(response) === 'text/event-stream') {
      await this.#readStream(response, pending, signal);
      return false;
    }
    const text = await readAtMost(response, MAX_MESSAGE_BYTES);
    if (isGood && typeOf(response) === 'application/json' && readJson(text) !== undefined) {
      await this.#take(text ?? '', pending);
      return false;
    }
    const { message, session, isAsked } = pending;
    const hasSession = session.id !== null && message.method !== INITIALIZE;
    if (mayRepeat && hasSession && isLost(status, text)) return true;
    if (!isAsked) throw new Error(`the server has lost the session, and refuses a new one with ${status}`);
    pending.isAnswered = true;
    await this.#options.output.insert(failureLine(message, sent, response, text));
    return false;
  }

  async #readStream(first: IncomingMessage, pending: Pending, signal: AbortSignal): Promise<void> {
    const position = newPosition();
    const read = (response: IncomingMessage) =>
      readEvents(response, position, async (data) => {
        await this.#take(data, pending);
        if (pending.isAnswered) setTimeout(() => response.destroy(), LAST_EVENTS_MS).unref();
      });
    await read(first);
    for (let failures = 0; !pending.isAnswered && position.lastEventId !== null && failures < MAX_RESUMES;) {
      await delay(waitBefore(position, failures), null, { signal });
      const response = await this.#resume(pending.session, position, signal);
      if (typeof response === 'number') break;
      failures = response === null ? failures + 1 : 0;
      if (response !== null) await read(response);
    }
    if (!pending.isAnswered && !signal.aborted)
      throw new Error('the connection ended before the answer; the server may have done what was asked');
  }

  /** Reads what the server sends by itself, while the session lasts and the server has such a stream. */
  async #readServerStream(session: Session): Promise<void> {
    const { signal } = this.#closing;
    const { note, output } = this.#options;
    const position = newPosition();
    let hasOpened = false;
    try {
      for (let failures = 0; this.#session === session;) {
        const response = await this.#resume(session, position, signal);
        if (typeof response === 'number') {
          // Where the stream was there, it is the session that is not. Not every server has one.
          if (hasOpened) await this.#renew(session);
          else if (response !== 405)
            note(`the server's own messages do not come: it answered with ${response}`);
          return;
        }
        hasOpened ||= response !== null;
        // Whether it can be reached counts: balancers cut streams in which nothing is said.
        failures = response === null ? failures + 1 : 0;
        if (failures === MAX_RESUMES) note('the server cannot be reached: its own messages come when it can');
        if (response !== null) await readEvents(response, position, (data) => output.insert(oneLine(data)));
        await delay(waitBefore(position, failures), null, { signal });
      }
    } catch (error) {
      if (!signal.aborted) note((error as Error).message);
    }
  }

  /** Continues a stream after its last event; the status if the server says that it does not, `null` if it says nothing. */
  async #resume(session: Session, { lastEventId }: StreamPosition, signal: AbortSignal) {
    const last = lastEventId === null ? {} : { 'last-event-id': lastEventId };
    const headers = { ...this.#headersOf(session), accept: 'text/event-stream', ...last };
    const asked = this.#options.target.exchange({ method: 'GET', headers, signal });
    const response = await asked.catch(() => null);
    const { statusCode: status = 503 } = response ?? {};
    if (response !== null && status === 200 && typeOf(response) === 'text/event-stream') return response;
    response?.resume();
    return status >= 500 || status === 429 ? null : status;
  }

  #post(session: Session, message: Message, { bytes, bundle = '' }: Sent, signal: AbortSignal) {
    // A carriage return before the line feed belongs to the end of the line.
    const body = bytes.at(-1) === 0x0d ? bytes.subarray(0, -1) : bytes;
    const headers: Record<string, string> = {
      ...{ ...this.#headersOf(session), 'content-length': String(body.length) },
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    };
    const version = versionOf(message);
    if (version !== null && message.method !== undefined) {
      headers['mcp-protocol-version'] = version;
      headers['mcp-method'] = encodeNameHeader(message.method);
      const name = subjectOf(message.method, message.params);
      if (typeof name === 'string') headers['mcp-name'] = encodeNameHeader(name);
    }
    if (bundle !== '' && bundle.length <= MAX_HEADER_BUNDLE) headers[BUNDLE_HEADER] = bundle;
    const { target } = this.#options;
    return target.exchange({ method: 'POST', headers, body, signal }).catch((error: unknown) => {
      const why = (error as Error).message;
      throw new Error(`cannot reach ${target.url.origin}: ${why}; start it, or correct --to`);
    });
  }

  #headersOf({ id, version }: Session): Record<string, string> {
    return {
      ...this.#options.headers,
      'accept-encoding': 'identity',
      ...(id === null ? {} : { 'mcp-session-id': id }),
      ...(version === null ? {} : { 'mcp-protocol-version': version }),
    };
  }

  /** Passes on a message of the server, and takes from it what must be known. */
  async #take(text: string, pending: Pending): Promise<void> {
    const answer = answerIn(readJson(text), pending.message.id);
    if (answer !== undefined) {
      pending.isAnswered = true;
      const { result } = answer;
      const version = isJsonObject(result) ? result['protocolVersion'] : undefined;
      if (pending.message.method === INITIALIZE && isVersion(version)) pending.session.version = version;
      if (!pending.isAsked) return;
    }
    await this.#options.output.insert(oneLine(text));
  }
}

const keyOf = (id: unknown) => `${typeof id}:${String(id)}`;

/** A JSON text in one line. A line end in JSON is always between two tokens, where a space means the same. */
const oneLine = (json: string) => json.replaceAll(/[\r\n]/g, ' ');

/** Whether a server says that it does not know the session. Some say so with 400. */
function isLost(status: number, text: string | null): boolean {
  return status === 404 || (status === 400 && /\bsession\b/i.test(text ?? ''));
}

/** @throws Error if an answer is in a coding, which was not asked for */
function requirePlain(response: IncomingMessage): void {
  const coding = headerOf(response, 'content-encoding') ?? 'identity';
  if (coding.toLowerCase() === 'identity') return;
  response.destroy();
  throw new Error(`the server answered in the coding ${JSON.stringify(coding)}, and identity was asked for`);
}

/** The value of a header that came once; else `null`. */
function headerOf(response: IncomingMessage, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : null;
}

function typeOf(response: IncomingMessage): string {
  return headerOf(response, 'content-type')?.split(';')[0]?.trim().toLowerCase() ?? '';
}

/** The version of the protocol that a message names itself, as messages do from 2026-07-28 on. */
function versionOf({ params }: Message): string | null {
  const meta = params['_meta'];
  const version = isJsonObject(meta) ? meta[VERSION_META] : undefined;
  return isVersion(version) ? version : null;
}

/** Whether a value can be the version of a protocol in a header. */
function isVersion(value: unknown): value is string {
  return typeof value === 'string' && /^[\w.-]+$/.test(value);
}

/** The JSON-RPC error for a request that the server has not answered as it should: its own one, if it sent one. */
function failureLine({ id, bytes }: Message, sent: Sent, response: IncomingMessage, text: string | null) {
  const { statusCode: status = 0, headers } = response;
  const value = status < 300 ? undefined : readJson(text);
  if (isJsonObject(answerIn(value, id)?.['error'])) return oneLine(text ?? '');
  const idText = idTextOf(bytes);
  // The gate does not know the id of a request that it did not read.
  const error = answerIn(value, null)?.['error'];
  if (isJsonObject(error)) return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify(error)}}`;
  const signed = sent.bundle === undefined ? '' : `, with their signature ${sizeOf(sent.bytes.length)}`;
  const shown = [
    status === 413 ? ` (your arguments are ${sizeOf(bytes.length)}${signed})` : '',
    (text ?? '') === '' ? '' : `: ${text?.slice(0, MAX_SHOWN)}`,
  ].join('');
  const location = JSON.stringify((headers.location ?? 'another address').slice(0, MAX_SHOWN));
  const type = headers['content-type'] ?? 'no content type';
  const reason =
    status === 401
      ? 'the server wants to know who calls (401): give it a token with --header-env "Authorization: <variable>"'
      : status >= 300 && status < 400
        ? `the server redirects to ${location}, which is not followed: name that address with --to, if you trust it`
        : status < 300
          ? `the server answered with ${type}, which is not a JSON-RPC answer`
          : `the server answered with ${status}${shown}`;
  return errorLine(idText, TRANSPORT_ERROR, reason, { status });
}
