import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { base58 } from '@scure/base';
import { party, type Party } from '../support/chain.js';
import { newKeyPair } from '../support/key-pair.js';

/** A key of a document, under a name. */
export interface NamedKey {
  readonly name: string;
  readonly key: Party['key'];
  readonly multibase: string;
}

export function newKey(name: string): NamedKey {
  const { privateKey, bytes } = newKeyPair();
  return { name, key: privateKey, multibase: `z${base58.encode(Uint8Array.of(0xed, 0x01, ...bytes))}` };
}

/** A document with these keys. */
export function documentOf(did: string, keys: readonly NamedKey[], more: object = {}): string {
  const assertionMethod = keys.map(({ name, multibase }) => ({
    ...{ id: `${did}#${name}`, type: 'Multikey', controller: did },
    publicKeyMultibase: multibase,
  }));
  return JSON.stringify({ '@context': 'https://www.w3.org/ns/did/v1', id: did, assertionMethod, ...more });
}

/** A server of documents at `did:web:localhost…:name`. */
export class DocumentServer {
  /** Bodies by their names. */
  readonly documents = new Map<string, string>();
  readonly asked = new Map<string, number>();
  /** What answers in place of the documents. */
  respond: ((request: IncomingMessage, response: ServerResponse) => void) | null = null;
  /** What was answered. */
  readonly statuses: number[] = [];
  inFlight = 0;
  maxInFlight = 0;
  readonly #server = createServer((request, response) => {
    const name = /^\/(.*)\/did\.json$/.exec(request.url ?? '')?.[1] ?? '';
    this.asked.set(name, this.timesAsked(name) + 1);
    this.maxInFlight = Math.max(this.maxInFlight, ++this.inFlight);
    response.on('finish', () => this.statuses.push(response.statusCode)).on('close', () => this.inFlight--);
    if (this.respond === null) this.answer(name, response);
    else this.respond(request, response);
  });

  static async start(): Promise<DocumentServer> {
    const server = new DocumentServer();
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  answer(name: string, response: ServerResponse): void {
    const body = this.documents.get(name);
    if (body === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': 'application/did+json' }).end(body);
  }

  timesAsked(name: string): number {
    return this.asked.get(name) ?? 0;
  }

  didOf(name: string): string {
    return `did:web:localhost%3A${(this.#server.address() as AddressInfo).port}:${name}`;
  }

  /** Publishes keys under a name. @returns who signs with the first one */
  publish(name: string, ...keys: readonly NamedKey[]): Party {
    const did = this.didOf(name);
    this.documents.set(name, documentOf(did, keys));
    return { did, key: keys[0]?.key ?? party().key };
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
