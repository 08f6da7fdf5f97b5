import { describe, expect, it } from 'vitest';
import {
  createConsent,
  describePolicy,
  generateKey,
  issueInvocation,
  issueRootDelegation,
  issueSubDelegation,
  signClaims,
  type InvocationOptions,
  type IssuedPolicy,
  type IssueErrorCode,
  type JsonObject,
  type RootDelegationOptions,
  type SubDelegationOptions,
} from '../../src/issue/index.js';
import { aConsent, at, NOW, payloadOf, refusalOf, without, STATED } from './random-chain.js';

const alice = generateKey();
const bot = generateKey();
const helper = generateKey();
const mallory = generateKey();

const rootOptions: RootDelegationOptions = {
  key: alice,
  audience: bot.did,
  command: '/mcp/tools/call',
  policy: {
    allowed_tools: ['search', 'fetch'],
    max_cost_usd: 5,
    max_calls: 9,
    pii_access: false,
    write_access: false,
    allowed_resources: ['file:///data/*'],
    allowed_data_classes: ['public'],
    'example.com/terms': { v: 1 },
  },
  consent: aConsent,
  now: NOW,
  notBefore: NOW - 100,
  expiresAt: NOW + 100,
};
const root = await issueRootDelegation(rootOptions);
const subOptions: SubDelegationOptions = {
  key: bot,
  chain: [root],
  audience: helper.did,
  policy: { ...rootOptions.policy, allowed_tools: ['search'] },
  now: NOW,
};
const sub = await issueSubDelegation(subOptions);
const callOptions: InvocationOptions = {
  key: helper,
  chain: [root, sub],
  args: { ...STATED, tool: 'search' },
  toolServer: 'https://tools.example',
  now: NOW,
};

/** What is wrong, the options that are, the code, and a part of the message. */
type Row<Options> = [string, Partial<Options> | StrangeOptions, IssueErrorCode, string?];

/** What the compiler would refuse. */
interface StrangeOptions {
  readonly expires?: number;
  readonly statusIndex?: number;
  readonly consent?: NonNullable<RootDelegationOptions['consent']>;
  readonly toolServers?: string;
}

/** Passes values that the compiler would refuse, as JavaScript or a cast can. */
const untyped = (policy: object) => policy as IssuedPolicy;

/** The root receipt with other claims, signed by its issuer. */
const rootWith = (claims: JsonObject) => signClaims({ ...payloadOf(root), ...claims }, alice);

/** The root receipt without a claim, signed by its issuer. */
function rootWithout(name: string): Promise<string> {
  return signClaims(without(payloadOf(root), name), alice);
}

/** The chain with its second receipt changed and signed again. */
const subWith = async (claims: JsonObject, key = bot) => [
  root,
  await signClaims({ ...payloadOf(sub), ...claims }, key),
];

function flipSignature(jwt: string): string {
  const end = jwt.lastIndexOf('.') + 1;
  return jwt.slice(0, end) + (jwt[end] === 'A' ? 'B' : 'A') + jwt.slice(end + 1);
}

