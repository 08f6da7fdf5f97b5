import { MAX_TYPICAL_BYTES } from './admission.js';
import type { BodyFault } from './body-reader.js';
import type { Exchange } from './exchange.js';
import type { RequestHead } from './request-head.js';
import type { RouteContext } from './routes.js';

// Large bodies wait for their turns; dozens of them can be in memory. A body that has waited this long is refused.
const MAX_LARGE_WAIT_MS = 1000;

/** Why a body is not passed on to its route. */
export type IntakeFault = BodyFault | 'shutting_down';

/** Receives the body or the fault. Called exactly once, or never if the client disconnects first. */
export type IntakeSink = (exchange: Exchange, body: Buffer | IntakeFault) => void;

interface LargeBody {
  readonly exchange: Exchange;
  readonly body: Buffer;
  readonly sink: IntakeSink;
  /** When the body was complete, in milliseconds of `performance.now()`. */
  readonly at: number;
}

/**
 * Reads the bodies of requests that need a verdict, within the limits of admission. Large bodies are passed on one
 * per turn of the event loop, for all routes together.
 */
export class BodyIntake {
  readonly #context: Pick<RouteContext, 'admission' | 'configuration' | 'log'>;
  /** Bodies that take long to parse, the oldest first. */
  readonly #large: LargeBody[] = [];

  constructor(context: Pick<RouteContext, 'admission' | 'configuration' | 'log'>) {
    this.#context = context;
  }

  /** Reads a body. The sink must use it synchronously and must not keep a reference to it. */
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
        else {
          this.#large.push({ exchange, body, sink, at: performance.now() });
          if (this.#large.length === 1) setImmediate(this.#nextLarge);
        }
      });
    }
  }

  /** Passes on one large body per turn of the event loop, so that other requests are served in between. */
  readonly #nextLarge = (): void => {
    const next = this.#large.shift();
    if (this.#large.length > 0) setImmediate(this.#nextLarge);
    if (next === undefined || next.exchange.isOver) return;
    const { exchange, body, sink, at } = next;
    this.#hand(sink, exchange, performance.now() - at > MAX_LARGE_WAIT_MS ? 'overloaded' : body);
  };

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
