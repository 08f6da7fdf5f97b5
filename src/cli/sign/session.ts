import type { IncomingMessage } from 'node:http';
import { BUNDLE_HEADER, MAX_HEADER_BUNDLE } from '../../gate/carriers.js';
import { encodeNameHeader } from '../../gate/context.js';
import { subjectOf } from '../../gate/mcp-methods.js';
import { isJsonObject } from '../../protocol/json.js';
import type { StreamPosition } from './event-stream.js';
import type { HttpTarget } from './exchange.js';
import type { Message } from './message.js';

const DELETE_MS = 2000;
/** The member of `_meta` by which requests from version 2026-07-28 on name the version of the protocol. */
const VERSION_META = 'io.modelcontextprotocol/protocolVersion';

/** The requests of one client to a server over Streamable HTTP, with what the server wants to see again in each. */
export class McpSession {
  readonly #target: HttpTarget;
  readonly #own: Readonly<Record<string, string>>;
  /** Of the versions before 2026-07-28. */
  id: string | null = null;
  version: string | null = null;

  /** @param own more headers of each request */
  constructor(target: HttpTarget, own: Readonly<Record<string, string>>) {
    this.#target = target;
    this.#own = own;
  }

  /** Sends a message. */
  post(message: Message, body: string, bundle: string | null, signal: AbortSignal): Promise<IncomingMessage> {
    const headers: Record<string, string> = {
      ...this.#headers(),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    };
    const version = versionOf(message);
    if (version !== null && message.method !== undefined) {
      headers['mcp-protocol-version'] = version;
      headers['mcp-method'] = encodeNameHeader(message.method);
      const name = subjectOf(message.method, message.params);
      if (typeof name === 'string') headers['mcp-name'] = encodeNameHeader(name);
    }
    if (bundle !== null && bundle.length <= MAX_HEADER_BUNDLE) headers[BUNDLE_HEADER] = bundle;
    return this.#target.exchange({ method: 'POST', headers, body, signal });
  }

  /** Continues a stream after its last event; `null` if the server does not. */
  async resume(position: StreamPosition, signal: AbortSignal): Promise<IncomingMessage | null> {
    const last = position.lastEventId === null ? {} : { 'last-event-id': position.lastEventId };
    const headers = { ...this.#headers(), accept: 'text/event-stream', ...last };
    const response = await this.#target.exchange({ method: 'GET', headers, signal });
    const isStream =
      headerOf(response, 'content-type')?.toLowerCase().startsWith('text/event-stream') === true;
    if (response.statusCode === 200 && isStream) return response;
    response.resume();
    return null;
  }

  /** Tells the server that the session is over, if there is one. */
  async end(): Promise<void> {
    if (this.id === null) return;
    const signal = AbortSignal.timeout(DELETE_MS);
    const response = await this.#target
      .exchange({ method: 'DELETE', headers: this.#headers(), signal })
      .catch(() => null);
    response?.resume();
  }

  #headers(): Record<string, string> {
    return {
      ...this.#own,
      ...(this.id === null ? {} : { 'mcp-session-id': this.id }),
      ...(this.version === null ? {} : { 'mcp-protocol-version': this.version }),
    };
  }
}

/** The value of a header that came once; else `null`. */
export function headerOf(response: IncomingMessage, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : null;
}

/** The version of the protocol that a message names itself, as messages do from 2026-07-28 on. */
export function versionOf({ params }: Message): string | null {
  const meta = params['_meta'];
  const version = isJsonObject(meta) ? meta[VERSION_META] : undefined;
  return isVersion(version) ? version : null;
}

/** Whether a value can be the version of a protocol in a header. */
export function isVersion(value: unknown): value is string {
  return typeof value === 'string' && /^[\w.-]+$/.test(value);
}
