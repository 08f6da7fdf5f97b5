import type { Denial } from '../gate/request.js';
import {
  responseTo,
  rpcError,
  RPC_ERROR_CODE,
  type GateResponse,
  type RpcErrorData,
} from '../gate/response.js';

/**
 * A refusal as an error. It is thrown in MCP request handlers; both SDKs answer with its `code`, `message` and
 * `data`. With `errors: 'next'`, the middleware passes it to `next`, for the error handlers of Express and Fastify.
 *
 * @example
 * app.use((error, req, res, next) => {
 *   if (!(error instanceof DrsRefusalError)) return next(error);
 *   res.status(error.status).set(error.headers).json(error.body);
 * });
 */
export class DrsRefusalError extends Error {
  override readonly name = 'DrsRefusalError';
  /** The JSON-RPC error code, the same for every refusal. */
  readonly code = RPC_ERROR_CODE;
  /** `data.code` says why. */
  readonly data: RpcErrorData;
  readonly status: number;
  readonly statusCode: number;
  readonly headers: GateResponse['headers'];
  /** The body that the caller would have received. */
  readonly body: GateResponse['body'];

  constructor(denial: Denial) {
    const { message, data } = rpcError(denial.failure);
    super(message);
    this.data = data;
    const { status, headers, body } = responseTo(denial);
    this.status = status;
    this.statusCode = status;
    this.headers = headers;
    this.body = body;
  }
}
