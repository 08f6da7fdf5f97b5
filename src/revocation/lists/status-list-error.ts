export type StatusListFault =
  /** The list did not arrive within the time limit, which covers connection and body. */
  | 'timeout'
  /** No connection, or a broken one. */
  | 'unreachable'
  /** The server answered with another status than 200 or 304. */
  | 'http_status'
  /** Raw bits are expected, and the server calls the body something else. */
  | 'content_type'
  /** Over the limit, as sent or unpacked. */
  | 'too_large'
  /** Not a status list: JSON, base64url, GZIP or a member of the credential is wrong. */
  | 'malformed'
  /** Not a revocation list with one bit per entry. */
  | 'wrong_purpose'
  /** Not from the pinned issuer, or its signature does not verify. */
  | 'untrusted'
  /** Not valid yet, or no longer. */
  | 'out_of_validity'
  /** From the pinned issuer, but older than the present copy. */
  | 'rollback'
  /** A bug in this program. */
  | 'internal';

export type FetchOutcome = 'updated' | 'not_modified' | StatusListFault;

/** Why a status list was not accepted. The message says what was found and what was expected. */
export class StatusListError extends Error {
  override readonly name = 'StatusListError';
  readonly fault: StatusListFault;

  constructor(fault: StatusListFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

export const malformed = (message: string) => new StatusListError('malformed', message);
