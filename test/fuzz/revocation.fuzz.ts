import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import fc from 'fast-check';
import { readEntry } from '../../src/revocation/entry.js';
import { lineOf } from '../../src/revocation/store/entry-file.js';
import { MAX_UNPACKED_BYTES } from '../../src/revocation/lists/credential.js';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { resolveIssuer } from '../../src/revocation/lists/list-issuer.js';
import { readTokenList } from '../../src/revocation/lists/read-token-list.js';
import { readStatusList } from '../../src/revocation/lists/read-status-list.js';
import { StatusListError } from '../../src/revocation/lists/status-list-error.js';
import { newTokenIssuer, signToken } from '../revocation/tokens.js';
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
    for (const form of ['credential', 'raw'] as const) {
      const options = { form, id: 'any', nowMs: Date.UTC(2026, 0) };
      try {
        const { bits: found } = await readStatusList(Buffer.from(text), 'application/octet-stream', options);
        if (form === 'raw') {
          if (/^[\s\ufeff]*[[{<]/.test(text)) throw new Error('JSON or a web page was read as raw bits');
          continue;
        }
        if (found.length > MAX_UNPACKED_BYTES) throw new Error(`${found.length} bytes were unpacked`);
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

const lst = (bytes: Uint8Array) => deflateSync(bytes).toString('base64url');
const signer = newTokenIssuer();
const TOKEN = {
  ...{ name: 'https://lists.example/1', issuer: resolveIssuer(signer.did, DEFAULT_KEYS), maxBytes: 4096 },
  ...{ nowMs: Date.UTC(2026, 0), clockSkewSecs: 30 },
};

const token: Target = {
  name: 'token-status-list',
  texts: fc
    .tuple(
      fc.uint8Array({ maxLength: 64 }),
      fc.constantFrom(1, 2, 4, 8),
      fc.dictionary(fc.constantFrom('exp', 'nbf', 'ttl', 'iss'), fc.double()),
    )
    .map(([bytes, size, more]) =>
      JSON.stringify({ sub: TOKEN.name, iat: 1, ...more, status_list: { bits: size, lst: lst(bytes) } }),
    ),
  dictionary: [
    ...['"lst":"', 'eNr', '"bits":3,', '"status_list":', '"exp":1e999,', '"ttl":0,', 'null', '"sub":"x",'],
    lst(new Uint8Array(1_000_000)),
  ],
  async run(text) {
    try {
      const found = await readTokenList(Buffer.from(signToken(text, signer)), TOKEN);
      if (found.bits.length > TOKEN.maxBytes) throw new Error(`${found.bits.length} bytes were unpacked`);
      const packed = /"lst":"([\w-]+)"/.exec(text)?.[1];
      if (packed !== undefined && text.split('"lst"').length === 2)
        same(
          'the bits',
          found.bits.toString('hex'),
          inflateSync(Buffer.from(packed, 'base64url')).toString('hex'),
        );
    } catch (error) {
      if (!(error instanceof StatusListError)) throw error;
      if (error.message.length > 1_000)
        throw new Error('a message as long as what was sent', { cause: error });
    }
  },
};

const file: Target = {
  name: 'revocation-file',
  texts: fc
    .array(
      fc.oneof(
        fc.nat().map((index) => `{"status_list_index":${index}}`),
        fc.constantFrom(
          `{"receipt":"sha256:${'0'.repeat(64)}","exp":7}`,
          '{"did":"did:key:z1","reason":"#"}',
          '{"status_list_index":7,"at":"2026-11-25T03:12:00.000Z"}',
          '{"status_list_index":7,"root":"did:key:z1"}',
          '{"jti":"dr:1","iss":"did:key:z1"}',
        ),
      ),
    )
    .map((lines) => lines.join('\n')),
  dictionary: ['\n', '\r\n', ' ', '\t', '9007199254740992', '-', '.', '\u0000', 'é', '"at":null,', '}{'],
  run(text) {
    for (const line of text.split('\n')) {
      const entry = readEntry(line);
      if (typeof entry === 'string') continue;
      const written = lineOf(entry);
      same('what is written', readEntry(written), entry);
      if (written.indexOf('\n') !== written.length - 1) throw new Error('an entry of several lines');
      // A write that was not finished is none.
      if (typeof readEntry(written.slice(0, -2)) !== 'string') throw new Error('a part of an entry is one');
    }
  },
  time: (text) => void text.split('\n').map((line) => readEntry(line)),
};

export const targets: readonly Target[] = [list, token, file];
