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

type Row = readonly [bundle: unknown, says: RegExp, options?: VerifierOptions];
type One = (name: string, code: string, ...row: Row) => RefusedCase;
/** Bundles that a block refuses with one code, by name. */
const refused = (block: string, code: string, rows: Readonly<Record<string, Row>>): RefusedCase[] =>
  Object.entries(rows).map(([name, [bundle, says, options]]) => ({
    ...{ name, code, block, bundle, says },
    ...(options ? { options } : {}),
  }));
const [A, D] = ['A', 'D'].map(
  (block) =>
    (name: string, code: string, ...row: Row) =>
      refused(block, code, { [name]: row })[0] as RefusedCase,
) as [One, One];
/** A call under a chain whose root has an entry, and what is said of it. */
const entry = ({ bundle, options }: ReturnType<typeof known>, says: RegExp): Row => [bundle, says, options];

const valid = makeBundle(3);
const [r0, r1, r2] = valid.receipts as [string, string, string];
const foreign = makeBundle(3).receipts as [string, string, string];
const BELOW_A = { allowed_resources: ['file:///a/*'] };
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
  ['another resource', BELOW_A, { allowed_resources: ['file:///b'] }, /allowed_resources/],
  ['any resource', BELOW_A, { allowed_resources: ['*'] }, /allowed_resources/],
  ['a resource by dots', BELOW_A, { allowed_resources: ['file:///a/../b/*'] }, /allowed_resources/],
  ['no list of resources', BELOW_A, {}, /allowed_resources/],
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
    BELOW_A,
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
  ['another resource', BELOW_A, { resource_uri: 'file:///b' }, /args.resource_uri/],
  ['a resource by dots', BELOW_A, { resource_uri: 'file:///a/../b' }, /args.resource_uri/],
  ['a resource by encoded dots', BELOW_A, { resource_uri: 'file:///a/%2E%2e/b' }, /args.resource_uri/],
  ['a resource by an encoded slash', BELOW_A, { resource_uri: 'file:///a/..%2fb' }, /args.resource_uri/],
  ['a resource of the wrong type', { allowed_resources: ['*'] }, { resource_uri: 1 }, /args.resource_uri/],
  ['a tool of the wrong type', { allowed_tools: ['*'] }, { tool: 1 }, /args.tool/],
  ['a data class of the wrong type', { allowed_data_classes: ['*'] }, { data_class: [] }, /args.data_class/],
  ...['.\t./b', '.\n./b', '\u007fb', 'b c', '..\\b', 'c\\b', '%2e./b', '.%2E/b', '%2e%2e%2Fb', 'x/%2e'].map(
    (rest) =>
      [
        `a resource by ${JSON.stringify(rest)}`,
        BELOW_A,
        { resource_uri: `file:///a/${rest}` },
        /args.resource_uri/,
      ] as const,
  ),
  ['another data class', { allowed_data_classes: ['public'] }, { data_class: 'secret' }, /args.data_class/],
  [
    'a cost that is not stated',
    { max_cost_usd: 5 },
    { tool: 'b' },
    /args.estimated_cost_usd is missing, expected what max_cost_usd 5 allows: state it, or have the operator say what the tool does, the policy of/,
  ],
  [
    'writing that is not stated',
    { write_access: false },
    {},
    /args.write_access is missing, expected false: state it, or have the operator say what the tool does/,
  ],
  [
    'personal data that is not stated',
    { pii_access: false },
    {},
    /args.pii_access is missing, expected false: /,
  ],
  [
    'a resource that is not stated',
    BELOW_A,
    { path: 'file:///a/b' },
    /args.resource_uri is missing, expected what allowed_resources \["file:\/\/\/a\/\*"\] allows: state it/,
  ],
  [
    'a data class that is not stated',
    { allowed_data_classes: ['public'] },
    {},
    /args.data_class is missing, expected what allowed_data_classes/,
  ],
];

