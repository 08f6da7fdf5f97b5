/** What is wrong with the local revocation store. */
export type RevocationStoreFault =
  /** Another process holds the store's file. */
  | 'locked'
  /** The file, or Redis, cannot be opened or read at start. */
  | 'unreadable'
  /** A revocation could not be recorded, and is not in force. */
  | 'not_recorded'
  /** Redis did not confirm a revocation in time: it may be in force, on some instances or on all, and lost later. */
  | 'unconfirmed'
  /** The store has been closed. */
  | 'closed';

/** Why the local store did not open, or did not record. The message names the file and says what to do next. */
export class RevocationStoreError extends Error {
  override readonly name = 'RevocationStoreError';
  readonly fault: RevocationStoreFault;

  constructor(fault: RevocationStoreFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}
