import { Raw, request, signedRequest, unsignedJwt, type Attack } from './attacker.js';
import { family, fit, list, members, type Family } from './family.js';

/** Up to so many items, separated by commas. */
const most = (limit: number, count: number, make: (index: number) => string) =>
  list(Math.max(1, Math.min(limit, Math.floor(count))), make).join(',');

const values = {
  'long text': (size: number) => JSON.stringify('x'.repeat(size)),
  quotes: (size: number) => JSON.stringify('"'.repeat(size / 2)),
  controls: (size: number) => JSON.stringify('\u0001'.repeat(size / 6)),
  'not ASCII': (size: number) => JSON.stringify('é'.repeat(size / 2)),
  surrogates: (size: number) => `"${'\\ud83d\\ude00'.repeat(size / 12)}"`,
  'lone surrogates': (size: number) => `"${'\\ud800'.repeat(size / 6)}"`,
  'empty arrays': (size: number) => `[${list(Math.floor(size / 3) + 1, () => '[]').join(',')}]`,
  'empty objects': (size: number) => `[${list(Math.floor(size / 3) + 1, () => '{}').join(',')}]`,
  members: (size: number) => members(size / 10, (index) => `"k${index}":1`),
  'integer members': (size: number) => members(size / 12, (index) => `"${index * 7919}":1`),
  'small objects': (size: number) =>
    `[${list(Math.floor(size / 12) + 1, (index) => `{"k${index}":0}`).join(',')}]`,
  texts: (size: number) => `[${list(Math.floor(size / 5) + 1, (index) => `"${index % 100}"`).join(',')}]`,
  numbers: (size: number) => `[${list(Math.floor(size / 4) + 1, (index) => index % 1000).join(',')}]`,
  'distinct texts': (size: number) =>
    `[${list(Math.floor(size / 9) + 1, (index) => `"${index}"`).join(',')}]`,
  'distinct numbers': (size: number) => `[${list(Math.floor(size / 7) + 1, (index) => index).join(',')}]`,
  // As many as a text may hold, where the others hold too many to be read.
  'most short texts': (size: number) => `[${most(32_000, size / 9, (index) => `"${index}"`)}]`,
  'most texts': (size: number) =>
    `[${most(32_000, size / 34, (index) => `"${String(index).padStart(29, 'x')}"`)}]`,
  'most numbers': (size: number) => `[${most(32_000, size / 7, String)}]`,
  'most fractions': (size: number) => `[${most(32_000, size / 23, (index) => `${index}.797693134862315`)}]`,
  'most members': (size: number) => `{${most(12_000, size / 12, (index) => `"k${index}":1`)}}`,
  'most objects': (size: number) => `[${most(6_000, size / 14, (index) => `{"k${index}":0}`)}]`,
  fractions: (size: number) =>
    `[${list(Math.floor(size / 22) + 1, () => '1.7976931348623157e300').join(',')}]`,
  'short fractions': (size: number) => `[${list(Math.floor(size / 4) + 1, () => '0.1').join(',')}]`,
  exponents: (size: number) => `[${list(Math.floor(size / 4) + 1, () => '1e1').join(',')}]`,
  'empty texts': (size: number) => `[${list(Math.floor(size / 3) + 1, () => '""').join(',')}]`,
  deep: (size: number) => '['.repeat(size / 2) + ']'.repeat(size / 2),
  'deep objects': (size: number) => `${'{"a":'.repeat(size / 6)}1${'}'.repeat(size / 6)}`,
  digits: (size: number) => `1${'0'.repeat(size)}`,
  'fraction digits': (size: number) => `0.${'3'.repeat(size)}`,
} as const;
const valueNames = Object.keys(values) as (keyof typeof values)[];

const RECEIPT_CLAIMS = [
  ...['iss', 'aud', 'sub', 'cmd', 'policy', 'iat', 'jti', 'prev_dr_hash', 'exp', 'drs_type', 'drs_v'],
  ...['drs_root_type', 'drs_consent', 'drs_status_list_index', 'unknown'],
] as const;

/** One claim of the receipts is huge, of the right type or not. */
const receiptClaim = family(
  'claims: one huge claim in a receipt',
  { claim: RECEIPT_CLAIMS, value: valueNames, depth: [1, 2, 16], at: ['first', 'last', 'all'] },
  ({ claim, value, depth, at }, budget) =>
    fit(budget, (size) => {
      const huge = new Raw(values[value](size));
      return signedRequest({
        depth,
        receipt: (level) =>
          at === 'all' || level === (at === 'first' ? 0 : depth - 1) ? { [claim]: huge } : {},
      });
    }),
);

const INVOCATION_CLAIMS = [
  ...['iss', 'sub', 'cmd', 'args', 'dr_chain', 'iat', 'jti', 'tool_server', 'drs_type'],
] as const;

/** One claim of the invocation is huge, of the right type or not. */
const invocationClaim = family(
  'claims: one huge claim in the invocation',
  { claim: INVOCATION_CLAIMS, value: valueNames, prefix: ['', 'inv:', '/', 'did:key:z'] },
  ({ claim, value, prefix }, budget) =>
    fit(budget, (size) => {
      const text = values[value](size);
      const prefixed = text.startsWith('"') ? `"${prefix}${text.slice(1)}` : text;
      return signedRequest({ invocation: { [claim]: new Raw(prefixed) } });
    }),
);