/** Bundles that every verifier must refuse, at {@link NOW}, with the code and block given. */
export const REFUSED: readonly RefusedCase[] = [
  ...refused('A', 'MALFORMED_BUNDLE', {
    null: [null, /Bundle: the document is null, expected a JSON object/],
    'an array': [[], /JSON object/],
    'a string': ['bundle', /JSON object/],
    'no bundle_version': [{ ...valid, bundle_version: undefined }, /bundle_version is missing/],
    'bundle_version a number': [
      { ...valid, bundle_version: 4 },
      /bundle_version is 4, expected the string "4.0"/,
    ],
    'inherited members': [Object.create(valid) as unknown, /bundle_version is missing/],
    'receipts a string': [
      { ...valid, receipts: r0 },
      /Bundle: receipts is .*, expected an array of JWT strings/,
    ],
    'receipts null': [{ ...valid, receipts: null }, /receipts is null/],
    'receipts with a number': [{ ...valid, receipts: [r0, 1] }, /receipts/],
    'invocation an object': [{ ...valid, invocation: {} }, /invocation is {}, expected a JWT string/],
  }),
  ...refused('A', 'VERSION_MISMATCH', {
    'another bundle_version': [
      { ...valid, bundle_version: '3.0' },
      /Bundle: bundle_version is "3.0", expected "4.0"/,
    ],
    'another drs_v': [withClaims(2, { drs_v: '3.0' }), /Receipt 2: drs_v is "3.0"/],
    'drs_v missing': [withInvocation({ drs_v: undefined }), /Invocation: drs_v is missing/],
  }),
  ...refused('A', 'EMPTY_CHAIN', {
    'no receipts': [
      { ...valid, receipts: [] },
      /Bundle: receipts is \[\], expected at least one delegation receipt/,
    ],
    'receipts missing': [{ ...valid, receipts: undefined }, /receipts is missing/],
  }),
  ...refused('A', 'CHAIN_TOO_DEEP', {
    '17 receipts': [
      { ...valid, receipts: Array.from({ length: 17 }, () => r0) },
      /receipts holds 17 receipts, expected at most 16/,
    ],
  }),
  ...refused('A', 'MISSING_INVOCATION', {
    'invocation missing': [
      { ...valid, invocation: undefined },
      /invocation is missing, expected an invocation receipt/,
    ],
    'invocation empty': [{ ...valid, invocation: '' }, /invocation is ""/],
  }),
  ...refused('A', 'MALFORMED_RECEIPT', {
    'an empty receipt': [{ ...valid, receipts: [r0, '', r2] }, /Receipt 1 is malformed/],
    'a receipt of two segments': [{ ...valid, receipts: [r0, 'a.b', r2] }, /Receipt 1.*2 segments/],
    'a receipt with crit': [
      withReceipt(1, (c, k) => signJwt(c, k, { ...HEADER, crit: [] })),
      /Receipt 1.*crit/,
    ],
    'a receipt with a duplicate': [
      withReceipt(0, (c, k) => signJwt(`{"x":1,"x":2,${JSON.stringify(c).slice(1)}`, k)),
      /"x" occurs twice/,
    ],
    'drs_root_type a number': [withClaims(0, { drs_root_type: 1 }), /Receipt 0.*drs_root_type/],
    'consent a string': [withClaims(0, { drs_consent: 'yes' }), /drs_consent is "yes"/],
    'consent without a method': [
      withClaims(0, { drs_consent: { locale: 'en', policy_hash: 'x', session_id: 's', timestamp: 't' } }),
      /drs_consent.method is missing/,
    ],
  }),
  ...refused('A', 'MALFORMED_INVOCATION', {
    'an invocation of two segments': [{ ...valid, invocation: 'a.b' }, /Invocation.*2 segments/],
    'arguments that a double rounds': [
      withInvocationJwt((c, k) =>
        signJwt(JSON.stringify(c).replace('"query":"tea"', '"query":9007199254740993'), k),
      ),
      /9007199254740993/,
    ],
    'arguments with a duplicate': [
      withInvocationJwt((c, k) =>
        signJwt(JSON.stringify(c).replace('"query":"tea"', '"query":"tea","\\u0071uery":"x"'), k),
      ),
      /"query" occurs twice/,
    ],
  }),
  ...refused('A', 'WRONG_TYPE', {
    'an invocation among the receipts': [
      { ...valid, receipts: [r0, valid.invocation] },
      /Receipt 1: drs_type is "invocation-receipt"/,
    ],
    'a receipt as the invocation': [{ ...valid, invocation: r2 }, /Invocation: drs_type/],
    'drs_type missing': [withClaims(1, { drs_type: undefined }), /Receipt 1: drs_type is missing/],
  }),
  ...malformedClaims.map(([name, overrides, says]) =>
    A(name, 'MALFORMED_RECEIPT', withClaims(1, overrides), says),
  ),
  ...malformedInvocations.map(([name, overrides, says]) =>
    A(`invocation: ${name}`, 'MALFORMED_INVOCATION', withInvocation(overrides), says),
  ),
  ...refused('A', 'INVALID_JTI', {
    'jti of another form': [withClaims(0, { jti: 'inv:1' }), /Receipt 0: jti is "inv:1"/],
    'jti of the prefix alone': [withClaims(1, { jti: 'dr:' }), /Receipt 1: jti is "dr:"/],
    'invocation jti of another form': [withInvocation({ jti: 'dr:1' }), /Invocation: jti is "dr:1"/],
  }),
  ...refused('A', 'MISSING_CONSENT', {
    'a human root without consent': [
      withClaims(0, { drs_consent: undefined }),
      /Receipt 0: drs_consent is missing/,
    ],
  }),
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
  ...refused('A', 'INVALID_CONSENT', {
    'a consent of five empty strings at a root that is not human': [
      withClaims(0, {
        ...machine,
        drs_consent: { locale: '', method: '', policy_hash: '', session_id: '', timestamp: '' },
      }),
      /drs_consent.locale is "", expected a language tag/,
    ],
  }),
  ...refused('B', 'CHAIN_BREAK', {
    'a root with a parent': [
      withClaims(0, { prev_dr_hash: `sha256:${'1'.repeat(64)}` }),
      /Receipt 0: prev_dr_hash is "sha256:1.*expected null in the root/,
    ],
    'a child without a parent': [
      withClaims(1, { prev_dr_hash: null }),
      /Receipt 1: prev_dr_hash is null, expected "sha256:.* hash of receipt 0/,
    ],
    'receipts in the wrong order': [{ ...valid, receipts: [r0, r2, r1] }, /Receipt 1: prev_dr_hash/],
    'receipts reversed': [{ ...valid, receipts: [r2, r1, r0] }, /Receipt 0: prev_dr_hash/],
    'no root': [{ ...valid, receipts: [r1, r2] }, /Receipt 0: prev_dr_hash/],
    'a receipt twice': [{ ...valid, receipts: [r0, r1, r1, r2] }, /Receipt 2: prev_dr_hash/],
    'a foreign receipt': [{ ...valid, receipts: [r0, foreign[1], r2] }, /Receipt 1: prev_dr_hash/],
    'a hash in capitals': [
      withClaims(1, { prev_dr_hash: 'SHA256:00' }),
      /Receipt 1: prev_dr_hash is "SHA256:00"/,
    ],
  }),
  ...refused('B', 'ISSUER_MISMATCH', {
    'another issuer': [withClaims(1, { iss: OTHER.did }), /Receipt 1: iss is/],
    'another audience': [withClaims(0, { aud: OTHER.did }), /Receipt 1: iss is/],
  }),
  ...refused('B', 'INVOKER_MISMATCH', {
    'another invoker': [withInvocation({ iss: OTHER.did }), /Invocation: iss is/],
    'the leaf missing': [{ ...valid, receipts: [r0, r1] }, /Invocation: iss is/],
  }),
  ...refused('B', 'CHAIN_REFERENCE_MISMATCH', {
    'a shorter dr_chain': [withInvocation({ dr_chain: [] }), /length of dr_chain is 0, expected 3/],
    'another hash in dr_chain': [withSecondHash('x'), /Invocation: dr_chain\[1\] is "x", expected "sha256:/],
  }),
  ...refused('C', 'UNSUPPORTED_ALGORITHM', {
    'algorithm none': [
      withReceipt(0, (c, k) => signJwt(c, k, { alg: 'none' })),
      /Receipt 0: the header's alg is "none", expected "EdDSA" or "Ed25519"/,
    ],
    'algorithm ES256': [
      withInvocationJwt((c, k) => signJwt(c, k, { alg: 'ES256' })),
      /Invocation: the header's alg is "ES256"/,
    ],
    'no algorithm': [withReceipt(2, (c, k) => signJwt(c, k, {})), /Receipt 2: the header's alg is missing/],
  }),
  ...refused('C', 'UNRESOLVABLE_DID', {
    'an issuer of another method': [
      withClaims(0, { iss: 'did:web:example.org' }),
      /Receipt 0: iss is "did:web:example.org"/,
    ],
    'an issuer with a fragment': [
      withReceipt(0, (c, k) => signJwt({ ...c, iss: `${k.did}#${k.did.slice(8)}` }, k)),
      /Receipt 0: iss/,
    ],
    'an invoker of another method': [withInvoker('did:web:example.org'), /Invocation: iss/],
  }),
  ...refused('C', 'INVALID_SIGNATURE', {
    'a changed signature': [
      withReceipt(1, (c, k) => flipLast(signJwt(c, k))),
      /Receipt 1: the signature is "[\w-]{86}", expected an Ed25519 signature of 64 bytes by did:key:z/,
    ],
    'a short signature': [
      withReceipt(1, (c, k) => cutSignature(signJwt(c, k), 63)),
      /Receipt 1: the signature/,
    ],
    'a long signature': [withReceipt(1, (c, k) => longSignature(signJwt(c, k))), /Receipt 1: the signature/],
    'another key': [withReceipt(2, (c) => signJwt(c, OTHER)), /Receipt 2: the signature/],
  }),
  ...refused('C', 'INVALID_INVOCATION_SIGNATURE', {
    'a changed invocation signature': [
      withInvocationJwt((c, k) => flipLast(signJwt(c, k))),
      /Invocation: the signature is "[\w-]{86}", expected .* by the last delegate/,
    ],
    'an invocation by another key': [
      withInvocationJwt((c) => signJwt(c, OTHER)),
      /Invocation: the signature/,
    ],
  }),
  ...refused('D', 'SUBJECT_MISMATCH', {
    'a root that speaks for another': [
      withClaims(0, { sub: OTHER.did }),
      /Receipt 0: sub is .*, expected "did:key:z\w+", its iss: the root principal/,
    ],
    'a child with another subject': [
      withClaims(2, { sub: OTHER.did }),
      /Receipt 2: sub is .*, expected "did:key:z\w+", the sub of the root/,
    ],
  }),
  ...refused('D', 'INVOCATION_SUBJECT_MISMATCH', {
    'an invocation with another subject': [
      withInvocation({ sub: OTHER.did }),
      /Invocation: sub is .*, expected "did:key:z\w+", the sub of the root/,
    ],
  }),
  ...refused('D', 'COMMAND_MISMATCH', {
    'a child with another command': [
      withClaims(1, { cmd: '/mcp/tools/callback' }),
      /Receipt 1: cmd is "\/mcp\/tools\/callback", expected "\/mcp\/tools\/call" or/,
    ],
    'a child with a shorter command': [withClaims(2, { cmd: '/mcp' }), /Receipt 2: cmd/],
    'an invocation with another command': [
      withInvocation({ cmd: '/mcp/tools/callback' }),
      /Invocation: cmd is .*, expected "\/mcp\/tools\/call" or/,
    ],
  }),
  ...refused('D', 'TOOL_SERVER_MISMATCH', {
    'an invocation for another server': [
      valid,
      /Invocation: tool_server is .* expected "https:\/\/tools\.example"/,
      { serverIdentity: 'https://tools.example' },
    ],
  }),
  ...refused('D', 'UNTRUSTED_ROOT', {
    'a root that nobody trusts': [
      valid,
      /Receipt 0: the root principal is .*, expected one that this verifier trusts/,
      {
        trustedRoots: [OTHER.did],
      },
    ],
  }),
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
  ...refused('D', 'DELEGATION_NOT_ALLOWED', {
    'the last of 16 receipts that all allow 14': [
      invoke(
        makeChain(
          16,
          Object.fromEntries(Array.from({ length: 16 }, (_, at) => [at, policy({ max_delegations: 14 })])),
        ),
      ),
      /Receipt 15: it is delegation 15 below receipt 0, expected at most 14/,
    ],
  }),
  ...refused('D', 'ROOT_POLICY_EXCEEDED', {
    'a root that delegates more than it is trusted with': entry(
      known(makeChain(3), { policy: { allowed_tools: ['search'], max_cost_usd: 1 } }),
      /Receipt 0: policy\.allowed_tools is \["search","fetch"\], expected at most \["search"\], as far as this verifier trusts/,
    ),
    'more delegations than a root is trusted with, which has no limit itself': entry(
      known(makeChain(3, { 0: policy({}), 1: policy({}), 2: policy({}) }), {
        policy: { max_delegations: 1 },
      }),
      /Receipt 0: policy\.max_delegations is 2, expected at most 1, as far as/,
    ),
    // A later receipt escalates, which is found after that.
    'a root without a limit that its entry has': entry(
      known(makeChain(2, { 1: policy({}) }), { policy: { max_calls: 3 } }),
      /Receipt 0: policy\.max_calls is missing, expected at most 3, as far as/,
    ),
    // The policies of the receipts, which the call breaks, too, come after that.
    'a call beyond what its root is trusted with, which no receipt limits': entry(
      known(makeChain(2), { policy: { pii_access: false } }, { args: { tool: 'delete', pii_access: true } }),
      /Invocation: args\.pii_access is true, expected what pii_access false allows, as far as/,
    ),
  }),
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
  ...refused('D', 'POLICY_VIOLATION', {
    'a resource of the wrong type that a level above the leaf limits': [
      invoke(makeChain(2, { 0: policy({ allowed_resources: ['*'] }), 1: policy({}) }), {
        args: { resource_uri: 5 },
      }),
      /args.resource_uri.*Receipt 0/,
    ],
    'a tool of the wrong type that a level above the leaf limits': [
      invoke(makeChain(2, { 0: policy({ allowed_tools: ['*'] }), 1: policy({}) }), { args: { tool: {} } }),
      /args.tool.*Receipt 0/,
    ],
    'a permission denied above the leaf': [
      invoke(makeChain(3, { 0: policy({}), 1: policy({ pii_access: false }), 2: policy({}) }), {
        args: { pii_access: true },
      }),
      /args.pii_access.*Receipt 1/,
    ],
  }),
  ...refused('E', 'ROOT_NOT_YET_VALID', {
    'a root that is trusted later': entry(
      known(makeChain(1, { 0: { exp: NOW - 30 } }), { not_before: '2999-01-01', not_after: '2999-01-01' }),
      /Receipt 0: this verifier trusts its root principal from \d+ \(2999-01-01T00:00:00Z\), expected a time of at most \d+ \(/,
    ),
  }),
  ...refused('E', 'ROOT_EXPIRED', {
    'a root that was trusted until yesterday, whatever the skew': entry(
      known(
        makeChain(2),
        { not_after: dayOf(NOW - 86_400) },
        {},
        { clockSkewSecs: 86_400, expiryGraceSecs: 3_600 },
      ),
      /Receipt 0: this verifier trusted its root principal until \d+ \(\d{4}-\d\d-\d\dT23:59:59Z\), expected a time of at least/,
    ),
  }),
  ...refused('E', 'NOT_YET_VALID', {
    'not yet valid, also by a clock that is a minute ahead': [
      withClaims(1, { nbf: NOW + 61 }),
      /expected a time of at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), which is now, or up to 60 s later/,
      { clockSkewSecs: 60 },
    ],
    'not yet valid': [
      // Also at the end of a long run: the service has the real clock.
      withClaims(1, { nbf: NOW + 3500 }),
      /Receipt 1: it is valid from \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected a time of at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), which is now/,
    ],
  }),
  ...refused('E', 'EXPIRED', {
    'expired, whatever the skew is': [withClaims(1, { exp: NOW - 61 }), /./, { clockSkewSecs: 600 }],
    'expired, also by a minute of grace': [
      withClaims(1, { exp: NOW - 61 }),
      /expected a time of at least \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), which is now, or up to 60 s earlier/,
      { expiryGraceSecs: 60 },
    ],
    expired: [
      withClaims(0, { nbf: NOW - 900, exp: NOW - 600 }),
      /Receipt 0: it expired at \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected a time of at least \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), which is now/,
    ],
  }),
  ...refused('E', 'TEMPORAL_BOUNDS_VIOLATION', {
    'a child that begins earlier': [
      withClaims(1, { nbf: NOW - 61 }),
      /Receipt 1: nbf is \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected at least \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), the window/,
    ],
    'a child that lasts longer': [
      withClaims(2, { exp: NOW + 3601 }),
      /Receipt 2: exp is \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), expected at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\), the window/,
    ],
    'a standing child of one that expires': [
      invoke(makeChain(2, { 0: machine, 1: { exp: null } })),
      /Receipt 1: exp is missing, expected at most \d+ \(20\d\d-\d\d-\d\dT[\d:]+Z\)/,
    ],
  }),
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
  ...refused('F', 'UNKNOWN_STATUS', {
    'a status list of the IETF': [
      withClaims(0, { status: { status_list: { idx: 7, uri: 'https://lists.example/1' } } }),
      /Receipt 0: status is a status that nobody here reads, expected drs_status_list_index or no claim about its status/,
    ],
    'a status of the W3C': [
      withClaims(1, { credentialStatus: { type: 'BitstringStatusListEntry', statusListIndex: '7' } }),
      /Receipt 1: credentialStatus is a status/,
    ],
    'a status list of its own beside an index': [
      withClaims(2, { drs_status: '', drs_status_list_index: 8 }),
      /Receipt 2: drs_status is a status/,
    ],
  }),
  {
    name: 'a revoked receipt whose status nobody reads',
    code: 'RECEIPT_REVOKED',
    block: 'F',
    bundle: withClaims(1, { status: true, drs_status_list_index: 7 }),
    revoked: [7],
    says: /Receipt 1: status list index 7 /,
  },
  // Far below the root, receipts are checked as those next to it.
  ...[4, 15].flatMap((at) =>
    (
      [
        ['B', 'CHAIN_BREAK', { prev_dr_hash: `sha256:${'1'.repeat(64)}` }],
        ['B', 'ISSUER_MISMATCH', { iss: OTHER.did }],
        ['D', 'SUBJECT_MISMATCH', { sub: OTHER.did }],
        ['D', 'COMMAND_MISMATCH', { cmd: '/mcp' }],
        ['D', 'POLICY_ESCALATION', { policy: {} }],
        ['E', 'TEMPORAL_BOUNDS_VIOLATION', { nbf: NOW - 1000 }],
      ] as const
    ).flatMap(([block, code, claims]) =>
      refused(block, code, {
        [`receipt ${at} of 16`]: [invoke(makeChain(16, { [at]: claims })), new RegExp(`^Receipt ${at}: `)],
      }),
    ),
  ),
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
  ...Object.entries({
    'one receipt': makeBundle(1),
    'sixteen receipts': makeBundle(16),
    'unknown members': { ...withClaims(1, { extra: { a: 1 } }), other: [1] },
    'algorithm Ed25519': withInvocationJwt((c, k) => signJwt(c, k, { alg: 'Ed25519', kid: 'x' })),
    'keys in another order': withReceipt(1, (c, k) =>
      signJwt(Object.fromEntries(Object.entries(c).reverse()), k),
    ),
    'a standing delegation of a service': invoke(
      makeChain(2, { 0: { ...machine, exp: null }, 1: { exp: undefined } }),
    ),
    'null in every optional place': invoke(
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
    'a list of 4,096 entries under another': invoke(
      makeChain(2, {
        0: policy({ allowed_tools: ['search', ...Array.from({ length: 4095 }, (_, at) => `t${at}`)] }),
        1: policy({ allowed_tools: ['search', ...Array.from({ length: 4095 }, (_, at) => `t${4094 - at}`)] }),
      }),
    ),
    'resources under prefixes that cover one another': invoke(
      makeChain(2, {
        0: policy({ allowed_resources: ['b/*', 'a/b/*', 'a/*', 'a/bc/*', 'z', 'c*'] }),
        1: policy({ allowed_resources: ['a/bb', 'a/b/', 'a/*', 'a/b/c/*', 'b/.x', 'z', 'c*', 'a/...'] }),
      }),
      { args: { resource_uri: 'a/x' } },
    ),
    'a root without prev_dr_hash': withClaims(0, { prev_dr_hash: undefined }),
    'a window that begins now': withClaims(2, { nbf: NOW }),
    'a narrower command': invoke(makeChain(2, { 0: { cmd: '/mcp' }, 1: { cmd: '/mcp/tools' } }), {
      cmd: '/mcp/tools/call',
    }),
    'any tool': invoke(makeChain(1, { 0: policy({ allowed_tools: ['*'] }) }), { args: { tool: 'x' } }),
    'any tool, and none named': invoke(makeChain(1, { 0: policy({ allowed_tools: ['*'] }) }), { args: {} }),
    'a number of calls, which no argument can break': invoke(makeChain(1, { 0: policy({ max_calls: 1 }) }), {
      args: { null: 2, max_calls: 2 },
    }),
    'sixteen levels with limits of each kind': invoke(
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
    'a leaf that is not to be passed on, under one that does not say so again': invoke(
      makeChain(3, { 0: policy({ max_delegations: 2 }), 1: policy({}), 2: policy({ max_delegations: 0 }) }),
    ),
    'a cost that is all of what all calls may cost': invoke(
      makeChain(1, { 0: policy({ max_total_cost_usd: 0.3 }) }),
      {
        args: { estimated_cost_usd: 0.3 },
      },
    ),
    'a cost of nothing under a limit of 0': invoke(makeChain(1, { 0: policy({ max_total_cost_usd: 0 }) }), {
      args: { estimated_cost_usd: 0 },
    }),
    'no limits': invoke(makeChain(1, { 0: policy({}) }), { args: { tool: 1, estimated_cost_usd: 'free' } }),
    'a cost at the limit': invoke(makeChain(1), { args: { tool: 'search', estimated_cost_usd: 5 } }),
    'nothing stated where nothing is limited': invoke(
      makeChain(1, {
        0: policy({
          allowed_resources: ['*'],
          allowed_data_classes: ['*'],
          pii_access: true,
          write_access: true,
        }),
      }),
      { args: {} },
    ),
    'a resource under a prefix': invoke(
      makeChain(2, {
        0: policy(BELOW_A),
        1: policy({ allowed_resources: ['file:///a/b/*', 'file:///a/c'] }),
      }),
      { args: { resource_uri: 'file:///a/b/c.txt' } },
    ),
    'an equal resource with dots': invoke(
      makeChain(1, { 0: policy({ allowed_resources: ['file:///a/../b'] }) }),
      {
        args: { resource_uri: 'file:///a/../b' },
      },
    ),
    'a child that adds members': withClaims(
      2,
      policy({ allowed_tools: ['search'], max_cost_usd: 1, max_calls: 3, region: 'eu' }),
    ),
    'an equal other member beside limits that are narrower': invoke(
      makeChain(2, {
        0: policy({ allowed_tools: ['search', 'fetch'], max_cost_usd: 5, pii_access: true, region: 'eu' }),
        1: policy({ allowed_tools: ['search'], max_cost_usd: 4, region: 'eu' }),
      }),
    ),
    'an equal other member': invoke(
      makeChain(2, { 0: policy({ region: { a: 1, b: [1.0] } }), 1: policy({ region: { b: [1], a: 1 } }) }),
    ),
    'an index that is not revoked': withClaims(1, { drs_status_list_index: 0 }),
    'a receipt longer than a slot': invoke(makeChain(1, { 0: policy({ note: 'x'.repeat(100_000) }) })),
  }).map(([name, bundle]) => ({ name, bundle })),
  { name: 'a window that ends now', bundle: withClaims(2, { exp: NOW }), isMomentary: true },
  {
    name: 'expired within the grace',
    bundle: invoke(makeChain(1, { 0: { nbf: NOW - 900, exp: NOW - 60 } })),
    options: { expiryGraceSecs: 60 },
    isMomentary: true,
  },
  {
    name: 'not yet valid, within the skew',
    bundle: invoke(makeChain(1, { 0: { nbf: NOW + 60 } })),
    options: { clockSkewSecs: 60 },
  },
  {
    name: 'not yet valid, by a clock that is half a minute ahead',
    bundle: invoke(makeChain(1, { 0: { nbf: NOW + 30 } })),
  },
  { name: 'a trusted root', ...trusted() },
  {
    name: 'a root within what it is trusted with, today',
    ...known(makeChain(3), {
      name: 'alice@example.com',
      not_before: dayOf(NOW),
      not_after: dayOf(NOW + 86_400),
      policy: { allowed_tools: ['fetch', 'search', 'x'] },
      labels: { team: 'sales' },
    }),
  },
  {
    name: 'the right server',
    bundle: withInvocation({ tool_server: 'https://tools.example' }),
    options: { serverIdentity: 'https://tools.example' },
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
