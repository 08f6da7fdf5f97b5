import { CONSENT_MEMBERS, findConsentDefect, type Consent } from '../protocol/consent.js';
import { isJsonObject } from '../protocol/json.js';
import { digestOf } from '../protocol/jwt.js';
import { show } from '../verify/codes.js';
import { IssueError } from './issue-error.js';
import { clock, requireKind, requireKnownOptions, requireNearTimes } from './options.js';

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
 * Makes the record of what a person agreed to, for a root receipt (docs/spec/receipts.md). Keep the text itself: the
 * record holds only `sha256:` and the lowercase hex digest of its UTF-8 bytes.
 *
 * @throws IssueError `INVALID_OPTION` if the text is empty, an option unknown or not in its form, or the time far away
 * @example createConsent({ text: 'Bot may search for you.', locale: 'en', method: 'explicit-ui-click' });
 */
export function createConsent(options: ConsentOptions): Consent {
  requireKind(isJsonObject(options), 'options', options, 'an object');
  requireKnownOptions(options, CONSENT_OPTIONS);
  const { text, locale, method, sessionId, now = clock() } = options;
  requireNearTimes({ now });
  if (typeof text !== 'string' || text.trim() === '') {
    throw new IssueError(
      'INVALID_OPTION',
      'the consent has no text, expected the text that the person saw',
      'pass that text as `text`, exactly; only its digest goes into the receipt',
    );
  }
  const consent = {
    locale,
    method,
    policy_hash: digestOf(text),
    session_id: sessionId ?? crypto.randomUUID(),
    timestamp: new Date(now * 1000).toISOString(),
  };
  const defect = findConsentDefect(consent);
  if (defect === null) return consent;
  throw new IssueError(
    'INVALID_OPTION',
    `the consent's ${defect.member} is ${show(defect.found)}, expected ${defect.expected}`,
    'pass the language of the text, how the person agreed, and in which session',
  );
}

const CONSENT_OPTIONS = { text: true, locale: true, method: true, sessionId: true, now: true } as const;

/**
 * Refuses a consent record of an empty text. A verifier cannot detect that.
 *
 * @throws IssueError `INVALID_OPTION`
 */
export function requireConsentText(consent: Consent): void {
  const stranger = Object.keys(consent).find((name) => !MEMBERS.has(name));
  if (stranger === undefined && DIGEST.test(consent.policy_hash)) return;
  throw new IssueError(
    'INVALID_OPTION',
    stranger === undefined
      ? `the consent's policy_hash is ${JSON.stringify(consent.policy_hash)}, expected the digest of the text that the person saw`
      : `the consent has a member ${JSON.stringify(stranger)}, which no verifier reads; expected ${CONSENT_MEMBERS.join(', ')}`,
    'make it with createConsent({ text, locale, method })',
  );
}

const MEMBERS: ReadonlySet<string> = new Set(CONSENT_MEMBERS);

const DIGEST = /^sha256:[0-9a-f]{64}$/;
