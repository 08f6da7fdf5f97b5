import { Buffer } from 'node:buffer';
import { MAX_TYPICAL_BYTES } from '../load/admission.js';
import type { Work } from '../load/backlog.js';
import type { BodyFault } from './body-reader.js';
import type { Exchange } from './exchange.js';
import { clientOf } from '../load/rate-limit.js';
import type { RequestHead } from './request-head.js';
import type { RouteContext } from '../routes/routes.js';

/** Why a body is not passed on to its route. */
export type IntakeFault = BodyFault | 'shutting_down';

/** Receives the body or the fault. Called exactly once, or never if the client disconnects first. */
export type IntakeSink = (exchange: Exchange, body: Buffer | IntakeFault) => void;

/**
 * Reads the bodies of requests that need a verdict, within the limits of admission, and passes them on when their turn
 * comes; see {@link Backlog}.
 */
export class BodyIntake {
  readonly #context: Pick<RouteContext, 'admission' | 'configuration' | 'log'>;

  constructor(context: Pick<RouteContext, 'admission' | 'configuration' | 'log'>) {
    this.#context = context;
  }

  /** Reads a body. The sink must use it synchronously and must not keep a reference to it. */
  read(exchange: Exchange, { contentLength }: RequestHead, sink: IntakeSink): void {
    const { admission, configuration } = this.#context;
    const { maxBodyBytes, requestTimeoutSecs } = configuration;
    if (admission.isDraining) sink(exchange, 'shutting_down');
    else if (contentLength > maxBodyBytes) sink(exchange, 'too_large');
    else if (!admission.hasRoomFor(contentLength, exchange)) sink(exchange, 'overloaded');
    else {
      const rules = {
        memory: admission.memory,
        maxBytes: maxBodyBytes,
        announcedBytes: contentLength,
        timeoutMs: requestTimeoutSecs * 1000,
      };
      exchange.readBody(rules, (body) => {
        if (typeof body === 'string') this.#hand(sink, exchange, body);
        else this.admit(exchange, body, sink);
      });
    }
  }

  /**
   * Passes a body on at once if the main thread has time, and later if not. If it has waited too long, passes on
   * `overloaded` instead.
   *
   * @param body up to {@link MAX_TYPICAL_BYTES}: valid during the call; larger: until `exchange.releaseBody()`
   */
  admit(exchange: Exchange, body: Buffer, sink: IntakeSink): void {
    const { admission } = this.#context;
    const isLarge = body.length > MAX_TYPICAL_BYTES;
    if (!isLarge && admission.hasTime()) {
      this.#hand(sink, exchange, body);
      return;
    }
    const kept = isLarge ? body : Buffer.from(body);
    const work: Work = (isLate) => {
      if (!exchange.isOver) this.#hand(sink, exchange, isLate ? 'overloaded' : kept);
    };
    if (isLarge) admission.waitAlone(work);
    else if (!admission.wait(clientOf(exchange.clientAddress), kept.length, work))
      this.#hand(sink, exchange, 'overloaded');
  }

  /** Calls a sink and catches its errors. No caller above would catch them, so they would end the process. */
  #hand(sink: IntakeSink, exchange: Exchange, body: Buffer | IntakeFault): void {
    try {
      sink(exchange, body);
    } catch (error) {
      this.#context.log.error({ err: error }, 'a request failed inside the service');
      exchange.refuse(500, 'internal');
    }
  }
}
