/**
 * Why there is no verdict:
 *
 * - `unreachable`: no connection to the service; nothing was checked
 * - `overloaded`: the service answered 503 or 429; nothing was checked
 * - `timeout`: no answer in time
 * - `interrupted`: the connection was lost after the bundle was sent
 * - `rejected`: the service answered with another status, such as 413 for too large a body
 * - `not_a_verdict`: the answer is not from a drs-verify service
 */
export type DrsClientErrorCode =
  'unreachable' | 'overloaded' | 'timeout' | 'interrupted' | 'rejected' | 'not_a_verdict';

/**
 * There is no verdict. The error says nothing about the bundle; refuse the call.
 *
 * @example
 * try {
 *   const verdict = await client.verify(bundle, { body });
 * } catch (error) {
 *   if (error instanceof DrsClientError && error.code === 'overloaded') answer(503);
 * }
 */
export class DrsClientError extends Error {
  override readonly name = 'DrsClientError';
  readonly code: DrsClientErrorCode;
  /** The HTTP status, if the service answered. */
  readonly status: number | undefined;

  constructor(
    code: DrsClientErrorCode,
    message: string,
    { status, cause }: { readonly status?: number; readonly cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.status = status;
  }
}
