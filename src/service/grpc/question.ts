import type { Protocol } from '../../gate/codes.js';
import type { GateRequest } from '../../gate/request.js';
import type { HeaderSource } from '../http/request-head.js';
import type { WireHeader } from './messages.js';

/** A gateway's question, as a request to the gate. */
export interface Question {
  readonly protocol: Protocol;
  readonly request: GateRequest;
  /** The id of the request that the question is about. */
  readonly requestId: string | null;
  readonly traceparent: string | null;
}

/** The headers of a request, decoded once: names in lower case, values as Latin-1, as `node:http` decodes them. */
export class WireHeaders implements HeaderSource {
  readonly #pairs: readonly (readonly [name: string, value: string])[];

  constructor(...lists: readonly (readonly WireHeader[])[]) {
    this.#pairs = lists.flat().map(({ key, value, rawValue }) => {
      const bytes = rawValue !== undefined && rawValue.length > 0 ? rawValue : value;
      return [key.toLowerCase(), bufferOf(bytes).toString('latin1')];
    });
  }

  forEach(visit: (name: string, value: string) => void): void {
    for (const [name, value] of this.#pairs) visit(name, value);
  }

  /** The only value of a header; `null` if it is missing or comes more than once. */
  only(wanted: string): string | null {
    const values = this.#pairs.filter(([name]) => name === wanted);
    return values.length === 1 ? (values[0]?.[1] ?? null) : null;
  }
}

const NOTHING = Buffer.alloc(0);

/** The bytes as a Buffer, without a copy. For an absent field, the library has an array of another type. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return bytes.length === 0 ? NOTHING : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
