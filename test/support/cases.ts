import type { TrustedRoot, VerifierOptions } from '../../src/index.js';
import {
  childClaims,
  HEADER,
  invocationClaims,
  invoke,
  makeBundle,
  makeChain,
  NOW,
  party,
  rootClaims,
  sha256,
  signJwt,
  type Chain,
  type Overrides,
  type Party,
  type TestBundle,
  CONSENT,
} from './chain.js';

/** A bundle that is refused, and why. */
export interface RefusedCase {
  readonly name: string;
  readonly code: string;
  readonly block: string;
  /** A text that the message must contain: the place, what was found, or what was expected. */
  readonly says: RegExp;
  readonly bundle: unknown;
  readonly options?: VerifierOptions;
  /** Indices, receipts and keys that are revoked beforehand. */
  readonly revoked?: readonly (number | { readonly receipt: string } | { readonly did: string })[];
}

const OTHER = party();

/** A bundle with three receipts, of which receipt `at` has other claims. */
const withClaims = (at: number, overrides: Overrides): TestBundle =>
  invoke(makeChain(3, { [at]: overrides }));
const withInvocation = (overrides: Overrides): TestBundle => invoke(makeChain(3), overrides);

/** A bundle with three receipts. `make` returns receipt `at`, and all later ones refer to it. */
function withReceipt(at: number, make: (claims: Overrides, issuer: Party) => string): TestBundle {
  const parties = Array.from({ length: 4 }, party) as [Party, Party, Party, Party];
  const receipts: string[] = [];
  for (let index = 0; index < 3; index++) {
    const [issuer, audience] = [parties[index], parties[index + 1]] as [Party, Party];
    const claims =
      index === 0
        ? rootClaims(issuer, audience)
        : childClaims(receipts[index - 1] as string, parties[0], issuer, audience);
    receipts.push(index === at ? make(claims, issuer) : signJwt(claims, issuer));
  }
  return {
    bundle_version: '4.0',
    invocation: signJwt(invocationClaims(receipts, parties[0], parties[3]), parties[3]),
    receipts,
  };
}

/** An ordinary bundle whose invocation is made by `make`. */
function withInvocationJwt(make: (claims: Overrides, invoker: Party) => string): TestBundle {
  const chain = makeChain(3);
  const invoker = chain.parties[3] as Party;
  return {
    ...invoke(chain),
    invocation: make(invocationClaims(chain.receipts, chain.parties[0] as Party, invoker), invoker),
  };
}

function flipLast(jwt: string): string {
  const dot = jwt.lastIndexOf('.') + 1;
  const signature = Buffer.from(jwt.slice(dot), 'base64url');
  signature[10] = (signature[10] as number) ^ 1;
  return jwt.slice(0, dot) + signature.toString('base64url');
}

function cutSignature(jwt: string, bytes: number): string {
  const dot = jwt.lastIndexOf('.') + 1;
  return (
    jwt.slice(0, dot) + Buffer.from(jwt.slice(dot), 'base64url').subarray(0, bytes).toString('base64url')
  );
}

function longSignature(jwt: string): string {
  const dot = jwt.lastIndexOf('.') + 1;
  return (
    jwt.slice(0, dot) +
    Buffer.concat([Buffer.from(jwt.slice(dot), 'base64url'), Buffer.alloc(1)]).toString('base64url')
  );
}

const A = (name: string, code: string, bundle: unknown, says: RegExp): RefusedCase => ({
  name,
  code,
  block: 'A',
  bundle,
  says,
});
const B = (name: string, code: string, bundle: unknown, says: RegExp): RefusedCase => ({
  name,
  code,
  block: 'B',
  bundle,
  says,
});
const C = (name: string, code: string, bundle: unknown, says: RegExp): RefusedCase => ({
  name,
  code,
  block: 'C',
  bundle,
  says,
});
const D = (
  name: string,
  code: string,
  bundle: unknown,
  says: RegExp,
  options?: VerifierOptions,
): RefusedCase => ({
  name,
  code,
  block: 'D',
  bundle,
  says,
  ...(options ? { options } : {}),
});
const E = (name: string, code: string, bundle: unknown, says: RegExp): RefusedCase => ({
  name,
  code,
  block: 'E',
  bundle,
  says,
});

const valid = makeBundle(3);
const [r0, r1, r2] = valid.receipts as [string, string, string];
const foreign = makeBundle(3).receipts as [string, string, string];
const machine = { drs_root_type: 'service', drs_consent: undefined };
const policy = (value: Overrides) => ({ policy: value });

