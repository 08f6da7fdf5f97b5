import { Buffer } from 'node:buffer';
import type { Readable, Writable } from 'node:stream';
import type { Logger } from 'pino';
import { gateFailure, type GateFailure } from '../../gate/codes.js';
import { denied } from '../../gate/decide.js';
import { forwardMcp, type HandedOn } from '../../gate/mcp-forward.js';
import type { GateRequest } from '../../gate/request.js';
import { responseTo } from '../../gate/response.js';
import { idInUse } from '../../gate/task-owners.js';
import { hasMoreNodes, isJsonObject, type JsonObject } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { newRequestId } from '../http/request-ids.js';
import { wholeContextOf, type GateDecider, type GateDecision } from '../gate-decider.js';
import { Lines, type Piece } from '../../stdio/lines.js';
import { ServerSide } from './server-side.js';
import { write } from '../../stdio/write.js';

/** What a {@link StdioGuard} needs. */
export interface StdioGuardParts {
  readonly decider: Pick<GateDecider, 'decide'>;
  readonly maxBodyBytes: number;
  /** What the server's answer to a handshake gets: that it needs delegations. */
  readonly announcement: object;
  readonly log: Logger;
}

/** The four streams between which a guard stands. */
export interface StdioStreams {
  readonly fromClient: Readable;
  readonly toClient: Writable;
  readonly fromServer: Readable;
  readonly toServer: Writable;
}

const NO_HEADERS = (): readonly string[] => [];
const BLANK = /^[ \t\r]*$/;

/**
 * The gate between a client and a server that speak MCP over stdio: one JSON-RPC message a line. Messages of the client are
 * decided on one after the other, so that none overtakes another. Those of the server pass as they are.
 */
export class StdioGuard {
  readonly #parts: StdioGuardParts;
  readonly #streams: StdioStreams;
  readonly #server: ServerSide;

  constructor(parts: StdioGuardParts, streams: StdioStreams) {
    this.#parts = parts;
    this.#streams = streams;
    this.#server = new ServerSide(streams.toClient, parts.maxBodyBytes, parts.announcement);
  }

  /** Passes messages of the client on until it closes its side; then closes that of the server. */
  async serveClient(): Promise<void> {
    const { fromClient, toServer } = this.#streams;
    const lines = new Lines(this.#parts.maxBodyBytes);
    toServer.on('error', () => fromClient.destroy());
    try {
      for await (const chunk of fromClient as AsyncIterable<Buffer>)
        for (const piece of lines.push(chunk)) await this.#take(piece);
      await this.#take({ kind: 'line', bytes: lines.end() });
    } catch (error) {
      // There is nobody to write to. The end of the server says why.
      if (!toServer.destroyed) throw error;
    }
    toServer.end();
  }

  /** Passes what the server says on until it closes its side. */
  async serveServer(): Promise<void> {
    const { fromServer } = this.#streams;
    try {
      for await (const chunk of fromServer as AsyncIterable<Buffer>) await this.#server.take(chunk);
    } catch (error) {
      // It was closed here, because the server has ended without closing it.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
    }
    await this.#server.end();
  }

  async #take(piece: Piece): Promise<void> {
    if (piece.kind === 'rest') return;
    if (piece.kind === 'long') {
      const reason = `the line is longer than MAX_BODY_BYTES (${this.#parts.maxBodyBytes})`;
      await this.#carryOut(await this.#decide({ kind: 'too large', reason }, null), null, '');
      return;
    }
    const text = decodeUtf8(piece.bytes);
    if (text === null) {
      await this.#refuse(gateFailure('INVALID_JSONRPC', 'mcp', 'the line is not UTF-8'), null);
      return;
    }
    // White space is no message.
    if (BLANK.test(text)) return;
    const message = readMessage(text);
    const request = requestOf(message);
    if (request !== null && this.#server.isDue(request.id)) {
      await this.#refuse(idInUse(request.id), request.id);
      return;
    }
    const decision = await this.#decide({ kind: 'text', text }, message);
    await this.#carryOut(decision, message, text);
  }

  #decide(body: GateRequest['body'], message: JsonObject | null): Promise<GateDecision> {
    return this.#parts.decider.decide({
      ...({ protocol: 'mcp', endpoint: 'gate' } as const),
      asked: { endpoint: 'gate', traceparent: null, code: null, address: null, requestId: newRequestId() },
      request: { method: 'POST', path: null, headers: NO_HEADERS, mayLackHeaders: true, body },
      findFault: ({ root_principal }) => this.#server.tasks.findFault(message ?? {}, root_principal),
    });
  }

  async #carryOut(decision: GateDecision, message: JsonObject | null, text: string): Promise<void> {
    if (decision.kind === 'deny') {
      await this.#answer(decision.code, decision.response.body, message);
      return;
    }
    const request = requestOf(message);
    const handedOn: HandedOn | null =
      decision.kind === 'allow' ? { context: wholeContextOf(decision), token: decision.token } : null;
    const line = lineOf(text, handedOn);
    if (line === null) {
      await this.#refuse(
        gateFailure('INVALID_JSONRPC', 'mcp', 'the message nests too deep'),
        request?.id ?? null,
      );
      return;
    }
    if (request !== null) this.#server.expect(request.id, request.method, handedOn?.context ?? null);
    await write(this.#streams.toServer, line);
  }

  async #refuse(failure: GateFailure, id: string | number | null): Promise<void> {
    const { body } = responseTo(denied({ protocol: 'mcp', id, requested: null }, failure));
    await this.#answer(failure.code, body, null);
  }

  /** Answers with an error; not to a notification, which has no answer. */
  async #answer(code: string, body: object, message: JsonObject | null): Promise<void> {
    if (typeof message?.['method'] === 'string' && !Object.hasOwn(message, 'id'))
      this.#parts.log.warn({ code }, 'dropped a notification');
    else await this.#server.answer(JSON.stringify(body));
  }
}

/** What the server gets; `null` if that cannot be written. */
function lineOf(text: string, handedOn: HandedOn | null): string | null {
  try {
    // It can only be white space: to some servers a carriage return ends a line, and what follows would be a message of
    // its own.
    return `${forwardMcp(text, handedOn).replaceAll('\r', ' ')}\n`;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** The message in a line, as far as it is one; the gate has the last word. */
function readMessage(text: string): JsonObject | null {
  if (hasMoreNodes(text)) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** The id and the method of a request; `null` of everything else. */
function requestOf(
  message: JsonObject | null,
): { readonly id: string | number; readonly method: string } | null {
  if (message === null || !Object.hasOwn(message, 'id')) return null;
  const { id, method } = message;
  if (typeof method !== 'string' || (typeof id !== 'string' && typeof id !== 'number')) return null;
  return { id, method };
}
