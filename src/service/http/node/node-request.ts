import { Buffer } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { HttpRequest } from '../front-end.js';

/** The head of a request from `node:http`. */
export class NodeRequest implements HttpRequest {
  readonly #message: IncomingMessage;

  constructor(message: IncomingMessage) {
    this.#message = message;
  }

  getCaseSensitiveMethod(): string {
    return this.#message.method ?? '';
  }

  getUrl(): string {
    const { url = '' } = this.#message;
    const end = url.indexOf('?');
    return end === -1 ? url : url.slice(0, end);
  }

  getQuery(): string | undefined {
    const { url = '' } = this.#message;
    const end = url.indexOf('?');
    return end === -1 ? undefined : url.slice(end + 1);
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

/** Decodes a header as UTF-8, as uWebSockets.js does. Node decodes headers as Latin-1. */
function decode(value: string): string {
  return /[^\x00-\x7f]/.test(value) ? Buffer.from(value, 'latin1').toString('utf8') : value;
}