const malformedClaims: readonly (readonly [string, Overrides, RegExp])[] = [
  ['iss missing', { iss: undefined }, /iss is missing/],
  ['aud a number', { aud: 7 }, /aud is 7/],
  ['sub null', { sub: null }, /sub is null/],
  ['cmd without a slash', { cmd: 'mcp/tools' }, /cmd is "mcp\/tools"/],
  ['cmd with an empty segment', { cmd: '/mcp//call' }, /cmd is/],
  ['cmd with a trailing slash', { cmd: '/mcp/tools/' }, /cmd is/],
  ['cmd with a dot segment', { cmd: '/mcp/../admin' }, /cmd is/],
  ['policy missing', { policy: undefined }, /policy is missing/],
  ['policy an array', { policy: [] }, /policy is \[\]/],
  ['allowed_tools a string', policy({ allowed_tools: '*' }), /policy.allowed_tools is "\*"/],
  ['allowed_tools with a number', policy({ allowed_tools: [1] }), /policy.allowed_tools/],
  ['max_cost_usd a string', policy({ max_cost_usd: '5' }), /policy.max_cost_usd is "5"/],
  ['max_cost_usd negative', policy({ max_cost_usd: -1 }), /policy.max_cost_usd is -1/],
  [
    'a list of 4,097 entries',
    policy({ allowed_tools: Array.from({ length: 4097 }, (_, at) => `t${at}`) }),
    /policy.allowed_tools is .*at most 4096 strings/,
  ],
  ['max_calls a fraction', policy({ max_calls: 1.5 }), /policy.max_calls is 1.5/],
  ['max_calls 2^53', policy({ max_calls: 2 ** 53 }), /policy.max_calls is 9007199254740992/],
  ['max_delegations negative', policy({ max_delegations: -1 }), /policy.max_delegations is -1/],
  ['max_delegations 1e308', policy({ max_delegations: 1e308 }), /policy.max_delegations is 1e\+308/],
  ['max_total_cost_usd a string', policy({ max_total_cost_usd: '5' }), /policy.max_total_cost_usd is "5"/],
  ['max_total_cost_usd negative', policy({ max_total_cost_usd: -1 }), /policy.max_total_cost_usd is -1/],
  [
    'max_total_cost_usd 2^53',
    policy({ max_total_cost_usd: 2 ** 53 }),
    /policy.max_total_cost_usd is 9007199254740992, expected a number from 0 to 1000000000/,
  ],
  ['pii_access a string', policy({ pii_access: 'no' }), /policy.pii_access/],
  ['write_access a number', policy({ write_access: 0 }), /policy.write_access/],
  ['allowed_resources an object', policy({ allowed_resources: {} }), /policy.allowed_resources/],
  [
    'allowed_data_classes a string',
    policy({ allowed_data_classes: 'public' }),
    /policy.allowed_data_classes/,
  ],
  ['iat a string', { iat: '1' }, /iat is "1"/],
  ['nbf negative', { nbf: -1 }, /nbf is -1/],
  ['nbf missing', { nbf: undefined }, /nbf is missing/],
  ['exp a fraction', { exp: NOW + 0.5 }, /exp is/],
  ['exp missing under a human root', { exp: undefined }, /exp is missing.*human root/],
  ['exp null under a human root', { exp: null }, /exp is null/],
  ['jti a number', { jti: 1 }, /jti is 1/],
  ['prev_dr_hash a number', { prev_dr_hash: 1 }, /prev_dr_hash is 1/],
  ['drs_status_list_index negative', { drs_status_list_index: -1 }, /drs_status_list_index is -1/],
  ['drs_status_list_index 2^53', { drs_status_list_index: 2 ** 53 }, /drs_status_list_index/],
];

const malformedInvocations: readonly (readonly [string, Overrides, RegExp])[] = [
  ['args an array', { args: [] }, /args is \[\]/],
  ['args missing', { args: undefined }, /args is missing/],
  ['dr_chain a string', { dr_chain: 'x' }, /dr_chain is "x"/],
  ['dr_chain with a number', { dr_chain: [1, 2, 3] }, /dr_chain is/],
  ['tool_server empty', { tool_server: '' }, /tool_server is ""/],
  ['tool_server missing', { tool_server: undefined }, /tool_server is missing/],
  ['iat missing', { iat: undefined }, /iat is missing/],
  ['cmd missing', { cmd: undefined }, /cmd is missing/],
  ['sub missing', { sub: undefined }, /sub is missing/],
  ['iss missing', { iss: undefined }, /iss is missing/],
  ['jti missing', { jti: undefined }, /jti is missing/],
];

const escalations: readonly (readonly [string, Overrides, Overrides, RegExp])[] = [
  ['a tool more', { allowed_tools: ['a'] }, { allowed_tools: ['a', 'b'] }, /allowed_tools/],
  ['any tool', { allowed_tools: ['a'] }, { allowed_tools: ['*'] }, /allowed_tools/],
  ['no list of tools', { allowed_tools: ['a'] }, {}, /allowed_tools is missing/],
  ['a higher cost', { max_cost_usd: 5 }, { max_cost_usd: 5.01 }, /max_cost_usd is 5.01, expected at most 5/],
  ['no cost limit', { max_cost_usd: 5 }, {}, /max_cost_usd is missing/],
  ['more calls', { max_calls: 1 }, { max_calls: 2 }, /max_calls/],
  ['no limit of calls', { max_calls: 1 }, {}, /max_calls/],
  [
    'a higher cost of all calls',
    { max_total_cost_usd: 5 },
    { max_total_cost_usd: 5.01 },
    /max_total_cost_usd is 5.01, expected at most 5/,
  ],
  ['no limit of the cost of all calls', { max_total_cost_usd: 5 }, {}, /max_total_cost_usd is missing/],
  ['null calls', { max_calls: 1 }, { max_calls: null }, /max_calls/],
  [
    'more delegations',
    { max_delegations: 1 },
    { max_delegations: 2 },
    /max_delegations is 2, expected at most 1/,
  ],
  ['personal data', { pii_access: false }, { pii_access: true }, /pii_access/],
  ['writing', { write_access: false }, { write_access: true }, /write_access/],
  [
    'another resource',
    { allowed_resources: ['file:///a/*'] },
    { allowed_resources: ['file:///b'] },
    /allowed_resources/,
  ],
  ['any resource', { allowed_resources: ['file:///a/*'] }, { allowed_resources: ['*'] }, /allowed_resources/],
  [
    'a resource by dots',
    { allowed_resources: ['file:///a/*'] },
    { allowed_resources: ['file:///a/../b/*'] },
    /allowed_resources/,
  ],
  ['no list of resources', { allowed_resources: ['file:///a/*'] }, {}, /allowed_resources/],
  ['a list of null', { allowed_tools: ['search'] }, { allowed_tools: null }, /allowed_tools/],
  ['a cost limit of null', { max_cost_usd: 5 }, { max_cost_usd: null }, /max_cost_usd/],
  [
    'a resource beside a prefix that sorts before it',
    { allowed_resources: ['file:///a/*', 'file:///a/b/*', 'file:///a/b/c'] },
    { allowed_resources: ['file:///a/b/c', 'file:///ab/c'] },
    /allowed_resources/,
  ],
  [
    'a resource by a tab between the dots',
    { allowed_resources: ['file:///a/*'] },
    { allowed_resources: ['file:///a/.\t./b'] },
    /allowed_resources/,
  ],
  [
    'a data class more',
    { allowed_data_classes: ['public'] },
    { allowed_data_classes: ['secret'] },
    /allowed_data_classes/,
  ],
  ['a changed other member', { region: { eu: true } }, { region: { eu: false } }, /policy.region/],
  ['a dropped other member', { region: 'eu' }, {}, /policy.region is missing/],
  [
    'a dropped other member that every object inherits',
    JSON.parse('{"__proto__":{}}') as Overrides,
    {},
    /policy.__proto__ is missing/,
  ],
];

