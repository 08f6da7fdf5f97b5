import {
  responseTo,
  rpcError,
  RPC_ERROR_CODE,
  type Denial,
  type GateResponse,
  type RpcErrorData,
} from '../gate/index.js';

/**
 * A refusal as an error: thrown in MCP request handlers, of which both SDKs answer with `code`, `message` and `data`; and
 * given to `next` where the middleware is told so (`errors: 'next'`), as Express and Fastify understand it.
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
  /** What the caller would have been answered. */
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
