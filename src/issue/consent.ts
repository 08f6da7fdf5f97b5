import { randomUUID } from 'node:crypto';
import type { Consent } from '../protocol/claims.js';
import { digestOf } from '../protocol/digest.js';
import { clock } from './delegation.js';

/** Options of {@link createConsent}. */
export interface ConsentOptions {
  /** The text that the person saw, exactly. Only its SHA-256 goes into the receipt. */
  readonly text: string;
  /** The language tag of the text, for example `de-CH`. */
  readonly locale: string;
  /** How the person agreed, for example `explicit-ui-click`. */
  readonly method: string;
  /** The session in which the person agreed; default: a random UUID. */
  readonly sessionId?: string;
  /** When the person agreed, in Unix seconds; default: the clock. */
  readonly now?: number;
}

/**
 * The record of what a person agreed to, for a root receipt. Service document 2.2. Keep the text itself: the record
 * holds only `sha256:` and the lowercase hex digest of its UTF-8 bytes.
 *
 * @example createConsent({ text: 'Bot may search for you.', locale: 'en', method: 'explicit-ui-click' });
 */
export function createConsent({ text, locale, method, sessionId, now = clock() }: ConsentOptions): Consent {
  return {
    locale,
    method,
    policy_hash: digestOf(text),
    session_id: sessionId ?? randomUUID(),
    timestamp: new Date(now * 1000).toISOString(),
  };
}
