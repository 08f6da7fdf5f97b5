import { describe, expect, it } from 'vitest';
import { CONSENT_MEMBERS, findConsentDefect, type Consent } from '../../src/protocol/consent.js';

const CONSENT: Consent = {
  locale: 'en',
  method: 'explicit-ui-click',
  policy_hash: `sha256:${'0'.repeat(64)}`,
  session_id: 's-1',
  timestamp: '2026-01-01T00:00:00Z',
};

const isAccepted = (member: keyof Consent, text: string) => {
  const defect = findConsentDefect({ ...CONSENT, [member]: text });
  if (defect !== null) expect(defect).toMatchObject({ member, found: text });
  return defect === null;
};

const words = (text: string) => text.trim().split(/\s+/);
const long = `x${'-aaaaaaaa'.repeat(11)}`;
const digits = (digit: string, count = 64) => `sha256:${digit.repeat(count)}`;
const texts = [['x'.repeat(1024)], ['', 'x'.repeat(1025)]] as const;

/** Accepted and refused texts. */
const TEXTS: Readonly<
  Record<keyof Consent, readonly [accepted: readonly string[], refused: readonly string[]]>
> = {
  locale: [
    words(`de deu DE-ch de-Latn-CH-1996 abcd abcdefgh es-419 sl-rozaj-biske-1994 zh-cmn zh-yue-Hant-HK
      zh-aaa-bbb-ccc zh-aaa-bbb-ccc-Hant en-Hant-x-1 und x-whatever-a en-u-hc-h12 en-a-bb-cc-b-dd-x-a-b ar-0-aa
      de-CH-x-phonebk ${long}`),
    [
      ...['', ' en', 'en ', 'en\n', 'de-\u017f\u017f', '\u212a\u212a', 'd\u00e9', `${long}-a`],
      ...words(`d C POSIX.UTF-8 en_US en- -en en--us 12 1a abcdefghi en-a en-a-b en-x x x- x-aaaaaaaaa en-aaaaaaaaa
        i-klingon abcd-efg zh-aaa-bbb-ccc-ddd de-CH-Latn en-1 en-US-GB en-12`),
    ],
  ],
  method: [['m', ' ', '\u20ac', ...texts[0]], texts[1]],
  policy_hash: [
    [digits('a'), digits('A'), `${digits('09afAF', 10)}0000`],
    [
      ...['', 'x', 'sha256:', 'sha256:x', digits('0', 63), digits('0', 65), '0'.repeat(64), digits('g')],
      ...[`SHA256:${'0'.repeat(64)}`, `sha512:${'0'.repeat(64)}`, ` ${digits('0')}`, `${digits('0')}\n`],
    ],
  ],
  session_id: [['s', ...texts[0]], texts[1]],
  timestamp: [
    words(`2026-01-31T23:59:59Z 2026-01-01T00:00:00.1Z 2026-01-01T00:00:00.123456789+00:00 2024-02-29T00:00:00Z
      2000-02-29T00:00:00Z 0000-02-29T00:00:00Z 9999-12-31T23:59:60.5Z 2026-04-30T19:00:00Z 2026-06-30T09:00:00Z
      2026-09-30T20:00:00Z 2026-11-30T00:00:00Z 2026-03-31T00:00:00Z 2026-12-31T00:00:00Z`),
    [
      ...['', '2026-01-01 00:00:00Z', ' 2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z\n'],
      ...words(`t yesterday 0 2026-01-01 2026-01-01T00:00Z 2026-01-01T00:00:00 20260101T000000Z 2026-01-01t00:00:00Z
        2026-01-01T00:00:00+01:00 2026-01-01T00:00:00-00:00 2026-01-01T00:00:00+0000 2026-01-01T00:00:00z
        2026-01-01T00:00:00,5Z 2026-01-01T00:00:00.Z 2026-01-01T00:00:00.1234567890Z +002026-01-01T00:00:00Z
        2026-00-01T00:00:00Z 2026-13-01T00:00:00Z 2026-01-00T00:00:00Z 2026-01-32T00:00:00Z 2026-02-29T00:00:00Z
        1900-02-29T00:00:00Z 2024-02-30T00:00:00Z 2026-04-31T00:00:00Z 2026-06-31T00:00:00Z 2026-09-31T00:00:00Z
        2026-11-31T00:00:00Z 2026-01-01T24:00:00Z 2026-01-01T00:60:00Z 2026-01-01T00:00:60Z 2026-01-01T23:58:60Z
        2026-01-01T23:59:61Z`),
    ],
  ],
};

describe('a consent record', () => {
  it('of the right forms has no defect', () => {
    expect(findConsentDefect(CONSENT)).toBeNull();
  });

  describe.each(CONSENT_MEMBERS)('has a form for %s', (member) => {
    const [accepted, refused] = TEXTS[member];
    it.each(accepted)('%j is accepted', (text) => expect(isAccepted(member, text)).toBe(true));
    it.each(refused)('%j is refused', (text) => expect(isAccepted(member, text)).toBe(false));
  });

  it('names the first member that is wrong, and what it should be', () => {
    const empty = { locale: '', method: '', policy_hash: '', session_id: '', timestamp: '' };
    expect(findConsentDefect(empty)).toEqual({
      member: 'locale',
      found: '',
      expected: 'a language tag (BCP 47) such as "de-CH"',
    });
    expect(findConsentDefect({ ...CONSENT, session_id: '', timestamp: '' })).toEqual({
      member: 'session_id',
      found: '',
      expected: '1 to 1024 characters',
    });
  });

  it('is looked through quickly, whatever it says', () => {
    const startedAt = process.cpuUsage();
    for (const text of [
      'a-'.repeat(500_000),
      'x'.repeat(1_000_000),
      '2026-01-01T00:00:00.'.padEnd(1_000_000, '1'),
    ])
      for (const member of CONSENT_MEMBERS) expect(isAccepted(member, text)).toBe(false);
    for (const text of [`${'a'.repeat(8)}${'-aaaaaaaa'.repeat(10)}!`, `aa${'-a-aa'.repeat(19)}!`])
      expect(isAccepted('locale', text)).toBe(false);
    expect(process.cpuUsage(startedAt).user).toBeLessThan(500_000);
  });
});