describe('issueRootDelegation refuses', () => {
  const cases: Row<RootDelegationOptions>[] = [
    ['a human root without an end', { expiresAt: null }, 'MALFORMED_RECEIPT'],
    ['an audience that is no did:key', { audience: 'did:example:bot' }, 'UNRESOLVABLE_DID'],
    ['a window that ends before it begins', { expiresAt: NOW - 101 }, 'TEMPORAL_BOUNDS_VIOLATION'],
    ['a window that has ended', { expiresAt: NOW - 1 }, 'EXPIRED'],
    ['a time with a fraction', { notBefore: NOW - 0.5 }, 'MALFORMED_RECEIPT'],
    ['a command that is no path', { command: 'mcp/tools' }, 'MALFORMED_RECEIPT'],
    ['a command with a dot segment', { command: '/mcp/../admin' }, 'MALFORMED_RECEIPT'],
    ['a negative cost', { policy: { max_cost_usd: -1 } }, 'MALFORMED_RECEIPT'],
    ['a cost that is not finite', { policy: { max_cost_usd: Infinity } }, 'MALFORMED_RECEIPT'],
    ['a lone surrogate', { policy: { 'acme:note': '\ud800' } }, 'MALFORMED_RECEIPT'],
    ['a negative index', { statusListIndex: -1 }, 'MALFORMED_RECEIPT'],
    ['no text as a session', { sessionId: '' }, 'INVALID_OPTION', 'expected 1 to 256 characters'],
    ['more rules than a verifier reads', { regulatory: { law: 'x' } as object }, 'INVALID_OPTION'],
    ['a jti of another form', { jti: 'inv:1' }, 'INVALID_JTI'],
    ['a human root without consent', { consent: undefined }, 'MISSING_CONSENT'],
    [
      'an end in the far past',
      { expiresAt: 5 },
      'TEMPORAL_BOUNDS_VIOLATION',
      'Receipt 0: exp is 5 (1970-01-01T00:00:05Z), expected at least its nbf',
    ],
    ['an end in the past', { expiresAt: NOW - 1 }, 'EXPIRED', `Receipt 0: it expired at ${NOW - 1} (`],
    ['an end in milliseconds', { expiresAt: Date.now() + 3_600_000 }, 'INVALID_OPTION', 'milliseconds'],
    ['a start in milliseconds', { notBefore: Date.now() }, 'INVALID_OPTION', 'notBefore is '],
    ['a time in milliseconds', { now: Date.now() }, 'INVALID_OPTION', 'now is '],
    [
      'an end in 101 years',
      { expiresAt: Date.now() / 1000 + 101 * 366 * 86_400 },
      'INVALID_OPTION',
      'Unix seconds',
    ],
    ['a consent without a time', { consent: { ...aConsent, timestamp: '' } }, 'INVALID_CONSENT'],
    ['a consent to nothing', { consent: { ...aConsent, policy_hash: '' } }, 'INVALID_OPTION'],
    [
      'a consent with half a digest',
      { consent: { ...aConsent, policy_hash: 'sha256:abc' } },
      'INVALID_OPTION',
    ],
    ['a consent with its text', { consent: { ...aConsent, ...{ text: 'x' } } }, 'INVALID_OPTION'],
    ['an option that is none', { expires: NOW }, 'INVALID_OPTION', 'expires is not an option'],
    ['another that is none', { statusIndex: 7 }, 'INVALID_OPTION', ', statusListIndex'],
    ['a list of no tools', { policy: { allowed_tools: [] } }, 'INVALID_POLICY', 'read as no limit'],
    ['a limit of null', { policy: untyped({ pii_access: null }) }, 'INVALID_POLICY', 'pii_access'],
    ['a limit of undefined', { policy: untyped({ pii_access: undefined }) }, 'INVALID_POLICY', 'pii_access'],
    ...[
      'region',
      'note',
      '',
      'allowed_tool',
      'allowedTools',
      '__proto__',
      'constructor',
      'x'.repeat(10_000),
    ].map((name): Row<RootDelegationOptions> => [
      `a policy member ${name.slice(0, 20)}`,
      { policy: untyped(Object.fromEntries([[name, 1]])) },
      'INVALID_POLICY',
      'which no verifier knows, so it would limit nothing',
    ]),
  ];
  it.each(cases)('%s', async (_, options, code, says = '') => {
    const { message, suggestion, ...error } = await refusalOf(() =>
      issueRootDelegation({ ...rootOptions, ...options }),
    );
    expect({ ...error, message }).toMatchObject({ code, message: expect.stringContaining(says) as string });
    expect(message.length).toBeLessThan(400);
    expect(suggestion).not.toBe('');
  });
});

