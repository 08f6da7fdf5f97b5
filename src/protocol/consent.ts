import { isJsonObject } from './json.js';
import { isCount } from './policy.js';

/** What the person saw and agreed to: five strings, all required. */
export interface Consent {
  readonly locale: string;
  readonly method: string;
  readonly policy_hash: string;
  readonly session_id: string;
  readonly timestamp: string;
}

/** The rules that are held to apply to a call. Nobody checks here whether they do. */
export interface Regulatory {
  readonly frameworks?: readonly string[];
  readonly risk_level?: string;
  readonly retention_days?: number;
}

/** The claims of a root or an invocation that say what a call belongs to. They decide nothing, and may have any form. */
export interface StatedClaims {
  readonly session_id?: unknown;
  readonly correlation_id?: unknown;
  readonly drs_regulatory?: unknown;
}

/** A text of 1 to 256 characters; `null` if a value is something else. */
export const labelIn = (value: unknown): string | null => (isText(value, 256) ? (value as string) : null);

/** A copy of those members of a value that have their form; `null` if it is no object. */
export function rulesIn(value: unknown): Regulatory | null {
  if (!isJsonObject(value)) return null;
  const { frameworks, risk_level, retention_days } = value;
  const names = Array.isArray(frameworks) && frameworks.length <= 16 ? frameworks.map(labelIn) : [null];
  const risk = labelIn(risk_level);
  return {
    ...(names.every((name) => name !== null) && { frameworks: names }),
    ...(risk !== null && { risk_level: risk }),
    ...(isCount(retention_days) && { retention_days }),
  };
}

/**
 * Checks the form of each member of a consent record. No more of a text is read than its form allows.
 *
 * @returns the first member that does not have its form; its value is not a string only if a caller ignores the types
 * @see docs/spec/receipts.md, "Consent"
 * @example findConsentDefect({ ...consent, timestamp: 'yesterday' })?.member; // 'timestamp'
 */
export function findConsentDefect(consent: Consent) {
  for (const member of CONSENT_MEMBERS) {
    const found = consent[member];
    const { expected, test } = FORMS[member];
    if (typeof found !== 'string' || !test(found)) return { member, found, expected };
  }
  return null;
}

const MAX_LOCALE = 100;
const MAX_TEXT = 1_024;

export const isText = (value: unknown, max: number): boolean =>
  typeof value === 'string' && value !== '' && value.length <= max;

const text = { expected: `1 to ${MAX_TEXT} characters`, test: (value: string) => isText(value, MAX_TEXT) };

// RFC 5646, section 2.1. A subtag of one character begins an extension, and `x` private use.
const LANGUAGE_TAG = new RegExp(
  '^(?:' +
    '(?:[a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4,8})' + // language, with extended language subtags
    '(?:-[a-z]{4})?' + // script
    '(?:-(?:[a-z]{2}|\\d{3}))?' + // region
    '(?:-(?:[a-z\\d]{5,8}|\\d[a-z\\d]{3}))*' + // variants
    '(?:-[a-wy-z\\d](?:-[a-z\\d]{2,8})+)*' + // extensions
    '(?:-x(?:-[a-z\\d]{1,8})+)?' +
    '|x(?:-[a-z\\d]{1,8})+' +
    ')$',
  'i',
);

const FORMS: Readonly<Record<keyof Consent, { expected: string; test: (value: string) => boolean }>> = {
  locale: {
    expected: 'a language tag (BCP 47) such as "de-CH"',
    test: (value) => value.length <= MAX_LOCALE && LANGUAGE_TAG.test(value),
  },
  method: text,
  policy_hash: {
    expected: '"sha256:" and 64 hexadecimal digits',
    test: (value) => /^sha256:[\da-fA-F]{64}$/.test(value),
  },
  session_id: text,
  timestamp: { expected: 'a time in UTC such as "2026-01-31T12:00:00Z" (RFC 3339)', test: isUtcTime },
};

/** The members of a consent record, in the order in which they are checked. */
export const CONSENT_MEMBERS = Object.keys(FORMS) as readonly (keyof Consent)[];

const UTC_TIME =
  /^\d{4}-\d\d-(\d\d)T(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d|23:59:60)(?:\.\d{1,9})?(?:Z|\+00:00)$/;

function isUtcTime(value: string): boolean {
  const day = UTC_TIME.exec(value)?.[1];
  // For a day that its month does not have, engines give no date, or one in the next month.
  return day !== undefined && new Date(value.slice(0, 10)).getUTCDate() === Number(day);
}
