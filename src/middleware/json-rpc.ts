import { messageOf, type Refusal, type RefusalBody } from './refusal.js';

/** The id of a JSON-RPC request. */
export type RequestId = string | number;

/** A refusal as a JSON-RPC error: the code is the HTTP status that it would have, `data` the body. */
export interface RefusalError {
  readonly code: number;
  readonly message: string;
  readonly data: RefusalBody;
}

/** A refusal as the error member of a JSON-RPC response. JSON-RPC 2.0 §5.1 leaves codes above -32000 to us. */
export function refusalError(refusal: Refusal): RefusalError {
  return { code: refusal.status, message: messageOf(refusal), data: refusal.body };
}

/** A JSON-RPC response that refuses a request. */
export function refusalResponse<I extends RequestId | null>(
  id: I,
  refusal: Refusal,
): { readonly jsonrpc: '2.0'; readonly id: I; readonly error: RefusalError } {
  return { jsonrpc: '2.0', id, error: refusalError(refusal) };
}

/** A refusal as an error to be thrown in a request handler: both MCP SDKs answer with its code, message and data. */
export class DrsRefusalError extends Error implements RefusalError {
  override readonly name = 'DrsRefusalError';
  readonly code: number;
  readonly data: RefusalBody;

  constructor(refusal: Refusal) {
    super(messageOf(refusal));
    this.code = refusal.status;
    this.data = refusal.body;
  }
}
