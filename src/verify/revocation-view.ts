/** What the remote status list says of an index. */
export type RemoteStatus =
  /** No remote list is configured. */
  | 'not_configured'
  | 'not_revoked'
  | 'revoked'
  /** The index lies beyond the end of the list: a range error, never "not revoked". */
  | 'out_of_range'
  /** A list is configured, but there is no usable copy of it. */
  | 'unavailable';

/** The revocation state as block F reads it. It is in memory: reading it never waits. */
export interface RevocationView {
  /** What the remote list says. Asked before the local store. */
  remoteStatusOf(index: number): RemoteStatus;
  /** Whether the index is in the local store. */
  isRevokedLocally(index: number): boolean;
  /**
   * Stands for all receipts and DIDs in the local store: another object as soon as one is added. `null` if there are none.
   * As long as it is the same, {@link isNameRevoked} says of no name that it is revoked if it did not before.
   */
  readonly names: object | null;
  /** Whether a receipt's digest (`sha256:…`) or a DID is in the local store. */
  isNameRevoked(name: string): boolean;
}
