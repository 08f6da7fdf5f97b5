import { Failure, type Code, type Details } from '../verify/codes.js';

/**
 * Why something was not issued or not decoded: the code that the verdict on the result would have, or one of these,
 * which only exist on the signing side:
 *
 * - `INVALID_POLICY`: a policy member that every verifier would ignore, such as a misspelt one
 * - `INVALID_OPTION`: an option that does not exist, a time more than 100 years away, or a consent without its text
 * - `INVALID_KEY`, `INVALID_BASE64URL`, `INVALID_JSON`: the input is not a key, base64url or JSON
 */
export type IssueErrorCode =
  Code | 'INVALID_POLICY' | 'INVALID_OPTION' | 'INVALID_KEY' | 'INVALID_BASE64URL' | 'INVALID_JSON';

/**
 * The error that every function of `drs-verify/issue` throws when it refuses; those that sign reject with it. The message says what was found and
 * what was expected; the suggestion says what to do next. Neither ever contains secret key material.
 *
 * @example
 * try {
 *   await issueSubDelegation(options);
 * } catch (error) {
 *   if (error instanceof IssueError && error.code === 'POLICY_ESCALATION') askForMoreAuthority(error.message);
 * }
 */
export class IssueError extends Error {
  override readonly name = 'IssueError';
  readonly code: IssueErrorCode;
  readonly suggestion: string;

  constructor(code: IssueErrorCode, message: string, suggestion: string) {
    super(message);
    this.code = code;
    this.suggestion = suggestion;
  }
}

/** Makes the error for something that a verifier would refuse, with the text of the verdict. */
export function refusal(code: Code, details: Details): IssueError {
  return asIssueError(new Failure(code, details));
}

export function asIssueError(failure: Failure, suggestion = failure.suggestion): IssueError {
  return new IssueError(failure.code, failure.message, suggestion);
}

/** Makes the error for something that is no key, or does not sign as it should. */
export function invalidKey(message: string, suggestion: string): IssueError {
  return new IssueError('INVALID_KEY', message, suggestion);
}
