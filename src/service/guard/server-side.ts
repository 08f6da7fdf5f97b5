import { Buffer } from 'node:buffer';
import type { Writable } from 'node:stream';
import { CAPABILITY } from '../../gate/mcp.js';
import type { BriefContext } from '../../gate/context.js';
import { MCP_COMMAND } from '../../gate/mcp-methods.js';
import { TaskOwners } from '../../gate/task-owners.js';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { Lines } from '../../stdio/lines.js';
import { write } from '../../stdio/write.js';

/** So many calls are remembered until they are answered; the oldest is forgotten first. */
const MAX_DUE = 10_000;
/** So many answers of the guard wait for the end of a line; then the client is not read until it comes. */
const MAX_HELD = 1000;
const LINE_FEED = Buffer.from('\n');
/** The requests whose answers have the capabilities of the server. */
const HANDSHAKES: ReadonlySet<string> = new Set(['initialize', 'server/discover']);

/** A request whose answer is due. */
type Due = { readonly kind: 'handshake' } | { readonly kind: 'call'; readonly context: BriefContext };

/**
 * The way from the server to the client. What the server writes passes byte for byte, but for one member in the answer to a
 * handshake. The answers to calls tell who has started which task.
 */
export class ServerSide {
  readonly tasks = new TaskOwners();
  readonly #client: Writable;
  readonly #announcement: object;
  readonly #lines: Lines;
  /** By id, as JSON. */
  readonly #due = new Map<string, Due>();
  /** Of the guard, for the end of the line that the server is writing. */
  #answers: string[] = [];
  #onLineEnd: () => void = () => undefined;

  /** @param maxBytes of the longest line that is read; longer ones pass unread */
  constructor(client: Writable, maxBytes: number, announcement: object) {
    this.#client = client;
    this.#lines = new Lines(maxBytes);
    this.#announcement = announcement;
  }

  /** Whether a call has this id whose answer is due. */
  isDue(id: string | number): boolean {
    return this.#due.get(JSON.stringify(id))?.kind === 'call';
  }

  /**
   * Says that a request is sent to the server.
   *
   * @param context of an allowed call; `null` if the request passes
   */
  expect(id: string | number, method: string, context: BriefContext | null): void {
    if (context === null && !HANDSHAKES.has(method)) return;
    this.#due.set(JSON.stringify(id), context === null ? { kind: 'handshake' } : { kind: 'call', context });
    if (this.#due.size <= MAX_DUE) return;
    const [oldest] = this.#due.keys();
    if (oldest !== undefined) this.#due.delete(oldest);
  }

  /** Passes on what the server has written. */
  async take(chunk: Buffer): Promise<void> {
    for (const piece of this.#lines.push(chunk)) {
      if (piece.kind !== 'line') await write(this.#client, Buffer.from(piece.bytes));
      else await write(this.#client, Buffer.concat([this.#read(piece.bytes), LINE_FEED]));
      if (piece.kind === 'line' || (piece.kind === 'rest' && piece.ends)) await this.#writeAnswers();
    }
  }

  /** Passes on a last line that no line feed ends. */
  async end(): Promise<void> {
    const rest = this.#lines.end();
    if (rest.length > 0) await write(this.#client, rest);
    this.#onLineEnd();
  }

  /** Answers the client instead of the server, between two lines of the server. Resolves when the next answer may come. */
  async answer(line: string): Promise<void> {
    this.#answers.push(`${line}\n`);
    if (!this.#lines.isWithinLine) await this.#writeAnswers();
    else if (this.#answers.length >= MAX_HELD)
      await new Promise<void>((resolve) => (this.#onLineEnd = resolve));
  }

  async #writeAnswers(): Promise<void> {
    for (const line of this.#answers.splice(0)) await write(this.#client, line);
    this.#onLineEnd();
  }

  /** Looks at a line, and returns what the client gets of it. */
  #read(line: Buffer): Buffer {
    if (this.#due.size === 0) return line;
    let value: unknown;
    try {
      value = JSON.parse(line.toString('utf8'));
    } catch {
      return line;
    }
    if (Array.isArray(value)) {
      for (const item of value) this.#settle(item);
      return line;
    }
    const isAnswer = isJsonObject(value) && this.#settle(value) === 'handshake';
    return isAnswer ? (this.#announce(value as JsonObject) ?? line) : line;
  }

  /** Ends what is due, if this is its answer. */
  #settle(message: unknown): Due['kind'] | null {
    if (!isJsonObject(message) || Object.hasOwn(message, 'method')) return null;
    const id = JSON.stringify(message['id']);
    const due = this.#due.get(id);
    if (due === undefined) return null;
    this.#due.delete(id);
    if (due.kind === 'call' && due.context.command === MCP_COMMAND)
      this.tasks.record(message['result'], due.context.root_principal);
    return due.kind;
  }

  /** Adds to the capabilities that calls need delegations; `null` if there are none, or if the server has said so. */
  #announce(message: JsonObject): Buffer | null {
    const { result } = message;
    const capabilities = isJsonObject(result) ? result['capabilities'] : undefined;
    if (!isJsonObject(result) || !isJsonObject(capabilities)) return null;
    const given = isJsonObject(capabilities['experimental']) ? capabilities['experimental'] : {};
    if (Object.hasOwn(given, CAPABILITY)) return null;
    const experimental = { ...given, [CAPABILITY]: this.#announcement };
    return Buffer.from(
      JSON.stringify({ ...message, result: { ...result, capabilities: { ...capabilities, experimental } } }),
    );
  }
}
