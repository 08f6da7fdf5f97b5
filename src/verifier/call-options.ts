import { refuseUnknownOptions } from '../protocol/known-options.js';
import type { Body } from '../verify/binding.js';
import { asksForDetails } from './verdict.js';

/** Options of a single call of `verify`. */
export interface VerifyOptions {
  /** The body of the call, as a JSON value: triggers the binding check. Overrides a `body` member of the bundle. */
  readonly body?: unknown;
  /**
   * The body of the call as JSON text. Unlike `body`, it shows duplicate names and rounded numbers. Replaces `body`.
   */
  readonly bodyText?: string;
  /** Whether a valid verdict should have `details`. A member `details: true` of the bundle requests them too. */
  readonly details?: boolean;
  /** The verification time in Unix seconds; by default the current time. Anything but a finite number is a TypeError. */
  readonly now?: number;
}

const KNOWN = ['body', 'bodyText', 'details', 'now'] satisfies (keyof VerifyOptions)[];

/** What a call of `verify` asks. @throws TypeError for an unknown option: a misspelt `body` would be compared with nothing */
export function readCall(bundle: unknown, options: VerifyOptions = {}) {
  refuseUnknownOptions(options, KNOWN);
  const { details = asksForDetails(bundle), now } = options;
  return { request: { bundle, body: bodyOf(bundle, options), now }, details };
}

function bodyOf(bundle: unknown, { body, bodyText }: VerifyOptions): Body | null {
  if (bodyText !== undefined) return { kind: 'text', text: bodyText };
  if (body !== undefined) return { kind: 'value', value: body };
  if (typeof bundle !== 'object' || bundle === null || !Object.hasOwn(bundle, 'body')) return null;
  return { kind: 'value', value: (bundle as { body: unknown }).body };
}
