import { IssueError, type IssueErrorCode } from '../issue/index.js';

/** What went well, an answer of "no", and what kept the command from getting an answer. */
export const EXIT = { ok: 0, no: 1, failed: 2 } as const;

/** One of {@link EXIT}. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A command that cannot go on. The message says what was found and expected, the hint what to do next. */
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

// These are about what the command was given; any other code is a verdict on what it was asked to sign.
const INPUT_CODES: ReadonlySet<IssueErrorCode> = new Set([
  'INVALID_POLICY',
  'INVALID_OPTION',
  'INVALID_KEY',
  'INVALID_BASE64URL',
  'INVALID_JSON',
  'MALFORMED_BUNDLE',
]);

/** An error as a command's end. Anything but a {@link CommandError} or a refusal is a fault of this program. */
export function toCommandError(error: unknown): CommandError | null {
  if (error instanceof CommandError) return error;
  if (!(error instanceof IssueError)) return null;
  if (INPUT_CODES.has(error.code)) return new CommandError(error.message, error.suggestion);
  return new CommandError(`refused, ${error.code}: ${error.message}`, error.suggestion, EXIT.no);
}
