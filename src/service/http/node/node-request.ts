import { Buffer } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { HttpRequest } from '../front-end.js';

/** The head of a request from `node:http`. */
export class NodeRequest implements HttpRequest {
  readonly #message: IncomingMessage;
  readonly #target: string;

  constructor(message: IncomingMessage) {
    this.#message = message;
    this.#target = originForm(message.url ?? '');
  }

  getCaseSensitiveMethod(): string {
    return this.#message.method ?? '';
  }

  getUrl(): string {
    const end = this.#target.indexOf('?');
    return end === -1 ? this.#target : this.#target.slice(0, end);
  }

  getQuery(): string | undefined {
    const end = this.#target.indexOf('?');
    return end === -1 ? undefined : this.#target.slice(end + 1);
  }

  getHeader(name: string): string {
    // Not `headers`, which joins some repeated headers and drops others.
    const { rawHeaders } = this.#message;
    for (let at = 0; at + 1 < rawHeaders.length; at += 2)
      if (rawHeaders[at]?.toLowerCase() === name) return decode(rawHeaders[at + 1] ?? '');
    return '';
  }

  forEach(visit: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#message;
    for (let at = 0; at + 1 < rawHeaders.length; at += 2)
      visit((rawHeaders[at] ?? '').toLowerCase(), decode(rawHeaders[at + 1] ?? ''));
  }
}

// Host and port. A user before them (`user@host`) is refused: RFC 9110 §4.2.4.
const ORIGIN = /^https?:\/\/(?:[\w.-]+|\[[\d.:a-f]+\])(?::\d*)?(?=[/?]|$)/i;

/**
 * Path and query of a target, also of one in absolute form, which a server must accept (RFC 9112 §3.2.2). Its host replaces that of
 * `Host`; the service reads neither. Any other target stays as it is, and is an unknown path.
 */
function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const origin = ORIGIN.exec(target)?.[0];
  if (origin === undefined) return target;
  const rest = target.slice(origin.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** Decodes a header as UTF-8, as uWebSockets.js does. Node decodes headers as Latin-1. */
function decode(value: string): string {
  return /[^\x00-\x7f]/.test(value) ? Buffer.from(value, 'latin1').toString('utf8') : value;
}
