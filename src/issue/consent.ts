import { CONSENT_MEMBERS, findConsentDefect, type Consent } from '../protocol/consent.js';
import { text, type GivenOptions, type Table } from '../protocol/options.js';
import { digestOf } from '../protocol/jwt.js';
import { show } from '../verify/codes.js';
import { IssueError } from './issue-error.js';
import { claim, clock, issueOptions, time } from './options.js';

const OPTIONS = {
  /** The text that the person saw, exactly. Only its SHA-256 goes into the receipt. */
  text: { kind: text('the text that the person saw', (shown) => shown.trim() !== ''), required: true },
  /** The language tag of the text, for example `de-CH`. */
  locale: { kind: claim<string>(), required: true },
  /** How the person agreed, for example `explicit-ui-click`. */
  method: { kind: claim<string>(), required: true },
  /** The session in which the person agreed; default: a random UUID. */
  sessionId: { kind: claim<string>(), default: () => crypto.randomUUID() },
  /** When the person agreed, in Unix seconds; default: the clock. */
  now: { kind: time, default: clock },
} satisfies Table;

/** Options of {@link createConsent}. */
export interface ConsentOptions extends GivenOptions<typeof OPTIONS> {}

/**
 * Makes the record of what a person agreed to, for a root receipt (docs/spec/receipts.md). Keep the text itself: the
 * record holds only `sha256:` and the lowercase hex digest of its UTF-8 bytes.
 *
 * @throws IssueError `INVALID_OPTION` if the text is empty, an option unknown or not in its form, or the time far away
 * @example createConsent({ text: 'Bot may search for you.', locale: 'en', method: 'explicit-ui-click' });
 */
export function createConsent(options: ConsentOptions): Consent {
  const { text, locale, method, sessionId, now } = issueOptions(options, OPTIONS);
  const consent = {
    locale,
    method,
    policy_hash: digestOf(text),
    session_id: sessionId,
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

/**
 * Refuses a consent record of an empty text, or with members that no verifier reads. A verifier cannot detect that.
 *
 * @throws IssueError `INVALID_OPTION`
 */
export function requireConsentText(consent: Consent): void {
  const names: readonly string[] = CONSENT_MEMBERS;
  const isKnown = Object.keys(consent).every((name) => names.includes(name));
  if (isKnown && /^sha256:[0-9a-f]{64}$/.test(consent.policy_hash)) return;
  throw new IssueError(
    'INVALID_OPTION',
    `the consent must have no members but ${names.join(', ')}, and the digest of the text that the person saw as policy_hash`,
    'make it with createConsent({ text, locale, method })',
  );
}