describe('issueSubDelegation refuses', async () => {
  const organisation = { ...without(rootOptions, 'consent'), rootType: 'organisation' };
  const end = root.lastIndexOf('.') + 1;
  const longer = Buffer.concat([Buffer.from(root.slice(end), 'base64url'), Buffer.alloc(1)]);
  const otherHeader = Buffer.from('{"alg":"HS256"}').toString('base64url');
  const wider = (policy: JsonObject) => ({ policy: { ...subOptions.policy, ...policy } });
  const cases: Row<SubDelegationOptions>[] = [
    ['an empty chain', { chain: [] }, 'EMPTY_CHAIN'],
    ['a key that is not the audience of the parent', { key: mallory }, 'ISSUER_MISMATCH'],
    ['an audience that is no did:key', { audience: 'bot' }, 'UNRESOLVABLE_DID'],
    ['another tool', wider({ allowed_tools: ['search', 'delete'] }), 'POLICY_ESCALATION'],
    ['a changed member of the tool server', wider({ 'example.com/terms': { v: 2 } }), 'POLICY_ESCALATION'],
    ['a dropped limit', { policy: {} }, 'POLICY_ESCALATION'],
    ["a command beside the parent's", { command: '/mcp/tools/callback' }, 'COMMAND_MISMATCH'],
    ["a command above the parent's", { command: '/mcp/tools' }, 'COMMAND_MISMATCH'],
    ['an earlier start', { notBefore: NOW - 101 }, 'TEMPORAL_BOUNDS_VIOLATION'],
    ['a later end', { expiresAt: NOW + 101 }, 'TEMPORAL_BOUNDS_VIOLATION'],
    ['no end under a human root', { expiresAt: null }, 'MALFORMED_RECEIPT'],
    ['an end before its start', { notBefore: NOW + 20, expiresAt: NOW + 10 }, 'TEMPORAL_BOUNDS_VIOLATION'],
    ['an end in the past', { notBefore: NOW - 20, expiresAt: NOW - 10 }, 'EXPIRED'],
    ['a parent that has expired', { now: NOW + 101, notBefore: NOW, expiresAt: NOW + 50 }, 'EXPIRED'],
    ['a parent that has expired, by default', { now: NOW + 101 }, 'EXPIRED'],
    ['a parent that is no JWT', { chain: ['x.y'] }, 'MALFORMED_RECEIPT'],
    ['a parent without consent', { chain: [await rootWithout('drs_consent')] }, 'MISSING_CONSENT'],
    ['a parent with a bad signature', { chain: [flipSignature(root)] }, 'INVALID_SIGNATURE'],
    ['receipts in the wrong order', { chain: [sub, root] }, 'CHAIN_BREAK'],
    [
      'a receipt below one that is not to be passed on',
      {
        chain: [
          await issueRootDelegation({
            ...rootOptions,
            policy: { ...rootOptions.policy, max_delegations: 0 },
          }),
        ],
      },
      'DELEGATION_NOT_ALLOWED',
      'Receipt 1: it is delegation 1 below receipt 0, expected at most 0',
    ],
    ['a consent', { consent: aConsent }, 'INVALID_OPTION', 'consent is not an option here'],
    ['an end in milliseconds', { expiresAt: Date.now() }, 'INVALID_OPTION'],
    ['one in milliseconds, unchecked', { expiresAt: Date.now(), unchecked: true }, 'INVALID_OPTION'],
    [
      'a misspelt limit, unchecked',
      { policy: untyped({ maxCostUsd: 1 }), unchecked: true },
      'INVALID_POLICY',
    ],
    ['a time that is none, unchecked', { expiresAt: 0.5, unchecked: true }, 'MALFORMED_RECEIPT'],
    [
      'an audience that is no DID',
      { audience: 'bot' },
      'UNRESOLVABLE_DID',
      'audience is "bot", expected a did:key of an Ed25519 key',
    ],
    [
      'no end under a parent that has one, where the root is not human',
      { chain: [await issueRootDelegation(organisation)], expiresAt: null },
      'TEMPORAL_BOUNDS_VIOLATION',
    ],
    [
      'a parent whose signature has bytes appended',
      { chain: [root.slice(0, end) + longer.toString('base64url')] },
      'INVALID_SIGNATURE',
    ],
    [
      'a parent with another algorithm',
      { chain: [root.replace(/^[^.]+/, otherHeader)] },
      'UNSUPPORTED_ALGORITHM',
    ],
    [
      'a parent of an issuer that is no did:key',
      { chain: [await rootWith({ iss: 'did:example:bot', sub: 'did:example:bot' })] },
      'UNRESOLVABLE_DID',
    ],
    ['a chain that escalates', { chain: await subWith({ policy: {} }), key: helper }, 'POLICY_ESCALATION'],
  ];
  it.each(cases)('%s', async (_, options, code, says = '') => {
    const { message, suggestion, ...error } = await refusalOf(() =>
      issueSubDelegation({ ...subOptions, ...options }),
    );
    expect({ ...error, message }).toMatchObject({ code, message: expect.stringContaining(says) as string });
    expect(message).not.toContain('{member}');
    expect(suggestion).not.toBe('');
  });

  it('the 17th receipt and what is under it, and issues the 16th', async () => {
    const chain = [root];
    const again = { ...subOptions, key: bot, audience: bot.did, chain };
    while (chain.length < 16) chain.push(await issueSubDelegation(again));
    const call = { ...callOptions, key: bot, chain };
    expect(await issueInvocation(call)).toMatch(/^ey/);
    expect((await refusalOf(() => issueSubDelegation(again))).code).toBe('CHAIN_TOO_DEEP');
    chain.push(await issueSubDelegation({ ...again, unchecked: true }));
    expect((await refusalOf(() => issueSubDelegation(again))).code).toBe('CHAIN_TOO_DEEP');
    expect((await refusalOf(() => issueInvocation(call))).code).toBe('CHAIN_TOO_DEEP');
  });
});