const violations: readonly (readonly [string, Overrides, Overrides, RegExp])[] = [
  ['another tool', { allowed_tools: ['a'] }, { tool: 'b' }, /args.tool is "b".*allowed_tools/],
  ['no tool allowed', { allowed_tools: [] }, { tool: 'b' }, /args.tool/],
  ['tool missing', { allowed_tools: ['a'] }, {}, /args.tool is missing/],
  ['tool of the wrong type', { allowed_tools: ['a'] }, { tool: ['a'] }, /args.tool/],
  ['too costly', { max_cost_usd: 5 }, { estimated_cost_usd: 5.5 }, /args.estimated_cost_usd is 5.5/],
  ['a negative cost', { max_cost_usd: 5 }, { estimated_cost_usd: -1 }, /args.estimated_cost_usd is -1/],
  ['a cost in words', { max_cost_usd: 5 }, { estimated_cost_usd: '1' }, /args.estimated_cost_usd/],
  ['a cost of null', { max_cost_usd: 5 }, { estimated_cost_usd: null }, /args.estimated_cost_usd is null/],
  ...(
    [
      ['no stated cost', 5, {}, /args.estimated_cost_usd is missing.*what max_total_cost_usd 5 allows/],
      ['a stated cost of null', 5, { estimated_cost_usd: null }, /args.estimated_cost_usd is null/],
      ['a stated cost in words', 5, { estimated_cost_usd: '1' }, /args.estimated_cost_usd/],
      ['a negative stated cost', 5, { estimated_cost_usd: -1 }, /args.estimated_cost_usd is -1/],
      [
        'a call that costs more than all may',
        5,
        { estimated_cost_usd: 5.0000001 },
        /args.estimated_cost_usd/,
      ],
      [
        'a part of a micro-dollar under a limit of 0',
        0,
        { estimated_cost_usd: 1e-7 },
        /args.estimated_cost_usd/,
      ],
      ['a cost beyond what is counted', 1e9, { estimated_cost_usd: 1e308 }, /args.estimated_cost_usd/],
    ] as const
  ).map(([name, limit, args, says]) => [name, { max_total_cost_usd: limit }, args, says] as const),
  ['personal data', { pii_access: false }, { pii_access: true }, /args.pii_access is true/],
  ['personal data of the wrong type', { pii_access: false }, { pii_access: 'yes' }, /args.pii_access/],
  ['writing', { write_access: false }, { write_access: true }, /args.write_access/],
  [
    'another resource',
    { allowed_resources: ['file:///a/*'] },
    { resource_uri: 'file:///b' },
    /args.resource_uri/,
  ],
  [
    'a resource by dots',
    { allowed_resources: ['file:///a/*'] },
    { resource_uri: 'file:///a/../b' },
    /args.resource_uri/,
  ],
  [
    'a resource by encoded dots',
    { allowed_resources: ['file:///a/*'] },
    { resource_uri: 'file:///a/%2E%2e/b' },
    /args.resource_uri/,
  ],
  [
    'a resource by an encoded slash',
    { allowed_resources: ['file:///a/*'] },
    { resource_uri: 'file:///a/..%2fb' },
    /args.resource_uri/,
  ],
  ['a resource of the wrong type', { allowed_resources: ['*'] }, { resource_uri: 1 }, /args.resource_uri/],
  ['a tool of the wrong type', { allowed_tools: ['*'] }, { tool: 1 }, /args.tool/],
  ['a data class of the wrong type', { allowed_data_classes: ['*'] }, { data_class: [] }, /args.data_class/],
  ...['.\t./b', '.\n./b', '\u007fb', 'b c', '..\\b', 'c\\b', '%2e./b', '.%2E/b', '%2e%2e%2Fb', 'x/%2e'].map(
    (rest) =>
      [
        `a resource by ${JSON.stringify(rest)}`,
        { allowed_resources: ['file:///a/*'] },
        { resource_uri: `file:///a/${rest}` },
        /args.resource_uri/,
      ] as const,
  ),
  ['another data class', { allowed_data_classes: ['public'] }, { data_class: 'secret' }, /args.data_class/],
];

