import { performance } from 'node:perf_hooks';
import type { ServerHttp2Stream } from 'node:http2';
import { status as Status, type ServerInterceptingCallInterface } from '@grpc/grpc-js';
import type { BodyMemory } from '../load/admission.js';
import { clientOf } from '../load/rate-limit.js';
import type { Rejection } from '../observe/metrics/metrics.js';

// Error codes of HTTP/2.
const NGHTTP2_NO_ERROR = 0;
const NGHTTP2_CANCEL = 8;
/** What comes before a message: one byte that says whether it is compressed, and its length in four. */
const PREFIX_BYTES = 5;

/** How long a call may take. */
export interface IntakeLimits {
  /** Milliseconds for the message to arrive. */
  readonly messageMs: number;
  /** Milliseconds after that for the answer to be sent. */
  readonly answerMs: number;
}

/** A call that has ended. */
export interface EndedCall {
  readonly path: string;
  /** `null` if the caller went away before there was one. */
  readonly status: number | null;
  readonly milliseconds: number;
  /** Why its message was not passed on; else `null`. */
  readonly rejection: Rejection | null;
}

/**
 * Limits calls before the library passes them on: the memory of messages that are still arriving, and the time for
 * message and answer. A call has one message. It must not be compressed: a small one could expand to a large one.
 */
export class CallIntake {
  readonly #memory: BodyMemory;
  readonly #limits: IntakeLimits;
  readonly #ended: (call: EndedCall) => void;
  #open = 0;

  /** @param ended called once for each call */
  constructor(memory: BodyMemory, limits: IntakeLimits, ended: (call: EndedCall) => void) {
    this.#memory = memory;
    this.#limits = limits;
    this.#ended = ended;
  }

  /** Number of open calls. */
  get open(): number {
    return this.#open;
  }

  /**
   * Watches a call from its headers, which have just arrived, to its end.
   *
   * @param client who sends the message, as {@link clientOfPeer} names it
   */
  watch(path: string, client: string, call: ServerInterceptingCallInterface): void {
    const stream = streamOf(call);
    const startedAt = performance.now();
    const reservation = this.#memory.reserve(client);
    const prefix = Buffer.alloc(PREFIX_BYTES);
    let received = 0;
    this.#open++;
    let rejection: Rejection | null = null;
    const refuse = (reason: Rejection, code: Status, details: string): void => {
      rejection = reason;
      call.sendStatus({ code, details });
      // The status goes out first; then the caller is told to send no more.
      stream.close(NGHTTP2_NO_ERROR);
    };
    let timer = setTimeout(
      () =>
        refuse('timeout', Status.DEADLINE_EXCEEDED, 'the message did not come within REQUEST_TIMEOUT_SECS'),
      this.#limits.messageMs,
    );
    const take = (chunk: Buffer): void => {
      if (stream.closed) return;
      if (stream.headersSent) {
        // The library has refused the call, but would go on reading while the caller sends.
        stream.close(NGHTTP2_NO_ERROR);
        return;
      }
      if (received < PREFIX_BYTES) chunk.copy(prefix, received);
      if (!reservation.take(chunk.length)) {
        refuse('overloaded', Status.RESOURCE_EXHAUSTED, 'overloaded');
        return;
      }
      received += chunk.length;
      if (prefix[0] === 1)
        refuse('malformed', Status.UNIMPLEMENTED, 'the message is compressed, expected it uncompressed');
      else if (received > PREFIX_BYTES && received > PREFIX_BYTES + prefix.readUInt32BE(1))
        refuse('malformed', Status.UNIMPLEMENTED, 'there is more than one message, expected one');
    };
    // This listener runs before the library's.
    stream.prependListener('data', take);
    stream.once('end', () => {
      reservation.release();
      clearTimeout(timer);
      timer = setTimeout(() => stream.close(NGHTTP2_CANCEL), this.#limits.answerMs);
    });
    stream.once('close', () => {
      clearTimeout(timer);
      reservation.release();
      this.#open--;
      const status = statusOf(stream);
      // Nothing but the library's limit on a message ends a call that way.
      if (status === Status.RESOURCE_EXHAUSTED) rejection ??= 'too_large';
      this.#ended({ path, status, milliseconds: performance.now() - startedAt, rejection });
    });
  }
}

/** The client at the other end of a connection. @param peer its address and port, as the library writes them */
export function clientOfPeer(peer: string): string {
  return clientOf(peer.slice(0, peer.lastIndexOf(':')));
}

/** The status that was sent: in the trailers after an answer, or in the headers if there was no answer. */
function statusOf(stream: ServerHttp2Stream): number | null {
  const sent: readonly (Readonly<Record<string, unknown>> | undefined)[] = [
    stream.sentTrailers,
    stream.sentHeaders,
  ];
  const status = sent.find((headers) => headers?.['grpc-status'] !== undefined)?.['grpc-status'];
  return status === undefined ? null : Number(status);
}

/**
 * The HTTP/2 stream of a call. It is private in the library, but there is no other way to see the bytes of a message
 * before it is complete. The library's version is pinned. In a version without this member, every call would fail here.
 */
function streamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream {
  const stream: unknown = Reflect.get(call, 'stream');
  if (!isStream(stream)) throw new Error('this version of @grpc/grpc-js has no stream in its calls');
  return stream;
}

function isStream(value: unknown): value is ServerHttp2Stream {
  return typeof value === 'object' && value !== null && 'sentHeaders' in value && 'rstCode' in value;
}
