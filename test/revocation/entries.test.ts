import { expect, it } from 'vitest';
import { Entries } from '../../src/revocation/entries.js';
import { readEntry } from '../../src/revocation/entry.js';
import { readRevocationRequest, toJson } from '../../src/revocation/index.js';
import { indexUnder, jtiBy } from '../../src/verify/parts.js';
import { countTurns } from '../support/turns.js';
import { digest } from './entries.js';

const DAY_MS = 86_400_000;
const [RECEIPT, DID] = [digest('a'), 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'];
const ONE = 'of status_list_index, receipt, did and jti, expected one';

it.each<[unknown, unknown]>([
  [{ status_list_index: 7 }, { target: 7, reason: null, exp: null }],
  [
    { receipt: RECEIPT, reason: 'x'.repeat(200), exp: 5 },
    { target: RECEIPT, reason: 'x'.repeat(200), exp: 5 },
  ],
  [
    { did: DID, reason: null, exp: null },
    { target: DID, reason: null, exp: null },
  ],
  [
    { status_list_index: 7, root: DID },
    { target: indexUnder(DID, 7), reason: null, exp: null },
  ],
  [
    { jti: 'dr:a b\n', iss: DID, reason: 'x' },
    { target: jtiBy(DID, 'dr:a b\n'), reason: 'x', exp: null },
  ],
  [{ jti: 'dr:1' }, 'iss is missing, expected a DID, who issued the receipt'],
  [{ jti: 'dr:1', iss: 'x' }, 'iss is "x", expected a DID, who issued the receipt'],
  [{ jti: 'dr:1', iss: 'did:key:z1' }, expect.stringMatching(/^iss is "did:key:z1", expected .*did:key/)],
  [{ jti: 'dr:', iss: DID }, 'jti is "dr:", expected "dr:" and 1 to 500 characters'],
  [{ jti: 'inv:1', iss: DID }, 'jti is "inv:1", expected "dr:" and 1 to 500 characters'],
  [{ jti: `dr:${'x'.repeat(501)}`, iss: DID }, expect.stringMatching(/^jti is "dr:x/)],
  [{ jti: 'dr:1', iss: DID, exp: 5 }, 'it has exp and jti, expected exp only with receipt'],
  [{ jti: 'dr:1', iss: DID, did: DID }, `it has several ${ONE}`],
  [{ iss: DID }, `it has none ${ONE}`],
  [{ did: DID, iss: DID }, 'it has a member "iss", expected only did, reason, exp'],
  [{ status_list_index: 7, root: 'x' }, 'root is "x", expected a DID'],
  [{ status_list_index: 7, root: 'did:key:z1' }, expect.stringMatching(/^root is "did:key:z1", expected/)],
  [{ receipt: RECEIPT, root: DID }, 'it has a member "root", expected only receipt, reason, exp'],
  [7, 'it is 7, expected an object such as { "status_list_index": 7 }'],
  [{}, `it has none ${ONE}`],
  [{ reason: 'why' }, `it has none ${ONE}`],
  [{ status_list_index: 7, did: DID }, `it has several ${ONE}`],
  [{ did: DID, at: null }, 'it has a member "at", expected only did, reason, exp'],
  ...['7', -1, 1.5, 2 ** 53, null].map((index): [unknown, string] => [
    { status_list_index: index },
    `status_list_index is ${JSON.stringify(index)}, expected an integer from 0 to 2^53-1`,
  ]),
  [
    { receipt: 'sha256:12' },
    'receipt is "sha256:12", expected sha256: and 64 lower-case hexadecimal digits, as in prev_dr_hash',
  ],
  [{ did: [DID] }, expect.stringMatching(/^did is \["did.*, expected a DID$/)],
  [{ did: 'key' }, 'did is "key", expected a DID'],
  // As strings, both would be names of something.
  [{ receipt: [RECEIPT] }, expect.stringMatching(/^receipt is \["sha256:a.*, expected sha256: and/)],
  [{ did: 'did:key:z1' }, expect.stringMatching(/^did is "did:key:z1", expected .*did:key/)],
  [{ did: DID, reason: ['x'] }, 'reason is ["x"], expected a string of up to 200 characters'],
  [{ did: DID, reason: 'x'.repeat(201) }, expect.stringMatching(/^reason is "x+…, expected a string of/)],
  [{ receipt: RECEIPT, exp: -1 }, 'exp is -1, expected Unix seconds'],
  [{ did: DID, exp: 5 }, 'it has exp and did, expected exp only with receipt'],
  [
    { receipt: RECEIPT, exp: 4 },
    'exp is 4 (1970-01-01T00:00:04Z), expected the end of a receipt that has not run out; leave it out if it is not known',
  ],
])('reads what somebody asks to revoke, case %#', (value, expected) => {
  // Two days after the end of a receipt nobody accepts it any more.
  expect(readRevocationRequest(value, 5_000 + 2 * DAY_MS)).toEqual(expected);
});

it.each([
  ['7', 'it is 7, expected an object'],
  ['{"did":"did:key:z1","at":7}', 'at is 7, expected a time'],
  [
    '{"did":"did:key:z1","at":["2026-11-25T03:00:00.000Z"]}',
    'at is ["2026-11-25T03:00:00.000Z"], expected a time',
  ],
  ['{"did":"did:key:z1","a":7}', 'it has a member "a", expected only did, at, reason, exp'],
  ['{', expect.stringMatching(/JSON/)],
])('reads no entry in %s: %s', (text, expected) => {
  expect(readEntry(text)).toEqual(expected);
});

it.each([
  '{"status_list_index":7}',
  '{"status_list_index":9007199254740991,"root":"did:key:z1"}',
  '{"jti":"dr:a b: did:key:z1 \\n","iss":"did:web:x"}',
  `{"receipt":"${RECEIPT}"}`,
  '{"did":"did:key:z1"}',
])('writes an entry as it was read: %s', (text) => {
  const entry = readEntry(text);
  expect(typeof entry === 'string' ? entry : toJson(entry)).toBe(text);
});

it('looks for entries that have run out some at a time, so that others have their turn', async () => {
  const entries = new Entries();
  for (let at = 0; at < 100_000; at++)
    entries.add({ target: `sha256:${at}`, reason: null, exp: at % 2 === 0 ? 1 : null, at: null });
  const sweeping = entries.sweep(3 * DAY_MS);
  // Who comes meanwhile waits for the same, and nobody looks twice in an hour.
  expect(entries.sweep(3 * DAY_MS + 1)).toBe(sweeping);
  expect(await countTurns(sweeping)).toBeGreaterThanOrEqual(9);
  expect(entries.size).toBe(50_000);
  expect(entries.sweep(3 * DAY_MS + 1)).toBeNull();
});

it('looks again after an hour, or if the clock goes back', () => {
  const entries = new Entries();
  const sizeAfter = (nowMs: number) => {
    entries.add({ target: RECEIPT, reason: null, exp: 1, at: null });
    expect(entries.sweep(nowMs)).toBeNull();
    return entries.size;
  };
  const at = 9 * DAY_MS;
  const times = [at, at, at + 3_599_999, at + 3_600_000, at];
  expect(times.map(sizeAfter)).toEqual([0, 1, 1, 0, 0]);
});