/** Bundles that every verifier must refuse, at {@link NOW}, with the code and block given. */
export const REFUSED: readonly RefusedCase[] = [
  A('null', 'MALFORMED_BUNDLE', null, /Bundle: the document is null, expected a JSON object/),
  A('an array', 'MALFORMED_BUNDLE', [], /JSON object/),
  A('a string', 'MALFORMED_BUNDLE', 'bundle', /JSON object/),
  A(
    'no bundle_version',
    'MALFORMED_BUNDLE',
    { ...valid, bundle_version: undefined },
    /bundle_version is missing/,
  ),
  A(
    'bundle_version a number',
    'MALFORMED_BUNDLE',
    { ...valid, bundle_version: 4 },
    /bundle_version is 4, expected the string "4.0"/,
  ),
  A('inherited members', 'MALFORMED_BUNDLE', Object.create(valid) as unknown, /bundle_version is missing/),
  A(
    'receipts a string',
    'MALFORMED_BUNDLE',
    { ...valid, receipts: r0 },
    /Bundle: receipts is .*, expected an array of JWT strings/,
  ),
  A('receipts null', 'MALFORMED_BUNDLE', { ...valid, receipts: null }, /receipts is null/),
  A('receipts with a number', 'MALFORMED_BUNDLE', { ...valid, receipts: [r0, 1] }, /receipts/),
  A(
    'invocation an object',
    'MALFORMED_BUNDLE',
    { ...valid, invocation: {} },
    /invocation is {}, expected a JWT string/,
  ),
  A(
    'another bundle_version',
    'VERSION_MISMATCH',
    { ...valid, bundle_version: '3.0' },
    /Bundle: bundle_version is "3.0", expected "4.0"/,
  ),
  A(
    'no receipts',
    'EMPTY_CHAIN',
    { ...valid, receipts: [] },
    /Bundle: receipts is \[\], expected at least one delegation receipt/,
  ),
  A('receipts missing', 'EMPTY_CHAIN', { ...valid, receipts: undefined }, /receipts is missing/),
  A(
    '17 receipts',
    'CHAIN_TOO_DEEP',
    { ...valid, receipts: Array.from({ length: 17 }, () => r0) },
    /receipts holds 17 receipts, expected at most 16/,
  ),
  A(
    'invocation missing',
    'MISSING_INVOCATION',
    { ...valid, invocation: undefined },
    /invocation is missing, expected an invocation receipt/,
  ),
  A('invocation empty', 'MISSING_INVOCATION', { ...valid, invocation: '' }, /invocation is ""/),
  A('an empty receipt', 'MALFORMED_RECEIPT', { ...valid, receipts: [r0, '', r2] }, /Receipt 1 is malformed/),
  A(
    'a receipt of two segments',
    'MALFORMED_RECEIPT',
    { ...valid, receipts: [r0, 'a.b', r2] },
    /Receipt 1.*2 segments/,
  ),
  A(
    'an invocation of two segments',
    'MALFORMED_INVOCATION',
    { ...valid, invocation: 'a.b' },
    /Invocation.*2 segments/,
  ),
  A(
    'a receipt with crit',
    'MALFORMED_RECEIPT',
    withReceipt(1, (c, k) => signJwt(c, k, { ...HEADER, crit: [] })),
    /Receipt 1.*crit/,
  ),
  A(
    'a receipt with a duplicate',
    'MALFORMED_RECEIPT',
    withReceipt(0, (c, k) => signJwt(`{"x":1,"x":2,${JSON.stringify(c).slice(1)}`, k)),
    /"x" occurs twice/,
  ),
  A(
    'arguments that a double rounds',
    'MALFORMED_INVOCATION',
    withInvocationJwt((c, k) =>
      signJwt(JSON.stringify(c).replace('"query":"tea"', '"query":9007199254740993'), k),
    ),
    /9007199254740993/,
  ),
  A(
    'arguments with a duplicate',
    'MALFORMED_INVOCATION',
    withInvocationJwt((c, k) =>
      signJwt(JSON.stringify(c).replace('"query":"tea"', '"query":"tea","\\u0071uery":"x"'), k),
    ),
    /"query" occurs twice/,
  ),
  A(
    'an invocation among the receipts',
    'WRONG_TYPE',
    { ...valid, receipts: [r0, valid.invocation] },
    /Receipt 1: drs_type is "invocation-receipt"/,
  ),
  A('a receipt as the invocation', 'WRONG_TYPE', { ...valid, invocation: r2 }, /Invocation: drs_type/),
  A(
    'drs_type missing',
    'WRONG_TYPE',
    withClaims(1, { drs_type: undefined }),
    /Receipt 1: drs_type is missing/,
  ),
  A('another drs_v', 'VERSION_MISMATCH', withClaims(2, { drs_v: '3.0' }), /Receipt 2: drs_v is "3.0"/),
  A(
    'drs_v missing',
    'VERSION_MISMATCH',
    withInvocation({ drs_v: undefined }),
    /Invocation: drs_v is missing/,
  ),
  ...malformedClaims.map(([name, overrides, says]) =>
    A(name, 'MALFORMED_RECEIPT', withClaims(1, overrides), says),
  ),
  ...malformedInvocations.map(([name, overrides, says]) =>
    A(`invocation: ${name}`, 'MALFORMED_INVOCATION', withInvocation(overrides), says),
  ),
  A(
    'drs_root_type a number',
    'MALFORMED_RECEIPT',
    withClaims(0, { drs_root_type: 1 }),
    /Receipt 0.*drs_root_type/,
  ),
  A('consent a string', 'MALFORMED_RECEIPT', withClaims(0, { drs_consent: 'yes' }), /drs_consent is "yes"/),
  A(
    'consent without a method',
    'MALFORMED_RECEIPT',
    withClaims(0, { drs_consent: { locale: 'en', policy_hash: 'x', session_id: 's', timestamp: 't' } }),
    /drs_consent.method is missing/,
  ),
  A('jti of another form', 'INVALID_JTI', withClaims(0, { jti: 'inv:1' }), /Receipt 0: jti is "inv:1"/),
  A('jti of the prefix alone', 'INVALID_JTI', withClaims(1, { jti: 'dr:' }), /Receipt 1: jti is "dr:"/),
  A(
    'invocation jti of another form',
    'INVALID_JTI',
    withInvocation({ jti: 'dr:1' }),
    /Invocation: jti is "dr:1"/,
  ),
  A(
    'a human root without consent',
    'MISSING_CONSENT',
    withClaims(0, { drs_consent: undefined }),
    /Receipt 0: drs_consent is missing/,
  ),
  ...Object.entries({
    locale: 'en_US',
    method: '',
    policy_hash: 'sha256:0',
    session_id: '',
    timestamp: 'yesterday',
  }).map(([member, text]) =>
    A(
      `a consent with the ${member} ${JSON.stringify(text)}`,
      'INVALID_CONSENT',
      withClaims(0, { drs_consent: { ...CONSENT, [member]: text } }),
      new RegExp(`Receipt 0: drs_consent.${member} is ${JSON.stringify(text)}, expected `),
    ),
  ),
  A(
    'a consent of five empty strings at a root that is not human',
    'INVALID_CONSENT',
    withClaims(0, {
      ...machine,
      drs_consent: { locale: '', method: '', policy_hash: '', session_id: '', timestamp: '' },
    }),
    /drs_consent.locale is "", expected a language tag/,
  ),

  B(
    'a root with a parent',
    'CHAIN_BREAK',
    withClaims(0, { prev_dr_hash: `sha256:${'1'.repeat(64)}` }),
    /Receipt 0: prev_dr_hash is "sha256:1.*expected null in the root/,
  ),
  B(
    'a child without a parent',
    'CHAIN_BREAK',
    withClaims(1, { prev_dr_hash: null }),
    /Receipt 1: prev_dr_hash is null, expected "sha256:.* hash of receipt 0/,
  ),
  B(
    'receipts in the wrong order',
    'CHAIN_BREAK',
    { ...valid, receipts: [r0, r2, r1] },
    /Receipt 1: prev_dr_hash/,
  ),
  B('receipts reversed', 'CHAIN_BREAK', { ...valid, receipts: [r2, r1, r0] }, /Receipt 0: prev_dr_hash/),
  B('no root', 'CHAIN_BREAK', { ...valid, receipts: [r1, r2] }, /Receipt 0: prev_dr_hash/),
  B('a receipt twice', 'CHAIN_BREAK', { ...valid, receipts: [r0, r1, r1, r2] }, /Receipt 2: prev_dr_hash/),
  B(
    'a foreign receipt',
    'CHAIN_BREAK',
    { ...valid, receipts: [r0, foreign[1], r2] },
    /Receipt 1: prev_dr_hash/,
  ),
  B(
    'a hash in capitals',
    'CHAIN_BREAK',
    withClaims(1, { prev_dr_hash: 'SHA256:00' }),
    /Receipt 1: prev_dr_hash is "SHA256:00"/,
  ),
  B('another issuer', 'ISSUER_MISMATCH', withClaims(1, { iss: OTHER.did }), /Receipt 1: iss is/),
  B('another audience', 'ISSUER_MISMATCH', withClaims(0, { aud: OTHER.did }), /Receipt 1: iss is/),
  B('another invoker', 'INVOKER_MISMATCH', withInvocation({ iss: OTHER.did }), /Invocation: iss is/),
  B(
    'a shorter dr_chain',
    'CHAIN_REFERENCE_MISMATCH',
    withInvocation({ dr_chain: [] }),
    /length of dr_chain is 0, expected 3/,
  ),
  B(
    'another hash in dr_chain',
    'CHAIN_REFERENCE_MISMATCH',
    withSecondHash('x'),
    /Invocation: dr_chain\[1\] is "x", expected "sha256:/,
  ),
  B('the leaf missing', 'INVOKER_MISMATCH', { ...valid, receipts: [r0, r1] }, /Invocation: iss is/),

  C(
    'algorithm none',
    'UNSUPPORTED_ALGORITHM',
    withReceipt(0, (c, k) => signJwt(c, k, { alg: 'none' })),
    /Receipt 0: the header's alg is "none", expected "EdDSA" or "Ed25519"/,
  ),
  C(
    'algorithm ES256',
    'UNSUPPORTED_ALGORITHM',
    withInvocationJwt((c, k) => signJwt(c, k, { alg: 'ES256' })),
    /Invocation: the header's alg is "ES256"/,
  ),
  C(
    'no algorithm',
    'UNSUPPORTED_ALGORITHM',
    withReceipt(2, (c, k) => signJwt(c, k, {})),
    /Receipt 2: the header's alg is missing/,
  ),
  C(
    'an issuer of another method',
    'UNRESOLVABLE_DID',
    withClaims(0, { iss: 'did:web:example.org' }),
    /Receipt 0: iss is "did:web:example.org"/,
  ),
  C(
    'an issuer with a fragment',
    'UNRESOLVABLE_DID',
    withReceipt(0, (c, k) => signJwt({ ...c, iss: `${k.did}#${k.did.slice(8)}` }, k)),
    /Receipt 0: iss/,
  ),
  C(
    'an invoker of another method',
    'UNRESOLVABLE_DID',
    withInvoker('did:web:example.org'),
    /Invocation: iss/,
  ),
  C(
    'a changed signature',
    'INVALID_SIGNATURE',
    withReceipt(1, (c, k) => flipLast(signJwt(c, k))),
    /Receipt 1: the signature is "[\w-]{86}", expected an Ed25519 signature of 64 bytes by did:key:z/,
  ),
  C(
    'a short signature',
    'INVALID_SIGNATURE',
    withReceipt(1, (c, k) => cutSignature(signJwt(c, k), 63)),
    /Receipt 1: the signature/,
  ),
  C(
    'a long signature',
    'INVALID_SIGNATURE',
    withReceipt(1, (c, k) => longSignature(signJwt(c, k))),
    /Receipt 1: the signature/,
  ),
  C(
    'another key',
    'INVALID_SIGNATURE',
    withReceipt(2, (c) => signJwt(c, OTHER)),
    /Receipt 2: the signature/,
  ),
  C(
    'a changed invocation signature',
    'INVALID_INVOCATION_SIGNATURE',
    withInvocationJwt((c, k) => flipLast(signJwt(c, k))),
    /Invocation: the signature is "[\w-]{86}", expected .* by the last delegate/,
  ),
  C(
    'an invocation by another key',
    'INVALID_INVOCATION_SIGNATURE',
    withInvocationJwt((c) => signJwt(c, OTHER)),
    /Invocation: the signature/,
  ),

  D(
    'a root that speaks for another',
    'SUBJECT_MISMATCH',
    withClaims(0, { sub: OTHER.did }),
    /Receipt 0: sub is .*, expected "did:key:z\w+", its iss: the root principal/,
  ),
  D(
    'a child with another subject',
    'SUBJECT_MISMATCH',
    withClaims(2, { sub: OTHER.did }),
    /Receipt 2: sub is .*, expected "did:key:z\w+", the sub of the root/,
  ),
  D(
    'an invocation with another subject',
    'INVOCATION_SUBJECT_MISMATCH',
    withInvocation({ sub: OTHER.did }),
    /Invocation: sub is .*, expected "did:key:z\w+", the sub of the root/,
  ),
  D(
    'a child with another command',
    'COMMAND_MISMATCH',
    withClaims(1, { cmd: '/mcp/tools/callback' }),
    /Receipt 1: cmd is "\/mcp\/tools\/callback", expected "\/mcp\/tools\/call" or/,
  ),
  D('a child with a shorter command', 'COMMAND_MISMATCH', withClaims(2, { cmd: '/mcp' }), /Receipt 2: cmd/),
  D(
    'an invocation with another command',
    'COMMAND_MISMATCH',
    withInvocation({ cmd: '/mcp/tools/callback' }),
    /Invocation: cmd is .*, expected "\/mcp\/tools\/call" or/,
  ),
  D(
    'an invocation for another server',
    'TOOL_SERVER_MISMATCH',
    valid,
    /Invocation: tool_server is .* expected "https:\/\/tools\.example"/,
    { serverIdentity: 'https://tools.example' },
  ),
  D(
    'a root that nobody trusts',
    'UNTRUSTED_ROOT',
    valid,
    /Receipt 0: the root principal is .*, expected one that this verifier trusts/,
    {
      trustedRoots: [OTHER.did],
    },
  ),
  ...(
    [
      [
        'a receipt below one that is not to be passed on',
        { 0: policy({}), 1: policy({ max_delegations: 0 }) },
        2,
        'delegation 1 below receipt 1, expected at most 0',
      ],
      [
        'one receipt too many below the root',
        { 0: policy({ max_delegations: 1 }) },
        2,
        'delegation 2 below receipt 0, expected at most 1',
      ],
      [
        'a receipt below one that narrowed the limit',
        { 0: policy({ max_delegations: 5 }), 1: policy({ max_delegations: 0 }), 2: policy({}) },
        2,
        'delegation 1 below receipt 1, expected at most 0',
      ],
      // Each level is evaluated by itself: what a child repeats is not what is left.
      [
        'a limit that a child repeats',
        { 0: policy({ max_delegations: 1 }), 1: policy({ max_delegations: 1 }) },
        2,
        'delegation 2 below receipt 0, expected at most 1',
      ],
      [
        'two limits that end equally',
        {
          0: policy({ max_delegations: 1 }),
          1: policy({ max_delegations: 0 }),
          2: policy({ max_delegations: 0 }),
        },
        2,
        'delegation 2 below receipt 0, expected at most 1',
      ],
    ] as const
  ).map(([name, claims, subject, says]) =>
    D(
      name,
      'DELEGATION_NOT_ALLOWED',
      invoke(makeChain(3, claims)),
      new RegExp(`Receipt ${subject}: it is ${says}, its`),
    ),
  ),
  D(
    'the last of 16 receipts that all allow 14',
    'DELEGATION_NOT_ALLOWED',
    invoke(
      makeChain(
        16,
        Object.fromEntries(Array.from({ length: 16 }, (_, at) => [at, policy({ max_delegations: 14 })])),
      ),
    ),
    /Receipt 15: it is delegation 15 below receipt 0, expected at most 14/,
  ),
  {
    ...D(
      'a root that delegates more than it is trusted with',
      'ROOT_POLICY_EXCEEDED',
      valid,
      /Receipt 0: policy\.allowed_tools is \["search","fetch"\], expected at most \["search"\], as far as this verifier trusts/,
    ),
    ...known(makeChain(3), { policy: { allowed_tools: ['search'], max_cost_usd: 1 } }),
  },
  {
    ...D(
      'more delegations than a root is trusted with, which has no limit itself',
      'ROOT_POLICY_EXCEEDED',
      valid,
      /Receipt 0: policy\.max_delegations is 2, expected at most 1, as far as/,
    ),
    ...known(makeChain(3, { 0: policy({}), 1: policy({}), 2: policy({}) }), {
      policy: { max_delegations: 1 },
    }),
  },
  {
    ...D(
      'a root without a limit that its entry has',
      'ROOT_POLICY_EXCEEDED',
      valid,
      /Receipt 0: policy\.max_calls is missing, expected at most 3, as far as/,
    ),
    // A later receipt escalates, which is found after that.
    ...known(makeChain(2, { 1: policy({}) }), { policy: { max_calls: 3 } }),
  },
  {
    ...D(
      'a call beyond what its root is trusted with, which no receipt limits',
      'ROOT_POLICY_EXCEEDED',
      valid,
      /Invocation: args\.pii_access is true, expected what pii_access false allows, as far as/,
    ),
    // The policies of the receipts, which the call breaks, too, come after that.
    ...known(makeChain(2), { policy: { pii_access: false } }, { args: { tool: 'delete', pii_access: true } }),
  },
  ...escalations.map(([name, parent, child, says]) =>
    D(
      `escalation: ${name}`,
      'POLICY_ESCALATION',
      invoke(makeChain(3, { 0: policy({}), 1: policy(parent), 2: policy(child) })),
      new RegExp(`Receipt 2: .*${says.source}`),
    ),
  ),
  ...violations.map(([name, limits, args, says]) =>
    D(
      `violation: ${name}`,
      'POLICY_VIOLATION',
      invoke(makeChain(1, { 0: policy(limits) }), { args }),
      new RegExp(`${says.source}.*Receipt 0`),
    ),
  ),
  D(
    'a resource of the wrong type that a level above the leaf limits',
    'POLICY_VIOLATION',
    invoke(makeChain(2, { 0: policy({ allowed_resources: ['*'] }), 1: policy({}) }), {
      args: { resource_uri: 5 },
    }),
    /args.resource_uri.*Receipt 0/,
  ),
  D(
    'a tool of the wrong type that a level above the leaf limits',
    'POLICY_VIOLATION',
    invoke(makeChain(2, { 0: policy({ allowed_tools: ['*'] }), 1: policy({}) }), { args: { tool: {} } }),
    /args.tool.*Receipt 0/,
  ),
  D(
    'a permission denied above the leaf',
    'POLICY_VIOLATION',
    invoke(makeChain(3, { 0: policy({}), 1: policy({ pii_access: false }), 2: policy({}) }), {
      args: { pii_access: true },
    }),
    /args.pii_access.*Receipt 1/,
  ),

  {
    ...E(
      'not yet valid, also give or take a minute',
      'NOT_YET_VALID',
      withClaims(1, { nbf: NOW + 61 }),
      /expected a time of at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\) give or take 60 s of clock skew, which is now/,
    ),
    options: { clockSkewSecs: 60 },
  },
  {
    ...E(
      'a root that is trusted later',
      'ROOT_NOT_YET_VALID',
      valid,
      /Receipt 0: this verifier trusts its root principal from \d+ \(2999-01-01T00:00:00Z\), expected a time of at most \d+ \(/,
    ),
    ...known(makeChain(1, { 0: { exp: NOW - 30 } }), { not_before: '2999-01-01', not_after: '2999-01-01' }),
  },
  {
    ...E(
      'a root that was trusted until yesterday, whatever the skew',
      'ROOT_EXPIRED',
      valid,
      /Receipt 0: this verifier trusted its root principal until \d+ \(\d{4}-\d\d-\d\dT23:59:59Z\), expected a time of at least/,
    ),
    ...known(makeChain(2), { not_after: dayOf(NOW - 86_400) }, {}, { clockSkewSecs: 86_400 }),
  },
  {
    ...E(
      'expired, also give or take a minute',
      'EXPIRED',
      withClaims(1, { exp: NOW - 61 }),
      /expected a time of at least \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\) give or take 60 s of clock skew, which is now/,
    ),
    options: { clockSkewSecs: 60 },
  },
  E(
    'not yet valid',
    'NOT_YET_VALID',
    // Also at the end of a long run: the service has the real clock.
    withClaims(1, { nbf: NOW + 3500 }),
    /Receipt 1: it is valid from \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected a time of at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), which is now/,
  ),
  E(
    'expired',
    'EXPIRED',
    withClaims(0, { nbf: NOW - 900, exp: NOW - 600 }),
    /Receipt 0: it expired at \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected a time of at least \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), which is now/,
  ),
  E(
    'a child that begins earlier',
    'TEMPORAL_BOUNDS_VIOLATION',
    withClaims(1, { nbf: NOW - 61 }),
    /Receipt 1: nbf is \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected at least \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), the window/,
  ),
  E(
    'a child that lasts longer',
    'TEMPORAL_BOUNDS_VIOLATION',
    withClaims(2, { exp: NOW + 3601 }),
    /Receipt 2: exp is \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), the window/,
  ),
  E(
    'a standing child of one that expires',
    'TEMPORAL_BOUNDS_VIOLATION',
    invoke(makeChain(2, { 0: machine, 1: { exp: null } })),
    /Receipt 1: exp is missing, expected at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\)/,
  ),

  {
    name: 'a revoked root',
    code: 'RECEIPT_REVOKED',
    block: 'F',
    bundle: withClaims(0, { drs_status_list_index: 7 }),
    revoked: [7],
    says: /Receipt 0: status list index 7 .*local/,
  },
  {
    name: 'a revoked leaf',
    code: 'RECEIPT_REVOKED',
    block: 'F',
    bundle: withClaims(2, { drs_status_list_index: 2 ** 53 - 1 }),
    revoked: [2 ** 53 - 1],
    says: /Receipt 2/,
  },
  ...byName(),
];