describe('issueInvocation refuses', async () => {
  const deep = (depth: number): JsonObject => (depth === 0 ? {} : { deeper: deep(depth - 1) });
  const cases: Row<InvocationOptions>[] = [
    ['an empty chain', { chain: [] }, 'EMPTY_CHAIN'],
    ["a key that is not the last delegate's", { key: mallory }, 'INVOKER_MISMATCH'],
    ['a tool that the leaf forbids', { args: { tool: 'fetch' } }, 'POLICY_VIOLATION'],
    ['no tool at all', { args: {} }, 'POLICY_VIOLATION'],
    [
      'a cost above the limit',
      { args: { ...STATED, tool: 'search', estimated_cost_usd: 5.5 } },
      'POLICY_VIOLATION',
    ],
    [
      'a cost that is no number',
      { args: { ...STATED, tool: 'search', estimated_cost_usd: '1' } },
      'POLICY_VIOLATION',
    ],
    ['write access', { args: { ...STATED, tool: 'search', write_access: true } }, 'POLICY_VIOLATION'],
    [
      'what is limited and not stated',
      { args: { tool: 'search', estimated_cost_usd: 0 } },
      'POLICY_VIOLATION',
      'args.pii_access is missing, expected false: state it, or have the operator say',
    ],
    [
      'what the operator says, in place of the call',
      { tools: [{ tool: 'search', writes: true }] },
      'POLICY_VIOLATION',
      'args.write_access is true, expected',
    ],
    [
      'what is not stated to the operator either',
      { tools: [{ tool: 'search', cost_usd: { argument: 'amount' } }], unstatedArguments: 'allow' },
      'POLICY_VIOLATION',
      'args.estimated_cost_usd is missing, expected',
    ],
    ['a line that is none', { tools: [{ tool: '' }] }, 'INVALID_OPTION', '[0].tool'],
    ["a command beside the leaf's", { command: '/mcp/other' }, 'COMMAND_MISMATCH'],
    ['a chain that has expired', { now: NOW + 101 }, 'EXPIRED'],
    ['a chain that has not begun', { now: NOW - 31 }, 'NOT_YET_VALID'],
    ['a broken chain', { chain: [root, flipSignature(sub)] }, 'INVALID_SIGNATURE'],
    ['no tool server', { toolServer: '' }, 'MALFORMED_INVOCATION'],
    ['a negative time', { regulatory: { retention_days: -1 } }, 'INVALID_OPTION'],
    ['a list of rules', { regulatory: ['gdpr'] as object }, 'INVALID_OPTION'],
    ['a text of one letter as rules', { regulatory: 'x' as unknown as object }, 'INVALID_OPTION'],
    ['arguments nested too deep', { args: { tool: 'search', ...deep(63) } }, 'MALFORMED_INVOCATION'],
    ['a number that is none', { args: { tool: 'search', n: NaN } }, 'MALFORMED_INVOCATION'],
    ['a jti of another form', { jti: 'inv:' }, 'INVALID_JTI'],
    ['a time in milliseconds', { now: Date.now() }, 'INVALID_OPTION'],
    ['an option that is none', { toolServers: 'y' }, 'INVALID_OPTION', ', toolServer, '],
    ['no tool server, unchecked', { toolServer: '', unchecked: true }, 'MALFORMED_INVOCATION'],
    [
      'a call that only a level above the leaf forbids',
      {
        chain: [
          root,
          await issueSubDelegation({ ...subOptions, policy: without(subOptions.policy, 'write_access') }),
        ],
        args: { ...STATED, tool: 'search', write_access: true },
      },
      'POLICY_VIOLATION',
      'Receipt 0',
    ],
  ];
  it.each(cases)('%s', async (_, options, code, says = '') => {
    const error = await refusalOf(() => issueInvocation({ ...callOptions, ...options }));
    expect(error).toMatchObject({ code, message: expect.stringContaining(says) as string });
  });
});

