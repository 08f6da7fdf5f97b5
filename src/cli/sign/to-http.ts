import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { LISTEN } from '../../gate/mcp-methods.js';
import { isJsonObject } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { failureLine, isAnswerTo, oneLine } from './answers.js';
import { newPosition, readEvents, waitBefore, type StreamPosition } from './event-stream.js';
import { readAtMost } from '../files.js';
import type { HttpTarget } from './exchange.js';
import { readLines, type Line, type Output } from './lines.js';
import type { McpSigner } from './mcp-signer.js';
import { headerOf, isVersion, McpSession, versionOf } from './session.js';
import {
  errorLine,
  idTextOf,
  INVALID_REQUEST,
  MAX_MESSAGE_BYTES,
  messageOf,
  PARSE_ERROR,
  readJson,
  TRANSPORT_ERROR,
  type Message,
} from './message.js';

/** What a relay needs. */
export interface RelayOptions {
  readonly target: HttpTarget;
  /** More headers of each request, such as `Authorization`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signer: McpSigner;
  readonly output: Output;
  /** Tells the operator something. */
  readonly note: (message: string) => void;
}

/** The most requests that are unanswered at a time, and characters in them. */
const MAX_IN_FLIGHT = 256;
const MAX_TEXT_IN_FLIGHT = 64 * 1024 * 1024;
/** How often in a row to try in vain to continue a broken stream. */
const MAX_RESUMES = 5;
/** How long messages wait for the server to take a notification before them. */
const NOTIFICATION_MS = 5000;
/** How long to wait for answers after the host has sent its last message. */
const LAST_ANSWERS_MS = 30_000;
/** How long a server may keep a stream open on which it has answered. */
const LAST_EVENTS_MS = 1000;
const INITIALIZE = 'initialize';
const INITIALIZED = 'notifications/initialized';
const CANCELLED = 'notifications/cancelled';

/** A request that has no answer yet. */
interface Pending {
  readonly message: Message;
  readonly controller: AbortController;
  isAnswered: boolean;
}

/**
 * Connects an MCP host that speaks over standard input and output to a server that speaks Streamable HTTP: each message
 * of the host becomes a POST, and what the server answers becomes lines.
 */