function byName(): RefusedCase[] {
  const chain = makeChain(3);
  const bundle = invoke(chain);
  const other = makeChain(3);
  return [
    {
      name: 'a receipt that is revoked itself',
      code: 'RECEIPT_REVOKED',
      block: 'F',
      bundle,
      revoked: [{ receipt: sha256(chain.receipts[1] ?? '') }],
      says: /Receipt 1: its digest "sha256:\w+" is revoked in the local/,
    },
    {
      name: 'a revoked key',
      code: 'KEY_REVOKED',
      block: 'F',
      bundle: invoke(other),
      revoked: [{ did: other.parties[1]?.did ?? '' }],
      says: /Receipt 0: aud "did:key:\w+" is revoked in the local/,
    },
  ];
}

/** Bundles that are valid at {@link NOW}, at the edges of the rules. */
export const ACCEPTED: readonly {
  readonly name: string;
  readonly bundle: unknown;
  readonly options?: VerifierOptions;
  /** Valid only in that second, so not usable for a service, whose clock cannot be set. */
  readonly isMomentary?: true;
}[] = [
  { name: 'one receipt', bundle: makeBundle(1) },
  { name: 'sixteen receipts', bundle: makeBundle(16) },
  { name: 'unknown members', bundle: { ...withClaims(1, { extra: { a: 1 } }), other: [1] } },
  {
    name: 'algorithm Ed25519',
    bundle: withInvocationJwt((c, k) => signJwt(c, k, { alg: 'Ed25519', kid: 'x' })),
  },
  {
    name: 'keys in another order',
    bundle: withReceipt(1, (c, k) => signJwt(Object.fromEntries(Object.entries(c).reverse()), k)),
  },
  {
    name: 'a standing delegation of a service',
    bundle: invoke(makeChain(2, { 0: { ...machine, exp: null }, 1: { exp: undefined } })),
  },
  {
    name: 'null in every optional place',
    bundle: invoke(
      makeChain(2, {
        0: {
          drs_root_type: null,
          drs_consent: null,
          exp: null,
          drs_status_list_index: null,
          policy: Object.fromEntries(
            [
              ...['allowed_tools', 'max_cost_usd', 'max_total_cost_usd', 'max_calls', 'max_delegations'],
              ...['pii_access', 'write_access'],
            ].map((name) => [name, null]),
          ),
        },
        1: { exp: null, policy: { allowed_resources: null, allowed_data_classes: null } },
      }),
      { args: { tool: 5, pii_access: true } },
    ),
  },
  {
    name: 'a list of 4,096 entries under another',
    bundle: invoke(
      makeChain(2, {
        0: policy({ allowed_tools: ['search', ...Array.from({ length: 4095 }, (_, at) => `t${at}`)] }),
        1: policy({ allowed_tools: ['search', ...Array.from({ length: 4095 }, (_, at) => `t${4094 - at}`)] }),
      }),
    ),
  },
  {
    name: 'resources under prefixes that cover one another',
    bundle: invoke(
      makeChain(2, {
        0: policy({ allowed_resources: ['b/*', 'a/b/*', 'a/*', 'a/bc/*', 'z', 'c*'] }),
        1: policy({ allowed_resources: ['a/bb', 'a/b/', 'a/*', 'a/b/c/*', 'b/.x', 'z', 'c*', 'a/...'] }),
      }),
    ),
  },
  { name: 'a root without prev_dr_hash', bundle: withClaims(0, { prev_dr_hash: undefined }) },
  { name: 'a window that begins now', bundle: withClaims(2, { nbf: NOW }) },
  { name: 'a window that ends now', bundle: withClaims(2, { exp: NOW }), isMomentary: true },
  {
    name: 'expired within the skew',
    bundle: invoke(makeChain(1, { 0: { nbf: NOW - 900, exp: NOW - 60 } })),
    options: { clockSkewSecs: 60 },
    isMomentary: true,
  },
  {
    name: 'not yet valid, within the skew',
    bundle: invoke(makeChain(1, { 0: { nbf: NOW + 60 } })),
    options: { clockSkewSecs: 60 },
  },
  {
    name: 'a narrower command',
    bundle: invoke(makeChain(2, { 0: { cmd: '/mcp' }, 1: { cmd: '/mcp/tools' } }), {
      cmd: '/mcp/tools/call',
    }),
  },
  {
    name: 'any tool',
    bundle: invoke(makeChain(1, { 0: policy({ allowed_tools: ['*'] }) }), { args: { tool: 'x' } }),
  },
  {
    name: 'any tool, and none named',
    bundle: invoke(makeChain(1, { 0: policy({ allowed_tools: ['*'] }) }), { args: {} }),
  },
  {
    name: 'a number of calls, which no argument can break',
    bundle: invoke(makeChain(1, { 0: policy({ max_calls: 1 }) }), { args: { null: 2, max_calls: 2 } }),
  },
  {
    name: 'sixteen levels with limits of each kind',
    bundle: invoke(
      makeChain(
        16,
        Object.fromEntries(
          Array.from({ length: 16 }, (_, at) => [
            at,
            policy({ max_calls: 2 ** 53 - 1, max_total_cost_usd: 1e9 - at, max_delegations: 15 - at }),
          ]),
        ),
      ),
    ),
  },
  {
    name: 'a leaf that is not to be passed on, under one that does not say so again',
    bundle: invoke(
      makeChain(3, { 0: policy({ max_delegations: 2 }), 1: policy({}), 2: policy({ max_delegations: 0 }) }),
    ),
  },
  {
    name: 'a cost that is all of what all calls may cost',
    bundle: invoke(makeChain(1, { 0: policy({ max_total_cost_usd: 0.3 }) }), {
      args: { estimated_cost_usd: 0.3 },
    }),
  },
  {
    name: 'a cost of nothing under a limit of 0',
    bundle: invoke(makeChain(1, { 0: policy({ max_total_cost_usd: 0 }) }), {
      args: { estimated_cost_usd: 0 },
    }),
  },
  {
    name: 'no limits',
    bundle: invoke(makeChain(1, { 0: policy({}) }), { args: { tool: 1, estimated_cost_usd: 'free' } }),
  },
  {
    name: 'a cost at the limit',
    bundle: invoke(makeChain(1), { args: { tool: 'search', estimated_cost_usd: 5 } }),
  },
  { name: 'no cost claimed', bundle: invoke(makeChain(1), { args: { tool: 'search' } }) },
  {
    name: 'a resource under a prefix',
    bundle: invoke(
      makeChain(2, {
        0: policy({ allowed_resources: ['file:///a/*'] }),
        1: policy({ allowed_resources: ['file:///a/b/*', 'file:///a/c'] }),
      }),
      { args: { resource_uri: 'file:///a/b/c.txt' } },
    ),
  },
  {
    name: 'an equal resource with dots',
    bundle: invoke(makeChain(1, { 0: policy({ allowed_resources: ['file:///a/../b'] }) }), {
      args: { resource_uri: 'file:///a/../b' },
    }),
  },
  {
    name: 'a child that adds members',
    bundle: withClaims(2, policy({ allowed_tools: ['search'], max_cost_usd: 1, max_calls: 3, region: 'eu' })),
  },
  {
    name: 'an equal other member beside limits that are narrower',
    bundle: invoke(
      makeChain(2, {
        0: policy({ allowed_tools: ['search', 'fetch'], max_cost_usd: 5, pii_access: true, region: 'eu' }),
        1: policy({ allowed_tools: ['search'], max_cost_usd: 4, region: 'eu' }),
      }),
    ),
  },
  {
    name: 'an equal other member',
    bundle: invoke(
      makeChain(2, { 0: policy({ region: { a: 1, b: [1.0] } }), 1: policy({ region: { b: [1], a: 1 } }) }),
    ),
  },
  { name: 'an index that is not revoked', bundle: withClaims(1, { drs_status_list_index: 0 }) },
  { name: 'a trusted root', ...trusted() },
  {
    name: 'a root within what it is trusted with, today',
    ...known(makeChain(3), {
      name: 'alice@example.com',
      not_before: dayOf(NOW),
      not_after: dayOf(NOW + 86_400),
      policy: { allowed_tools: ['fetch', 'search', 'x'], max_cost_usd: 5, write_access: false },
      labels: { team: 'sales' },
    }),
  },
  {
    name: 'the right server',
    bundle: withInvocation({ tool_server: 'https://tools.example' }),
    options: { serverIdentity: 'https://tools.example' },
  },
  {
    name: 'a receipt longer than a slot',
    bundle: invoke(makeChain(1, { 0: policy({ note: 'x'.repeat(100_000) }) })),
  },
];

/** A call under a chain whose root has an entry. */
function known(
  chain: Chain,
  entry: Omit<TrustedRoot, 'did'>,
  overrides: Overrides = {},
  others: VerifierOptions = {},
): { bundle: TestBundle; options: VerifierOptions } {
  const { did } = chain.parties[0] as Party;
  return {
    bundle: invoke(chain, overrides),
    options: { ...others, trustedRoots: [OTHER.did, { did, ...entry }] },
  };
}

/** The day of a time, in UTC. */
function dayOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

function trusted(): { bundle: TestBundle; options: VerifierOptions } {
  const chain = makeChain(2);
  return { bundle: invoke(chain), options: { trustedRoots: [OTHER.did, (chain.parties[0] as Party).did] } };
}

function withSecondHash(hash: string): TestBundle {
  const chain = makeChain(3);
  const [first, , third] = chain.receipts.map(sha256);
  return invoke(chain, { dr_chain: [first, hash, third] });
}

/** A bundle whose last delegate, who signs the invocation, has a DID without a key. */
function withInvoker(did: string): TestBundle {
  const chain = makeChain(1, { 0: { aud: did } });
  return invoke(chain, { iss: did });
}
