import { MAX_TYPICAL_BYTES } from './admission.js';
import type { BodyFault } from './body-reader.js';
import type { Exchange } from './exchange.js';
import type { RequestHead } from './request-head.js';
import type { RouteContext } from './routes.js';

/** Why a body is not handed on. */
export type IntakeFault = BodyFault | 'shutting_down';

/** Takes a body, or why there is none; exactly once, unless the client goes away before. */
export type IntakeSink = (exchange: Exchange, body: Buffer | IntakeFault) => void;

/**
 * Reads the bodies of requests for a verdict, however they come: bounded, counted, and only where there is room. Large ones
 * take turns, whatever route they are for.
 */
export class BodyIntake {
  readonly #context: Pick<RouteContext, 'admission' | 'configuration' | 'log'>;

  constructor(context: Pick<RouteContext, 'admission' | 'configuration' | 'log'>) {
    this.#context = context;
  }

  /** Reads a body. The sink must use it before it returns, and may keep nothing of it. */
  read(exchange: Exchange, { contentLength }: RequestHead, sink: IntakeSink): void {
    const { admission, configuration } = this.#context;
    const { maxBodyBytes, requestTimeoutSecs } = configuration;
    if (admission.isDraining) sink(exchange, 'shutting_down');
    else if (contentLength > maxBodyBytes) sink(exchange, 'too_large');
    else if (!admission.hasRoomFor(contentLength)) sink(exchange, 'overloaded');
    else {
      const rules = {
        admission,
        maxBytes: maxBodyBytes,
        announcedBytes: contentLength,
        timeoutMs: requestTimeoutSecs * 1000,
      };
      exchange.readBody(rules, (body) => {
        if (typeof body === 'string' || body.length <= MAX_TYPICAL_BYTES) this.#hand(sink, exchange, body);
        else
          admission.turns.add((isLate) => {
            if (!exchange.isOver) this.#hand(sink, exchange, isLate ? 'overloaded' : body);
          });
      });
    }
  }

  /** Nobody above catches what a sink throws here: it would end the process. */
  #hand(sink: IntakeSink, exchange: Exchange, body: Buffer | IntakeFault): void {
    try {
      sink(exchange, body);
    } catch (error) {
      this.#context.log.error({ err: error }, 'a request failed inside the service');
      exchange.refuse(500, 'internal');
    }
  }
}
