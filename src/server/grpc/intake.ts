import { performance } from 'node:perf_hooks';
import type { ServerHttp2Stream } from 'node:http2';
import { status as Status, type ServerInterceptingCallInterface } from '@grpc/grpc-js';
import type { Admission } from '../admission.js';

// Of HTTP/2.
const NGHTTP2_NO_ERROR = 0;
const NGHTTP2_CANCEL = 8;
/** A flag, and the length of the message. */
const PREFIX_BYTES = 5;

/** What a call may take. */
export interface IntakeLimits {
  /** Milliseconds within which the message must have come. */
  readonly messageMs: number;
  /** Milliseconds more within which the answer must have gone. */
  readonly answerMs: number;
}

/** Told once for each call that is over: its status, `null` where the caller went away before there was one. */
export type CallEnded = (path: string, status: number | null, milliseconds: number) => void;

/**
 * Bounds what calls take before the library hands them on: the memory of messages that are still coming, the time that
 * they and their answers may take. One message, and not compressed: a small one could become a large one.
 */
export class CallIntake {
  readonly #admission: Admission;
  readonly #limits: IntakeLimits;
  readonly #ended: CallEnded;
  #open = 0;

  constructor(admission: Admission, limits: IntakeLimits, ended: CallEnded) {
    this.#admission = admission;
    this.#limits = limits;
    this.#ended = ended;
  }

  /** Calls that are not over. */
  get open(): number {
    return this.#open;
  }

  /** Watches a call, whose headers have just come, until it is over. */
  watch(path: string, call: ServerInterceptingCallInterface): void {
    const stream = streamOf(call);
    const startedAt = performance.now();
    const admission = this.#admission;
    const prefix = Buffer.alloc(PREFIX_BYTES);
    let held = 0;
    this.#open++;
    const refuse = (code: Status, details: string): void => {
      call.sendStatus({ code, details });
      // The status goes out first; then the caller is told to send no more.
      stream.close(NGHTTP2_NO_ERROR);
    };
    const giveBack = (): void => {
      admission.giveBuffer(held);
      held = 0;
    };
    let timer = setTimeout(
      () => refuse(Status.DEADLINE_EXCEEDED, 'the message did not come within REQUEST_TIMEOUT_SECS'),
      this.#limits.messageMs,
    );
    const take = (chunk: Buffer): void => {
      if (stream.closed) return;
      if (stream.headersSent) {
        // The library has refused the call, and would read on for as long as the caller sends.
        stream.close(NGHTTP2_NO_ERROR);
        return;
      }
      if (held < PREFIX_BYTES) chunk.copy(prefix, held);
      if (!admission.takeBuffer(chunk.length)) {
        refuse(Status.RESOURCE_EXHAUSTED, 'overloaded');
        return;
      }
      held += chunk.length;
      if (prefix[0] === 1) refuse(Status.UNIMPLEMENTED, 'compressed messages are not read here');
      else if (held > PREFIX_BYTES && held > PREFIX_BYTES + prefix.readUInt32BE(1))
        refuse(Status.UNIMPLEMENTED, 'there is more than one message, expected one');
    };
    // Before the library looks at it.
    stream.prependListener('data', take);
    stream.once('end', () => {
      giveBack();
      clearTimeout(timer);
      timer = setTimeout(() => stream.close(NGHTTP2_CANCEL), this.#limits.answerMs);
    });
    stream.once('close', () => {
      clearTimeout(timer);
      giveBack();
      this.#open--;
      this.#ended(path, statusOf(stream), performance.now() - startedAt);
    });
  }
}

/** The status that was sent: behind an answer, or without one. */
function statusOf(stream: ServerHttp2Stream): number | null {
  const sent: readonly (Readonly<Record<string, unknown>> | undefined)[] = [
    stream.sentTrailers,
    stream.sentHeaders,
  ];
  const status = sent.find((headers) => headers?.['grpc-status'] !== undefined)?.['grpc-status'];
  return status === undefined ? null : Number(status);
}

/**
 * The stream below a call. The library keeps it to itself, and has no other way to see the bytes of a message before all
 * of them are there. Its version is pinned; where another one has no such member, every call fails here.
 */
function streamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream {
  const stream: unknown = Reflect.get(call, 'stream');
  if (!isStream(stream)) throw new Error('this version of @grpc/grpc-js has no stream in its calls');
  return stream;
}

function isStream(value: unknown): value is ServerHttp2Stream {
  return typeof value === 'object' && value !== null && 'sentHeaders' in value && 'rstCode' in value;
}