export class HttpRelay {
  readonly #options: RelayOptions;
  readonly #pending = new Map<string, Pending>();
  readonly #working = new Set<Promise<void>>();
  /** Ends the stream of the server's own messages, and all requests. */
  readonly #closing = new AbortController();
  readonly #session: McpSession;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#session = new McpSession(options.target, options.headers);
  }

  /** Relays until the host sends no more, or `signal` says to stop, then ends the session. */
  async run(source: AsyncIterable<Buffer>, signal: AbortSignal): Promise<void> {
    const stopped = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await Promise.race([this.#relay(source), stopped]);
    // These do not end by themselves.
    for (const { message, isAnswered, controller } of this.#pending.values())
      if (isAnswered || message.method === LISTEN) controller.abort();
    const answers = Promise.all(this.#working);
    if (!signal.aborted) await Promise.race([answers, stopped, delay(LAST_ANSWERS_MS, null, { ref: false })]);
    this.#closing.abort();
    await this.#session.end();
    this.#options.target.close();
  }

  async #relay(source: AsyncIterable<Buffer>): Promise<void> {
    for await (const line of readLines(source, MAX_MESSAGE_BYTES)) {
      if (this.#closing.signal.aborted) return;
      await this.#take(line);
    }
  }

  async #take(line: Line): Promise<void> {
    const { output } = this.#options;
    if (line.kind === 'too long') {
      const message = `a message has more than ${MAX_MESSAGE_BYTES} bytes: it was not sent`;
      await output.insert(errorLine('null', INVALID_REQUEST, message));
      return;
    }
    // A carriage return before the line feed belongs to the end of the line.
    const text = decodeUtf8(line.bytes)?.replace(/\r$/, '') ?? null;
    if (text?.trim() === '') return;
    const value = text === null ? undefined : readJson(text);
    const message = text === null || value === undefined ? null : messageOf(text, value);
    if (message === null) {
      await output.insert(
        value === undefined
          ? errorLine('null', PARSE_ERROR, 'a line is not JSON: it was not sent')
          : errorLine(
              'null',
              INVALID_REQUEST,
              'a message is not an object (a batch, for example): it was not sent',
            ),
      );
      return;
    }
    await this.#send(message);
  }

  async #send(message: Message): Promise<void> {
    const { output, signer } = this.#options;
    if (message.id === null) {
      await this.#notify(message);
      return;
    }
    const text = [...this.#pending.values()].reduce((sum, pending) => sum + pending.message.text.length, 0);
    if (this.#pending.size >= MAX_IN_FLIGHT || text + message.text.length > MAX_TEXT_IN_FLIGHT) {
      const found = `${this.#pending.size} requests have no answer yet: this one was not sent`;
      await output.insert(errorLine(idTextOf(message), TRANSPORT_ERROR, found));
      return;
    }
    const outcome = await signer.sign(message);
    if (outcome.kind === 'refused') {
      await output.insert(outcome.answer);
      return;
    }
    const signed = outcome.kind === 'signed' ? outcome : { text: message.text, bundle: null };
    const done = this.#track(this.#request(message, signed.text, signed.bundle));
    // What comes next needs the session and the version.
    if (message.method === INITIALIZE) await done;
  }

  #track(work: Promise<void>): Promise<void> {
    const tracked = work.finally(() => this.#working.delete(tracked));
    this.#working.add(tracked);
    return tracked;
  }

  /** Sends a notification or a response. The messages after it wait until the server has taken it. */
  async #notify(message: Message): Promise<void> {
    const cancelled =
      message.method === CANCELLED ? this.#pending.get(keyOf(message.params['requestId'])) : undefined;
    // From version 2026-07-28 on, a client cancels by closing the stream.
    if (cancelled !== undefined && versionOf(cancelled.message) !== null) {
      cancelled.controller.abort();
      return;
    }
    const sent = this.#track(this.#post(message));
    await Promise.race([sent, delay(NOTIFICATION_MS, null, { ref: false })]);
    // Servers send no answer to a request that was cancelled, and may leave its stream open.
    cancelled?.controller.abort();
  }

  async #post(message: Message): Promise<void> {
    const { note } = this.#options;
    const what = message.method ?? 'an answer to the server';
    try {
      const response = await this.#session.post(message, message.text, null, this.#closing.signal);
      response.resume();
      const status = response.statusCode ?? 0;
      if (status >= 300) note(`the server answered ${what} with ${status}`);
      else if (message.method === INITIALIZED) void this.#readServerStream();
    } catch (error) {
      if (!this.#closing.signal.aborted) note(`${what} was not sent: ${(error as Error).message}`);
    }
  }

  async #request(message: Message, text: string, bundle: string | null): Promise<void> {
    const pending: Pending = { message, controller: new AbortController(), isAnswered: false };
    const key = keyOf(message.id);
    this.#pending.set(key, pending);
    const signal = AbortSignal.any([pending.controller.signal, this.#closing.signal]);
    try {
      const response = await this.#session.post(message, text, bundle, signal);
      const status = response.statusCode ?? 0;
      if (message.method === INITIALIZE && status < 300)
        this.#session.id = headerOf(response, 'mcp-session-id');
      await this.#read(response, pending, signal);
    } catch (error) {
      if (!signal.aborted) await this.#fail(pending, (error as Error).message);
    } finally {
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    }
  }

  async #read(response: IncomingMessage, pending: Pending, signal: AbortSignal): Promise<void> {
    const { output } = this.#options;
    const type = headerOf(response, 'content-type')?.split(';')[0]?.trim().toLowerCase();
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300 && type === 'text/event-stream') {
      await this.#readStream(response, pending, signal);
      return;
    }
    const body = await readAtMost(response, MAX_MESSAGE_BYTES);
    const text = body === null ? null : decodeUtf8(body);
    if (body === null) response.destroy();
    if (
      status >= 200 &&
      status < 300 &&
      type === 'application/json' &&
      text !== null &&
      readJson(text) !== undefined
    ) {
      this.#note(text, pending);
      await output.insert(oneLine(text));
      return;
    }
    pending.isAnswered = true;
    const hasSession = this.#session.id !== null;
    await output.insert(failureLine(pending.message, { response, text, hasSession }));
  }

  async #readStream(first: IncomingMessage, pending: Pending, signal: AbortSignal): Promise<void> {
    const position = newPosition();
    await this.#readMessages(first, position, pending);
    for (let failures = 0; !pending.isAnswered && position.lastEventId !== null && failures < MAX_RESUMES;) {
      await delay(waitBefore(position, failures), null, { signal });
      const response = await this.#session.resume(position, signal).catch(() => null);
      const count = response === null ? 0 : await this.#readMessages(response, position, pending);
      failures = count > 0 ? 0 : failures + 1;
    }
    if (!pending.isAnswered && !signal.aborted)
      await this.#fail(
        pending,
        'the connection ended before the answer; the server may have done what was asked',
      );
  }

  async #readMessages(
    response: IncomingMessage,
    position: StreamPosition,
    pending: Pending,
  ): Promise<number> {
    return readEvents(response, position, async (data) => {
      this.#note(data, pending);
      await this.#options.output.insert(oneLine(data));
      if (pending.isAnswered) setTimeout(() => response.destroy(), LAST_EVENTS_MS).unref();
    });
  }

  /** Reads what the server sends by itself, until the relay ends or the server has no such stream. */
  async #readServerStream(): Promise<void> {
    const { signal } = this.#closing;
    const position = newPosition();
    try {
      for (let failures = 0; failures < MAX_RESUMES;) {
        const response = await this.#session.resume(position, signal).catch(() => 'unreachable' as const);
        if (response === null) return;
        const count =
          response === 'unreachable'
            ? 0
            : await readEvents(response, position, (data) => this.#options.output.insert(oneLine(data)));
        failures = count > 0 ? 0 : failures + 1;
        await delay(waitBefore(position, failures), null, { signal });
      }
    } catch (error) {
      if (!signal.aborted) this.#options.note((error as Error).message);
    }
  }

  /** Takes from a message of the server what the relay must know. */
  #note(text: string, pending: Pending): void {
    const value = readJson(text);
    if (!isAnswerTo(value, pending.message.id)) return;
    pending.isAnswered = true;
    const result = value['result'];
    if (pending.message.method !== INITIALIZE || !isJsonObject(result)) return;
    const version = result['protocolVersion'];
    if (isVersion(version)) this.#session.version = version;
  }

  async #fail(pending: Pending, reason: string): Promise<void> {
    pending.isAnswered = true;
    await this.#options.output.insert(errorLine(idTextOf(pending.message), TRANSPORT_ERROR, reason));
  }
}

function keyOf(id: unknown): string {
  return `${typeof id}:${String(id)}`;
}
