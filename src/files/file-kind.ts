/** A kind of files of entries, one a line, and what errors say of it. */
export interface FileKind {
  /** Such as `the revocation store`. */
  readonly name: string;
  /** Permissions of a file that is created. */
  readonly mode: number;
  /** What to do where another process has the file. */
  readonly ifLocked: string;
  /** What to do about a line that is no entry. */
  readonly ifDamaged: string;
  /**
   * `locked`: another process has it. `unreadable`: it cannot be opened, or a line is no entry. `not_recorded`: it cannot be
   * written.
   */
  readonly Failure: new (
    fault: 'locked' | 'unreadable' | 'not_recorded',
    message: string,
    options?: ErrorOptions,
  ) => Error;
}