it('signs what the operator says, or may say', async () => {
  const tools = [
    { tool: 'search', cost_usd: 1, writes: false, pii: false },
    { tool: '*', resource: 'file:///data/a' },
  ];
  const said = {
    ...callOptions,
    args: { tool: 'search', resource_uri: 'file:///data/a', data_class: 'public' },
  };
  expect(await issueInvocation({ ...said, tools })).toMatch(/^ey/);
  expect((await refusalOf(() => issueInvocation(said))).code).toBe('POLICY_VIOLATION');
  const total = await issueRootDelegation({ ...rootOptions, policy: { max_total_cost_usd: 1 } });
  const unstated = { ...callOptions, key: bot, chain: [total], args: {} };
  expect((await refusalOf(() => issueInvocation(unstated))).code).toBe('POLICY_VIOLATION');
  expect(await issueInvocation({ ...unstated, unstatedArguments: 'allow' })).toMatch(/^ey/);
});

describe('unchecked', () => {
  it('signs a receipt that escalates', async () => {
    const receipt = await issueSubDelegation({ ...subOptions, key: mallory, policy: {}, unchecked: true });
    expect(payloadOf(receipt)).toMatchObject({ iss: mallory.did, policy: {} });
  });

  it('signs a call that no policy allows', async () => {
    const jwt = await issueInvocation({ ...callOptions, args: { tool: 'delete' }, unchecked: true });
    expect(payloadOf(jwt)).toMatchObject({ args: { tool: 'delete' } });
  });
});

