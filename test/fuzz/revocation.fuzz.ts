import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { IndexLines } from '../../src/revocation/store/index-lines.js';
import { readStatusList } from '../../src/revocation/lists/read-status-list.js';
import { StatusListError } from '../../src/revocation/lists/status-list-error.js';
import { same, type Target } from './target.js';

/** The inputs of revocation: status lists in all forms, and the file of the local store. */

const bits = (bytes: Uint8Array) => `u${gzipSync(bytes).toString('base64url')}`;
const credential = (more: object, subject: object) =>
  JSON.stringify({
    '@context': ['https://www.w3.org/ns/credentials/v2'],
    type: ['VerifiableCredential', 'BitstringStatusListCredential'],
    issuer: 'https://issuer.example',
    ...more,
    credentialSubject: { type: 'BitstringStatusList', statusPurpose: 'revocation', ...subject },
  });
const MAX_UNPACKED = 64 * 1024;

const list: Target = {
  name: 'status-list',
  texts: fc
    .tuple(
      fc.uint8Array({ maxLength: 64 }),
      fc.dictionary(fc.constantFrom('validFrom', 'validUntil', 'proof'), fc.string()),
    )
    .map(([bytes, more]) => credential(more, { encodedList: bits(bytes) })),
  dictionary: [
    ...[
      '"encodedList":"',
      'u',
      'H4sI',
      '"statusSize":2,',
      '"statusPurpose":["revocation"],',
      '"validFrom":"2020-01-01T00:00:00Z",',
    ],
    ...[bits(new Uint8Array(1_000_000)), '"credentialSubject":[', 'null', '"issuer":{}', '.'],
  ],
  async run(text) {
    for (const type of [
      'application/vc',
      'application/vc+jwt',
      'application/octet-stream',
      text.slice(0, 20),
    ]) {
      const options = { nowMs: Date.UTC(2026, 0), maxUnpackedBytes: MAX_UNPACKED };
      try {
        const { bits: found, entries } = await readStatusList(Buffer.from(text), type, options);
        same('entries', entries, 8 * found.length);
        if (type === 'application/octet-stream') continue;
        if (found.length > MAX_UNPACKED) throw new Error(`${found.length} bytes were unpacked`);
        const packed = /"encodedList":"u([\w-]+)"/.exec(text)?.[1];
        if (packed !== undefined && text.split('"encodedList"').length === 2)
          same(
            'the bits',
            found.toString('hex'),
            gunzipSync(Buffer.from(packed, 'base64url')).toString('hex'),
          );
      } catch (error) {
        if (!(error instanceof StatusListError)) throw error;
        if (error.message.length > 1_000)
          throw new Error('a message as long as what was sent', { cause: error });
      }
    }
  },
};

const file: Target = {
  name: 'revocation-file',
  texts: fc
    .array(fc.oneof(fc.nat().map(String), fc.constantFrom('', '#', ' 7 ', '-1', '7#', '1e3')))
    .map((lines) => lines.join('\n')),
  dictionary: [
    '\n',
    '\r\n',
    '#',
    ' ',
    '\t',
    '9007199254740991',
    '9007199254740992',
    '0',
    '00007',
    '-',
    '.',
    '\u0000',
    'é',
  ],
  run(text) {
    const bytes = Buffer.from(text);
    const whole = readLines([bytes]);
    // The result must not depend on where the file is cut into chunks.
    for (const size of [1, 2, 3, 7]) {
      const chunks = [];
      for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
      same(`in chunks of ${size}`, readLines(chunks), whole);
    }
    const lines = text.split('\n').slice(0, -1);
    const indices = lines
      .flatMap((line) => /^[ \t\r]*(\d+)[ \t\r]*(?:#.*)?$/s.exec(line)?.[1] ?? [])
      .map(Number);
    const expected = indices.filter((index) => Number.isSafeInteger(index));
    same('the indices', whole.indices, expected);
  },
  time: (text) => void readLines([Buffer.from(text)]),
};

function readLines(chunks: readonly Uint8Array[]) {
  const indices: number[] = [];
  const damaged: number[] = [];
  const lines = new IndexLines(
    (index) => indices.push(index),
    (line) => damaged.push(line),
  );
  for (const chunk of chunks) lines.read(chunk);
  return { indices, damaged, tail: lines.tailLength };
}

export const targets: readonly Target[] = [list, file];