/** An argument is huge: one that a policy limits, or any other. */
const argument = family(
  'claims: one huge argument',
  {
    name: ['tool', 'estimated_cost_usd', 'pii_access', 'resource_uri', 'data_class', 'query'],
    value: valueNames,
    depth: [1, 16],
    body: ['none', 'equal', 'other'],
  },
  ({ name, value, depth, body }, budget) =>
    fit(budget, (size) => {
      const huge = values[value](size);
      const attack: Attack = {
        depth,
        receipt: () => ({
          policy: { allowed_tools: ['*'], max_cost_usd: 1, pii_access: false, allowed_resources: ['*'] },
        }),
        invocation: { args: { [name]: new Raw(huge) } },
      };
      if (body === 'none') return signedRequest(attack);
      return signedRequest({
        ...attack,
        body: `{"${name}":${body === 'equal' ? huge : huge.replace(/.$/, ' $&')}}`,
      });
    }),
);

const segments = {
  'short segments': (size: number) => '/a'.repeat(size / 2),
  'one long segment': (size: number) => `/${'a'.repeat(size)}`,
  'dots at the end': (size: number) => `${'/a'.repeat(size / 2)}/..`,
  dots: (size: number) => '/...'.repeat(size / 4),
  slashes: (size: number) => '/'.repeat(size),
  'line feeds': (size: number) => '/\n'.repeat(size / 2),
  'not a path': (size: number) => `${'/a'.repeat(size / 2)}/`,
} as const;

/** Command paths with many segments. */
const command = family(
  'claims: command paths',
  { path: Object.keys(segments) as (keyof typeof segments)[], depth: [1, 2, 16], longer: ['same', 'longer'] },
  ({ path, depth, longer }, budget) =>
    fit(budget, (size) => {
      const cmd = segments[path](size);
      const under = (level: number) => (longer === 'longer' ? `${cmd}${'/z'.repeat(level)}` : cmd);
      return signedRequest({
        depth,
        receipt: (level) => ({ cmd: under(level) }),
        invocation: { cmd: under(depth) },
      });
    }),
);

/** A dr_chain that is long, or has odd entries. */
const drChain = family(
  'claims: dr_chain',
  { entry: ['hash', 'empty', 'number', 'array', 'long'], depth: [1, 16] },
  ({ entry, depth }, budget) =>
    fit(budget, (count) => {
      const item = {
        hash: `sha256:${'0'.repeat(64)}`,
        empty: '',
        number: 1,
        array: [],
        long: 'x'.repeat(count),
      };
      return signedRequest({
        depth,
        invocation: { dr_chain: list(entry === 'long' ? depth : count, () => item[entry]) },
      });
    }),
);

/** A consent record that is huge or odd. */
const consent = family(
  'claims: consent',
  {
    member: ['locale', 'method', 'policy_hash', 'session_id', 'timestamp', 'unknown', 'all of it'],
    value: valueNames,
  },
  ({ member, value }, budget) =>
    fit(budget, (size) => {
      const huge = new Raw(values[value](size));
      const ordinary = {
        locale: 'en',
        method: 'm',
        policy_hash: `sha256:${'0'.repeat(64)}`,
        session_id: 's',
        timestamp: '2026-01-01T00:00:00Z',
      };
      return signedRequest({
        receipt: () => ({ drs_consent: member === 'all of it' ? huge : { ...ordinary, [member]: huge } }),
      });
    }),
);

/** DIDs that are nearly keys, or not keys at all. */
const did = family(
  'claims: did:key texts',
  { text: ['1', 'z', '0', 'é', '6Mk'], length: [47, 46, 48, 'all'], depth: [16, 1] },
  ({ text, length, depth }, budget) =>
    fit(budget, (size) => {
      const digits = text.repeat((length === 'all' ? size : length) / text.length);
      const filling = length === 'all' ? '' : 'x'.repeat(size);
      const name = `did:key:z${digits}`;
      return signedRequest({
        depth,
        receipt: () => ({ iss: name, aud: name, sub: name, filling }),
        invocation: { iss: name, sub: name },
      });
    }),
);

/** Receipts of full size at every level, with valid or invalid signatures. */
const signature = family(
  'signatures: many long receipts',
  {
    depth: [16, 1, 4, 17],
    alter: ['nothing', 'first digit', 'longer', 'empty'],
    claim: ['filling', 'jti', 'iss'],
  },
  ({ depth, alter, claim }, budget) =>
    fit(budget, (size) => {
      const change = {
        nothing: (jwt: string) => jwt,
        'first digit': (jwt: string) =>
          jwt.replace(
            /\.([^.])([^.]*)$/,
            (_all, first: string, rest: string) => `.${first === 'A' ? 'B' : 'A'}${rest}`,
          ),
        longer: (jwt: string) => jwt + 'AAAA'.repeat(size / 4),
        empty: (jwt: string) => jwt.slice(0, jwt.lastIndexOf('.') + 1),
      }[alter];
      return signedRequest({
        depth,
        receipt: () => ({ [claim]: `dr:${'x'.repeat(size)}` }),
        alter: change,
      });
    }),
);

/** Claims that are read although they are not signed. */
const unsigned = family(
  'claims: unsigned, in every JWT',
  { value: valueNames, depth: [16, 1, 4], claim: ['drs_type', 'unknown', 'policy'] },
  ({ value, depth, claim }, budget) =>
    fit(budget, (size) => {
      const payload = `{"${claim}":${values[value](size)},"drs_type":"delegation-receipt"}`;
      const jwt = unsignedJwt(payload);
      return request({ receipts: JSON.stringify(list(depth, () => jwt)), invocation: JSON.stringify(jwt) });
    }),
);

/** Claims of every type, signed and not. */
export const claimFamilies: readonly Family[] = [
  receiptClaim,
  invocationClaim,
  argument,
  command,
  drChain,
  consent,
  did,
  signature,
  unsigned,
];
export { valueNames, values };
