import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import protobuf from 'protobufjs';
import { readHeaders, type HeaderMap } from '../../gate/request.js';

/** Reads and writes the messages of `messages.proto`. */

const { root } = protobuf.parse(
  readFileSync(createRequire(import.meta.url).resolve('#grpc-messages'), 'utf8'),
);

/** A header as a gateway sends it, or an entry of a map. A member that was not sent is empty, or `null`. */
export interface WireHeader {
  readonly key: string;
  readonly value: Buffer | null;
  readonly rawValue: Buffer | null;
}

/** Reads the headers of a request: values as Latin-1, as `node:http` decodes them. */
export function readSentHeaders(sent: readonly WireHeader[]): HeaderMap {
  return readHeaders(
    sent.map(({ key, value, rawValue }) => {
      const bytes = rawValue !== null && rawValue.length > 0 ? rawValue : value;
      return [key, bytes?.toString('latin1') ?? ''] as const;
    }),
  );
}

interface Messages {
  readonly CheckRequest: {
    readonly attributes: {
      readonly request: {
        readonly http: {
          readonly method: string;
          readonly path: string;
          readonly query: string;
          readonly headers: readonly WireHeader[];
          readonly body: Buffer | null;
          readonly rawBody: Buffer | null;
          readonly headerMap: { readonly headers: readonly WireHeader[] } | null;
        } | null;
      } | null;
      readonly contextExtensions: readonly WireHeader[];
    } | null;
  };
  readonly HealthCheckRequest: { readonly service: string };
}

/** The most that a question holds besides the body, such as headers. HTTP has the same limit on headers. */
export const MAX_BESIDES_BYTES = 64 * 1024;
/**
 * Tags and lengths in a message. A header takes six of them. Without this limit, half a million empty headers fit into a
 * message, and take 0.1 s of the main thread.
 */
const MAX_NUMBERS = 10_000;

class BoundedReader extends protobuf.BufferReader {
  #numbers = 0;

  /** Reads a tag or a length. */
  override uint32(): number {
    if (++this.#numbers > MAX_NUMBERS)
      throw new Error(
        `the message has more than ${MAX_NUMBERS} tags and lengths: have the gateway send fewer headers`,
      );
    return super.uint32();
  }
}

/** @throws Error if the bytes are no such message, or have more parts than a gateway sends */
export function readMessage<Name extends keyof Messages>(name: Name, bytes: Buffer): Messages[Name] {
  return root.lookupType(name).decode(new BoundedReader(bytes)) as unknown as Messages[Name];
}

/** @param message its members are those of `messages.proto` in camel case; others are left out */
export function writeMessage(name: string, message: object): Buffer {
  return root.lookupType(name).encode(message).finish() as Buffer;
}
