import { Buffer } from 'node:buffer';
import type { Ticket } from '../load/gatekeeper.js';

/** Why a body could not be read. A body in too many pieces is `too_large`. `gone`: the client has disconnected. */
export type BodyFault = 'too_large' | 'overloaded' | 'timeout' | 'gone';

/** The limits for reading a body. */
export interface BodyRules {
  /** Grows with the body; `null` if the body is discarded. */
  readonly ticket: Pick<Ticket, 'grow'> | null;
  readonly maxBytes: number;
  /** When the body must be complete, in milliseconds of `performance.now()`. */
  readonly endsAt: number;
}

/** What V8 needs for a piece beside its bytes: a body of many tiny ones takes no more memory than is counted. */
const BYTES_PER_PIECE = 512;
/** Each piece takes some 200 ns, however small it is. */
export const MAX_PIECES = 65_536;
const WAKE_MS = 4000;

/** Assembles or discards a body that comes in pieces. */
export type BodyReader = ReturnType<typeof openBodyReader>;

/**
 * Assembles or discards a body. Holds what has arrived: a client that announces much and sends little takes little.
 *
 * @param done is given the body or the fault. `stop` must follow
 * @param keepOpen called every few seconds, so that the front end does not close a slow connection
 */
export function openBodyReader(
  { ticket, maxBytes, endsAt }: BodyRules,
  done: (body: Buffer | BodyFault) => void,
  keepOpen: () => void,
) {
  const kept: Buffer[] = [];
  let [pieces, length] = [0, 0];
  let timer: NodeJS.Timeout | undefined;
  const wait = (): void => {
    const left = endsAt - performance.now();
    const wake = () => {
      keepOpen();
      wait();
    };
    if (left <= 0) done('timeout');
    else timer = setTimeout(wake, Math.min(left, WAKE_MS));
  };
  wait();
  return {
    /** Appends a piece. Copies it, since the piece is only valid during the call. */
    take(chunk: Buffer, isLast: boolean): void {
      length += chunk.length;
      if (length > maxBytes || ++pieces > MAX_PIECES) done('too_large');
      else if (ticket?.grow(chunk.length + BYTES_PER_PIECE) === false) done('overloaded');
      else {
        if (ticket !== null) {
          // Not `Buffer.from`: a tiny piece would keep 8 KiB that others share.
          const piece = Buffer.allocUnsafeSlow(chunk.length);
          piece.set(chunk);
          kept.push(piece);
        }
        if (isLast) done(Buffer.concat(kept));
      }
    },
    /** Waits for nothing any more. */
    stop: () => clearTimeout(timer),
  };
}
