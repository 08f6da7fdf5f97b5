import fc from 'fast-check';
import { readBundle } from '../../src/protocol/bundle.js';
import { parseCompactJwt } from '../../src/protocol/jwt.js';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import { parseStrictJson } from '../../src/protocol/json.js';
import { fromBase64url, keyOfDid } from '../oracle/encoding.js';
import { faithful } from '../oracle/jcs.js';
import { depthOf, hasDuplicateNames, readJson } from '../oracle/json.js';
import { readJwt } from '../oracle/jwt.js';
import { didOf, WEAK_DIDS, ODD_DIDS } from '../oracle/generator/keys.js';
import { ODD, ODD_HEADERS } from '../oracle/generator/values.js';
import { same, scribble, type Target } from './target.js';
import { bundles, jwts } from './vectors.js';

/** Functions that read one text: JSON, tokens, identifiers, bundles in a header. Each is compared with the oracle's. */

const JSON_WORDS = [
  ...[
    ...['{', '}', '[', ']', ',', ':', '"', '"a":', '{"a":1,"a":2}', '\\u0061', '\\ud800', '\\udc00'],
    '"__proto__":',
  ],
  ...['1e400', '-0', '9007199254740993', '1E-7', '0.1', '01', 'null', 'true', ' ', '\n', '\ufeff', '\u0000'],
  ...['['.repeat(64), ']'.repeat(64), '{"a":'.repeat(63)],
];

const json: Target = {
  name: 'json',
  texts: fc.oneof(fc.json({ maxDepth: 4 }), fc.constantFrom(...ODD), fc.string()),
  seeds: bundles(),
  dictionary: JSON_WORDS,
  run(text) {
    if (text.length > 20_000) return;
    scribble(parseStrictJson(text));
    const { value, defect } = parseStrictJson(text);
    const read = readJson(text);
    const isStrict =
      read !== undefined && !hasDuplicateNames(read) && depthOf(read) <= 64 && faithful(read) !== undefined;
    same(`strict reading of ${JSON.stringify(text)}`, defect === undefined, isStrict);
    if (defect === undefined) same('its value', value, JSON.parse(text));
  },
  time: (text) => void parseStrictJson(text),
};

const segment = (text: string) => Buffer.from(text).toString('base64url');
const payloadOf = (text: string): unknown =>
  JSON.parse(Buffer.from(text.split('.')[1] ?? '', 'base64url').toString());

const jwt: Target = {
  name: 'jwt',
  texts: fc
    .tuple(fc.constantFrom(...ODD_HEADERS), fc.json(), fc.uint8Array({ maxLength: 70 }))
    .map(([header, payload, bytes]) => `${segment(header)}.${segment(payload)}.${segment(String(bytes))}`),
  seeds: jwts(),
  dictionary: [
    '.',
    '..',
    '=',
    '+',
    '/',
    '-',
    '_',
    'é',
    segment('{"alg":"none"}'),
    segment('{"crit":[]}'),
    '\n',
    'AA',
  ],
  run(text) {
    scribble(parseCompactJwt(text));
    const parsed = parseCompactJwt(text);
    const read = readJwt(text);
    same(`whether ${JSON.stringify(text)} is a JWT`, parsed.defect === undefined, read !== undefined);
    if (parsed.defect === undefined && read !== undefined) {
      same('its signature', Buffer.from(parsed.signature).toString('hex'), read.signature.toString('hex'));
      same('its claims', parsed.payload, payloadOf(text));
      same('what is signed', text.slice(0, parsed.signingInputLength), read.signed.toString());
    }
  },
  time: (text) => void parseCompactJwt(text),
};

const didKey: Target = {
  name: 'did-key',
  texts: fc.oneof(
    fc.nat(11).map(didOf),
    fc.constantFrom(...WEAK_DIDS, ...ODD_DIDS),
    fc.string().map((text) => `did:key:z${text}`),
  ),
  dictionary: ['did:key:', 'z', 'z6Mk', '1', '11', '0', 'O', 'l', '#', '?', ' ', 'did:web:', 'u', 'é'],
  run(text) {
    const hex = (bytes: Uint8Array | null | undefined) => bytes && Buffer.from(bytes).toString('hex');
    same(`the key of ${JSON.stringify(text)}`, hex(publicKeyOf(text)) ?? null, hex(keyOfDid(text)) ?? null);
  },
  time: (text) => void publicKeyOf(`did:key:z${text}`),
};

const header: Target = {
  name: 'header',
  texts: fc.oneof(fc.json().map(segment), fc.string(), fc.base64String()),
  seeds: bundles().map(segment),
  dictionary: ['=', '==', '===', ',', ' ', 'e30', 'e30=', '-_', '+/', 'é', segment('{"a":1,"a":2}')],
  run(text) {
    scribble(readBundle(text));
    const bundle = readBundle(text);
    const padding = text.length % 4 === 0 ? (/={1,2}$/.exec(text)?.[0].length ?? 0) : 0;
    const bytes = fromBase64url(text.slice(0, text.length - padding));
    let read;
    try {
      read = bytes && readJson(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
    } catch {
      read = undefined;
    }
    const isStrict =
      read !== undefined && !hasDuplicateNames(read) && depthOf(read) <= 64 && faithful(read) !== undefined;
    same(`whether ${JSON.stringify(text)} carries a bundle`, bundle.defect === undefined, isStrict);
  },
  time: (text) => void readBundle(text),
};

export const targets: readonly Target[] = [json, jwt, didKey, header];
