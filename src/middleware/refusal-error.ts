import type { Denial } from '../gate/request.js';
import { responseTo, rpcError, type GateResponse } from '../gate/response.js';

/**
 * A refusal as an error. With `errors: 'next'`, the middleware passes it to `next`, for the error handlers of Express and Fastify.
 *
 * @example
 * app.use((error, req, res, next) => {
 *   if (!(error instanceof DrsRefusalError)) return next(error);
 *   res.status(error.status).set(error.headers).json(error.body);
 * });
 */
export class DrsRefusalError extends Error {
  override readonly name = 'DrsRefusalError';
  /** A code of docs/codes.md. */
  readonly code: string;
  readonly status: number;
  readonly statusCode: number;
  readonly headers: GateResponse['headers'];
  /** The body that the caller would have received. */
  readonly body: GateResponse['body'];

  constructor(denial: Denial) {
    super(rpcError(denial.failure).message);
    this.code = denial.failure.code;
    const { status, headers, body } = responseTo(denial);
    this.status = status;
    this.statusCode = status;
    this.headers = headers;
    this.body = body;
  }
}
