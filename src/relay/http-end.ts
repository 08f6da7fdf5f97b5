import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { BUNDLE_HEADER, MAX_HEADER_BUNDLE } from '../gate/carriers.js';
import { encodeNameHeader } from '../gate/context.js';
import { LISTEN, subjectOf } from '../gate/mcp-methods.js';
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
import type { Outcome, Sent, ServerEnd } from './pump.js';

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
/** The member of `_meta` by which requests from version 2026-07-28 on name the version of the protocol. */
const VERSION_META = 'io.modelcontextprotocol/protocolVersion';

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
  /** Whether the client has asked: else this relay does, again. */
  readonly isAsked: boolean;
  isAnswered: boolean;
}

/** A message that was sent, and can be sent once more. */
interface Repeatable {
  readonly message: Message;
  readonly sent: Sent;
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
  #handshake: Repeatable | null = null;
  #renewing: Promise<void> | null = null;

  constructor(options: HttpEndOptions) {
    this.#options = options;
  }

  async send(sent: Sent, message: Message | null, again: () => Promise<Outcome>): Promise<void> {
    const { output } = this.#options;
    await this.#renewing?.catch(() => undefined);
    if (message === null) {
      const isJson = readBytes(sent.bytes) !== undefined;
      const what = isJson ? 'a message is not an object (a batch, for example)' : 'a line is not JSON';
      await output.insert(
        errorLine(idTextOf(sent.bytes), isJson ? INVALID_REQUEST : PARSE_ERROR, `${what}: it was not sent`),
      );
      return;
    }
    if (message.id === null) {
      await this.#notify(message, sent);
      return;
    }
    const bytes = [...this.#pending.values()].reduce((sum, pending) => sum + pending.message.bytes.length, 0);
    if (this.#pending.size >= MAX_IN_FLIGHT || bytes + message.bytes.length > MAX_BYTES_IN_FLIGHT) {
      const found = `${this.#pending.size} requests have no answer yet: this one was not sent`;
      await output.insert(errorLine(idTextOf(message.bytes), TRANSPORT_ERROR, found));
      return;
    }
    const isHandshake = message.method === INITIALIZE;
    if (isHandshake) {
      this.#handshake = { message, sent };
      // What this client had is over: neither its id nor its version are known to the server that answers.
      await this.#endSession();
      this.#session = { id: null, version: null };
    }
    const done = this.#track(this.#request(message, sent, again));
    // What comes next needs the session and the version.
    if (isHandshake) await done;
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
    const signal = AbortSignal.timeout(DELETE_MS);
    const headers = this.#headersOf(this.#session);
    const response = await this.#options.target
      .exchange({ method: 'DELETE', headers, signal })
      .catch(() => null);
    response?.resume();
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
    } catch (error) {
      if (signal.aborted) return;
      if (!isAsked) throw error;
      await this.#fail(pending, (error as Error).message);
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
    const { message, sent } = this.#handshake as Repeatable;
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
      failures = typeof response === 'object' ? 0 : failures + 1;
      if (response === 'refused') break;
      if (response !== 'unreachable') await read(response);
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
        if (response === 'refused') {
          // The stream was there: it is the session that is not.
          if (hasOpened) await this.#renew(session);
          return;
        }
        // Whether it can be reached counts: balancers cut streams in which nothing is said.
        failures = response === 'unreachable' ? failures + 1 : 0;
        if (failures === MAX_RESUMES) note('the server cannot be reached: its own messages come when it can');
        if (response !== 'unreachable') {
          hasOpened = true;
          await readEvents(response, position, (data) => output.insert(oneLine(data)));
        }
        await delay(waitBefore(position, failures), null, { signal });
      }
    } catch (error) {
      if (!signal.aborted) note((error as Error).message);
    }
  }

  /** Continues a stream after its last event; `refused` if the server has said that it does not. */
  async #resume(
    session: Session,
    position: StreamPosition,
    signal: AbortSignal,
  ): Promise<IncomingMessage | 'refused' | 'unreachable'> {
    const last = position.lastEventId === null ? {} : { 'last-event-id': position.lastEventId };
    const headers = { ...this.#headersOf(session), accept: 'text/event-stream', ...last };
    const response = await this.#options.target
      .exchange({ method: 'GET', headers, signal })
      .catch(() => null);
    if (response?.statusCode === 200 && typeOf(response) === 'text/event-stream') return response;
    response?.resume();
    const status = response?.statusCode ?? 503;
    return status >= 500 || status === 429 ? 'unreachable' : 'refused';
  }

  #post(session: Session, message: Message, { bytes, bundle = '' }: Sent, signal: AbortSignal) {
    const headers: Record<string, string> = {
      ...this.#headersOf(session),
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      'content-length': String(trim(bytes).length),
    };
    const version = versionOf(message);
    if (version !== null && message.method !== undefined) {
      headers['mcp-protocol-version'] = version;
      headers['mcp-method'] = encodeNameHeader(message.method);
      const name = subjectOf(message.method, message.params);
      if (typeof name === 'string') headers['mcp-name'] = encodeNameHeader(name);
    }
    if (bundle !== '' && bundle.length <= MAX_HEADER_BUNDLE) headers[BUNDLE_HEADER] = bundle;
    return this.#options.target
      .exchange({ method: 'POST', headers, body: trim(bytes), signal })
      .catch((error: unknown) => {
        const { origin } = this.#options.target.url;
        throw new Error(`cannot reach ${origin}: ${(error as Error).message}; start it, or correct --to`);
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

  async #fail(pending: Pending, reason: string): Promise<void> {
    pending.isAnswered = true;
    await this.#options.output.insert(errorLine(idTextOf(pending.message.bytes), TRANSPORT_ERROR, reason));
  }
}

const keyOf = (id: unknown) => `${typeof id}:${String(id)}`;

/** A carriage return before the line feed belongs to the end of the line. */
const trim = (bytes: Buffer) => (bytes.at(-1) === 0x0d ? bytes.subarray(0, -1) : bytes);

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
function failureLine(
  { id, bytes }: Message,
  sent: Sent,
  response: IncomingMessage,
  text: string | null,
): string {
  const idText = idTextOf(bytes);
  const status = response.statusCode ?? 0;
  const value = status < 300 ? undefined : readJson(text);
  if (isJsonObject(answerIn(value, id)?.['error'])) return oneLine(text ?? '');
  // The gate does not know the id of a request that it did not read.
  const error = answerIn(value, null)?.['error'];
  if (isJsonObject(error)) return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify(error)}}`;
  return errorLine(idText, TRANSPORT_ERROR, reasonFor(status, response, text, sizes(bytes, sent)), {
    status,
  });
}

function sizes(bytes: Buffer, sent: Sent): string {
  const signed = sent.bundle === undefined ? '' : `, with their signature ${sizeOf(sent.bytes.length)}`;
  return `your arguments are ${sizeOf(bytes.length)}${signed}`;
}

function reasonFor(status: number, { headers }: IncomingMessage, text: string | null, size: string): string {
  if (status >= 300 && status < 400) {
    const location = JSON.stringify((headers.location ?? 'another address').slice(0, MAX_SHOWN));
    return `the server redirects to ${location}, which is not followed: name that address with --to, if you trust it`;
  }
  if (status === 401)
    return 'the server wants to know who calls (401): give it a token with --header-env "Authorization: <variable>"';
  if (status < 300)
    return `the server answered with ${headers['content-type'] ?? 'no content type'}, which is not a JSON-RPC answer`;
  const shown = text === null || text === '' ? '' : `: ${text.slice(0, MAX_SHOWN)}`;
  return `the server answered with ${status}${status === 413 ? ` (${size})` : ''}${shown}`;
}
