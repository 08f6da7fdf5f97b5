import { IssueError, type IssueErrorCode } from '../issue/issue-error.js';

/** Exit codes: success, an answer of "no", and no answer because something failed. */
export const EXIT = { ok: 0, no: 1, failed: 2 } as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The command cannot continue. The message says what was found and expected; the hint says what to do next. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly hint: string;
  readonly exitCode: ExitCode;

  constructor(message: string, hint: string, exitCode: ExitCode = EXIT.failed) {
    super(message);
    this.hint = hint;
    this.exitCode = exitCode;
  }
}

/** Throws a {@link CommandError} for the first row that is wrong. */
export function refuseWrong(
  rows: readonly (readonly [isWrong: boolean, found: string, hint: string])[],
): void {
  for (const [isWrong, found, hint] of rows) if (isWrong) throw new CommandError(found, hint);
}

// These codes are about the command's input. All others are verdicts on what it was asked to sign.
const INPUT_CODES: ReadonlySet<IssueErrorCode> = new Set(['INVALID_POLICY', 'INVALID_OPTION', 'INVALID_KEY']);

/**
 * What to do about errors of the library that say what was found and expected. By their names, since most commands do
 * without their modules.
 */
const HINTS: Readonly<Record<string, string>> = {
  OptionsError: 'set the variables as the service has them; `drs-verify serve --help` lists them',
  RevocationStoreError: 'nothing was changed; try again',
};

/** Converts an error to a {@link CommandError}; `null` if it is a bug in this program. */
export function toCommandError(error: unknown): CommandError | null {
  if (error instanceof CommandError) return error;
  if (!(error instanceof Error)) return null;
  const { name, message } = error;
  const hint = HINTS[name];
  if (hint !== undefined) return new CommandError(message, hint);
  if (!(error instanceof IssueError)) return null;
  if (INPUT_CODES.has(error.code)) return new CommandError(message, error.suggestion);
  return new CommandError(`refused, ${error.code}: ${message}`, error.suggestion, EXIT.no);
}