describe('defaults', () => {
  const windowOf = (jwt: string) => {
    const { iat, nbf, exp } = payloadOf(jwt);
    return { iat, nbf, exp };
  };
  const open = without(without(rootOptions, 'notBefore'), 'expiresAt');

  it('a root lasts an hour from now', async () => {
    expect(windowOf(await issueRootDelegation(open))).toEqual({ iat: NOW, nbf: NOW, exp: NOW + 3600 });
  });

  it('a root that starts later lasts an hour from then', async () => {
    const later = await issueRootDelegation({ ...open, notBefore: NOW + 50 });
    expect(windowOf(later)).toEqual({ iat: NOW, nbf: NOW + 50, exp: NOW + 3650 });
  });

  it('a sub-delegation ends with its parent where that is earlier, and has its command', () => {
    expect(windowOf(sub)).toEqual({ iat: NOW, nbf: NOW, exp: NOW + 100 });
    expect(payloadOf(sub)['cmd']).toBe('/mcp/tools/call');
  });

  it('a sub-delegation does not start before its parent', async () => {
    const later = await issueRootDelegation({ ...open, notBefore: NOW + 50 });
    const receipt = await issueSubDelegation({ ...subOptions, chain: [later] });
    expect(windowOf(receipt)).toEqual({ iat: NOW, nbf: NOW + 50, exp: NOW + 3650 });
  });

  it('a standing delegation stands under a root that is not human', async () => {
    const organisation = { ...without(open, 'consent'), rootType: 'organisation', expiresAt: null };
    const standing = await issueRootDelegation(organisation);
    expect(windowOf(standing)).toEqual({ iat: NOW, nbf: NOW });
    expect(payloadOf(standing)).not.toHaveProperty('exp');
    const below = await issueSubDelegation({ ...subOptions, chain: [standing], expiresAt: null });
    expect(windowOf(below)).toEqual({ iat: NOW, nbf: NOW });
    expect(windowOf(await issueSubDelegation({ ...subOptions, chain: [standing] }))['exp']).toBe(NOW + 3600);
  });

  it('a lifetime of 99 years is not too long', async () => {
    const expiresAt = Math.floor(Date.now() / 1000) + 99 * 365 * 86_400;
    expect(payloadOf(await issueRootDelegation({ ...rootOptions, expiresAt }))['exp']).toBe(expiresAt);
  });

  it('the clock gives the time', async () => {
    const before = Math.floor(Date.now() / 1000);
    const { iat } = payloadOf(await issueRootDelegation(without(open, 'now')));
    expect(iat).toBeGreaterThanOrEqual(before);
    expect(iat).toBeLessThanOrEqual(Math.floor(Date.now() / 1000));
  });

  it('two receipts differ in their jti', async () => {
    const jtis = [root, await issueRootDelegation(rootOptions)].map((jwt) => payloadOf(jwt)['jti']);
    expect(at(jtis, 0)).not.toBe(at(jtis, 1));
  });
});

describe('what the compiler would have refused', () => {
  const rootWithOption = (options: object) => () => issueRootDelegation({ ...rootOptions, ...options });
  it.each<[string, () => unknown, string]>([
    [
      'no options',
      () => issueRootDelegation(undefined as never),
      'the options are missing, expected an object with key, audience, ',
    ],
    [
      'no options',
      () => issueInvocation(null as never),
      'the options are null, expected an object with key, chain, ',
    ],
    [
      'no options',
      () => createConsent('yes' as never),
      'the options are a string, expected an object with text, ',
    ],
    ['no key', rootWithOption({ key: undefined }), 'key is missing: expected a SigningKey or a Signer'],
    [
      'a name for a key',
      rootWithOption({ key: alice.did }),
      'key is a string: expected a SigningKey or a Signer',
    ],
    [
      'no policy',
      rootWithOption({ policy: undefined }),
      'policy is missing: expected an object; {} limits nothing',
    ],
    [
      'a list for a policy',
      rootWithOption({ policy: ['search'] }),
      'policy: expected an object; {} limits nothing',
    ],
    [
      'a receipt for a chain',
      () => issueInvocation({ ...callOptions, chain: root } as never),
      'chain is a string: expected an array of receipts',
    ],
  ])('%s', async (_, issue, message) => {
    const error = await refusalOf(issue);
    expect(error.message.slice(0, message.length)).toBe(message);
    expect(error.suggestion).not.toBe('');
  });
});

describe('a policy passes', () => {
  it('where a name has a namespace', async () => {
    const policy = { allowed_tools: ['search'], 'acme:tier': 'gold', 'example.com/region': null };
    expect(payloadOf(await issueRootDelegation({ ...rootOptions, policy }))['policy']).toEqual(policy);
  });

  it('in a child whose parent has a member, for a child must repeat it', async () => {
    const policy = { region: 'eu' };
    const chain = [await rootWith({ policy })];
    const issue = (own: object) => issueSubDelegation({ ...subOptions, chain, policy: untyped(own) });
    expect(payloadOf(await issue(policy))['policy']).toEqual(policy);
    expect((await refusalOf(() => issue({ ...policy, zone: 1 }))).code).toBe('INVALID_POLICY');
  });

  it('as the compiler says, too', () => {
    // `npm run typecheck` fails where one of these is accepted.
    const policies: IssuedPolicy[] = [
      { allowed_tools: ['search'], 'acme:tier': 1, 'example.com/x': { y: [1] } },
      // @ts-expect-error a misspelt member limits nothing
      { allowed_tool: ['search'] },
      // @ts-expect-error a name without a namespace
      { region: 'eu' },
      // @ts-expect-error a null limits nothing
      { pii_access: null },
    ];
    expect(policies).toHaveLength(4);
  });
});

const agreed = { text: 'Bot may act.', locale: 'en', method: 'test' };
it.each<[object, string]>([
  [{ text: '' }, 'text is ""'],
  [{ text: ' \n' }, 'text is " \\n"'],
  [{ locale: 'en_US' }, `the consent's locale is "en_US", expected a language tag (BCP 47) such as "de-CH"`],
  [{ locale: undefined }, 'locale is missing'],
  [{ method: '' }, `the consent's method is "", expected 1 to 1024 characters`],
  [{ sessionId: 's'.repeat(1025) }, `the consent's session_id is "sss`],
  [{ session: 's' }, 'session is not an option here, expected one of text, '],
  [{ now: Date.now() }, 'milliseconds'],
])('createConsent refuses %j', async (odd, says) => {
  const error = await refusalOf(() => createConsent({ ...agreed, ...odd }));
  expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(says) as string });
});

it('describes a policy in plain words, also what it does not limit', () => {
  expect(describePolicy({ allowed_tools: ['search', 'a"b'], max_cost_usd: 5, write_access: false })).toEqual({
    may: [
      'use only these tools: "search", "a\\"b"',
      'make calls that cost at most 5 US dollars',
      'spend any amount in all',
      'call any number of times',
      'pass this on, and so may those who get it',
      'ask for personal data',
      'name any resource',
      'name any class of data',
    ],
    mayNot: [
      'change things',
      "make a call that does not say what it costs, whether it changes things, unless the tool's operator does",
    ],
    asks: [],
    toldToServer: [],
  });
  expect(
    describePolicy({
      allowed_tools: [],
      max_calls: 3,
      max_total_cost_usd: 2.5,
      max_delegations: 0,
      pii_access: false,
      allowed_resources: ['*'],
      allowed_data_classes: ['public'],
      'acme:tier': 'gold',
    }),
  ).toEqual({
    may: [
      'make calls that cost as much as all together',
      'spend at most 2.5 US dollars in all, which each tool server counts for itself, if it protects against replay',
      'call at most 3 times, which each tool server counts for itself, if it protects against replay',
      'change things',
      'name any resource',
      'name only this class of data: "public"',
    ],
    mayNot: [
      'use any tool at all',
      'pass this on',
      'ask for personal data',
      "make a call that does not say what it costs, whether it takes personal data, its class of data, unless the tool's operator does",
    ],
    asks: [],
    toldToServer: ['"acme:tier" is "gold"'],
  });
  expect(describePolicy({}).may).toContain('make calls that cost any amount');
  expect(describePolicy({ max_delegations: 1 }).may).toContain('pass this on, but those who get it may not');
  expect(describePolicy({ max_delegations: 2 }).may).toContain(
    'pass this on, from one to the next at most 2 times',
  );
  const asks = (tools: string[]) => describePolicy({ approve_tools: tools }).asks;
  expect(asks(['transfer'])).toEqual(['before each call of "transfer"']);
  expect(asks(['transfer', 'delete'])).toEqual(['before each call of "transfer", "delete"']);
  expect(asks(['transfer', '*'])).toEqual(['before each call']);
  expect(asks([])).toEqual([]);
});
