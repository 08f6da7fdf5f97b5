import { describe, expect, it } from 'vitest';
import {
  createConsent,
  describePolicy,
  generateKey,
  issueInvocation,
  issueRootDelegation,
  issueSubDelegation,
  signClaims,
  type IssuedPolicy,
  type RootDelegationOptions,
} from '../../src/issue/index.js';
import { aConsent, payloadOf, refusalOf } from './random-chain.js';

const alice = generateKey();
const bot = generateKey();
const helper = generateKey();
const now = Math.floor(Date.now() / 1000);
const rootOptions: RootDelegationOptions = {
  key: alice,
  audience: bot.did,
  command: '/mcp/tools/call',
  policy: { allowed_tools: ['search'] },
  consent: aConsent,
};
/** Passes values that the compiler would refuse, as JavaScript or a cast can. */
const untyped = (policy: object) => policy as IssuedPolicy;

describe('a policy member that no verifier knows', () => {
  const near: [string, string][] = [
    ['allowed_tool', 'allowed_tools'],
    ['allowedTools', 'allowed_tools'],
    ['tools', 'allowed_tools'],
    ['maxCostUsd', 'max_cost_usd'],
    ['max_cost', 'max_cost_usd'],
    ['maxcalls', 'max_calls'],
    ['write-access', 'write_access'],
    ['pii_acess', 'pii_access'],
    ['allowed_resource', 'allowed_resources'],
  ];
  it.each(near)('%s is refused with the name %s', async (name, meant) => {
    const error = await refusalOf(() =>
      issueRootDelegation({ ...rootOptions, policy: untyped({ [name]: 1 }) }),
    );
    expect(error.code).toBe('INVALID_POLICY');
    expect(error.message).toContain(`"${name}"`);
    expect(error.message).toContain(`did you mean ${meant}?`);
  });

  it.each(['region', 'note', '', '__proto__', 'constructor', 'x'.repeat(10_000)])(
    '%s is refused',
    async (name) => {
      const policy = Object.fromEntries([[name, 1]]);
      const error = await refusalOf(() => issueRootDelegation({ ...rootOptions, policy: untyped(policy) }));
      expect(error.code).toBe('INVALID_POLICY');
      expect(error.message).not.toContain('did you mean');
      expect(error.message.length).toBeLessThan(300);
      expect(error.suggestion).toContain('allowed_tools, max_cost_usd');
    },
  );

  it('passes where its name has a namespace', async () => {
    const policy = { allowed_tools: ['search'], 'acme:tier': 'gold', 'example.com/region': null };
    expect(payloadOf(await issueRootDelegation({ ...rootOptions, policy }))['policy']).toEqual(policy);
  });

  it('is refused in a child, also unchecked', async () => {
    const chain = [await issueRootDelegation(rootOptions)];
    const policy = untyped({ allowed_tools: ['search'], maxCostUsd: 1 });
    const options = { key: bot, chain, audience: helper.did, policy };
    expect((await refusalOf(() => issueSubDelegation(options))).code).toBe('INVALID_POLICY');
    expect((await refusalOf(() => issueSubDelegation({ ...options, unchecked: true }))).code).toBe(
      'INVALID_POLICY',
    );
  });

  it('passes in a child whose parent has it, for a child must repeat it', async () => {
    const claims = { ...payloadOf(await issueRootDelegation(rootOptions)), policy: { region: 'eu' } };
    const chain = [await signClaims(claims, alice)];
    const issue = (policy: object) =>
      issueSubDelegation({ key: bot, chain, audience: helper.did, policy: untyped(policy) });
    expect(payloadOf(await issue({ region: 'eu' }))['policy']).toEqual({ region: 'eu' });
    expect((await refusalOf(() => issue({ region: 'eu', zone: 1 }))).code).toBe('INVALID_POLICY');
  });

  it.each([null, undefined])('a known one that is %s is refused: it limits nothing', async (value) => {
    const policy = untyped({ allowed_tools: ['search'], pii_access: value });
    const error = await refusalOf(() => issueRootDelegation({ ...rootOptions, policy }));
    expect(error.code).toBe('INVALID_POLICY');
    expect(error.message).toContain('pii_access');
  });

  it('is an error of the compiler too', () => {
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

describe('a time more than 100 years away is refused', () => {
  const milliseconds: [string, Partial<RootDelegationOptions>][] = [
    ['expiresAt', { expiresAt: Date.now() + 3_600_000 }],
    ['notBefore', { notBefore: Date.now() }],
    ['now', { now: Date.now() }],
  ];
  it.each(milliseconds)('%s in milliseconds', async (name, options) => {
    const error = await refusalOf(() => issueRootDelegation({ ...rootOptions, ...options }));
    expect(error.code).toBe('INVALID_OPTION');
    expect(error.message).toContain(`${name} is `);
    expect(error.message).toContain('milliseconds');
  });

  it('in a child, a call and a consent', async () => {
    const chain = [await issueRootDelegation(rootOptions)];
    const common = { key: bot, chain };
    const sub = { ...common, audience: helper.did, policy: rootOptions.policy };
    const call = { ...common, args: { tool: 'search' }, toolServer: 'x' };
    const refusals = [
      () => issueSubDelegation({ ...sub, expiresAt: Date.now() }),
      () => issueSubDelegation({ ...sub, expiresAt: Date.now(), unchecked: true }),
      () => issueInvocation({ ...call, now: Date.now() }),
      () => createConsent({ text: 'Bot may search.', locale: 'en', method: 'test', now: Date.now() }),
    ];
    for (const issue of refusals) expect((await refusalOf(issue)).code).toBe('INVALID_OPTION');
  });

  it('99 years are not too many', async () => {
    const expiresAt = now + 99 * 365 * 86_400;
    expect(payloadOf(await issueRootDelegation({ ...rootOptions, expiresAt }))['exp']).toBe(expiresAt);
    const error = await refusalOf(() =>
      issueRootDelegation({ ...rootOptions, expiresAt: now + 101 * 366 * 86_400 }),
    );
    expect(error.message).toContain('Unix seconds');
  });
});

describe('what would be ignored is refused', () => {
  it('an option that does not exist', async () => {
    const chain = [await issueRootDelegation(rootOptions)];
    const sub = { key: bot, chain, audience: helper.did, policy: rootOptions.policy };
    const call = { key: bot, chain, args: { tool: 'search' }, toolServer: 'x' };
    const consent = { text: 'Bot may search.', locale: 'en', method: 'test' };
    const refusals: [() => unknown, string][] = [
      [() => issueRootDelegation({ ...rootOptions, ...{ expires: now + 60 } }), 'did you mean expiresAt?'],
      [() => issueRootDelegation({ ...rootOptions, ...{ statusIndex: 7 } }), 'did you mean statusListIndex?'],
      [() => issueSubDelegation({ ...sub, ...{ consent: aConsent } }), 'consent is not an option here'],
      [() => issueInvocation({ ...call, ...{ toolServers: 'y' } }), 'did you mean toolServer?'],
      [() => createConsent({ ...consent, ...{ session: 's' } }), 'did you mean sessionId?'],
    ];
    for (const [issue, message] of refusals) {
      const error = await refusalOf(issue);
      expect(error.code).toBe('INVALID_OPTION');
      expect(error.message).toContain(message);
    }
  });

  it('a consent without the text that the person saw', async () => {
    for (const text of ['', ' \n']) {
      const error = await refusalOf(() => createConsent({ text, locale: 'en', method: 'test' }));
      expect(error.code).toBe('INVALID_OPTION');
    }
    const consent = { text: 'Bot may act.', locale: 'en', method: 'test' };
    for (const [odd, says] of [
      [{ locale: 'en_US' }, `locale is "en_US", expected a language tag (BCP 47) such as "de-CH"`],
      [{ locale: undefined }, 'locale is missing'],
      [{ method: '' }, 'method is "", expected 1 to 1024 characters'],
      [{ sessionId: 's'.repeat(1025) }, 'session_id is "sss'],
    ] as const) {
      const error = await refusalOf(() => createConsent({ ...consent, ...(odd as object) }));
      expect(error.code).toBe('INVALID_OPTION');
      expect(error.message).toContain(`the consent's ${says}`);
    }
    expect(
      (
        await refusalOf(() =>
          issueRootDelegation({ ...rootOptions, consent: { ...aConsent, timestamp: '' } }),
        )
      ).code,
    ).toBe('INVALID_CONSENT');
    for (const consent of [
      { ...aConsent, policy_hash: '' },
      { ...aConsent, policy_hash: 'sha256:abc' },
      { ...aConsent, ...{ text: 'Bot may act.' } },
    ]) {
      expect((await refusalOf(() => issueRootDelegation({ ...rootOptions, consent }))).code).toBe(
        'INVALID_OPTION',
      );
    }
  });
});

it('describes a policy in plain words, also what it does not limit', () => {
  expect(describePolicy({ allowed_tools: ['search', 'a"b'], max_cost_usd: 5, write_access: false })).toEqual({
    may: [
      'use only these tools: "search", "a\\"b"',
      'make calls that cost at most 5 US dollars, if they state it; others may cost any amount',
      'spend any amount in all',
      'call any number of times',
      'pass this on, and so may those who get it',
      'ask for personal data',
      'name any resource',
      'name any class of data',
    ],
    mayNot: ['change things: a call that says it does is refused'],
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
      'spend at most 2.5 US dollars in all, which each tool server counts for itself, if it protects against replay; each call must state its cost',
      'call at most 3 times, which each tool server counts for itself, if it protects against replay',
      'change things',
      'name any resource',
      'name only this class of data: "public"',
    ],
    mayNot: [
      'use any tool at all',
      'pass this on',
      'ask for personal data: a call that says it does is refused',
    ],
    toldToServer: ['"acme:tier" is "gold"'],
  });
  expect(describePolicy({}).may).toContain('make calls that cost any amount');
  expect(describePolicy({ max_delegations: 1 }).may).toContain('pass this on, but those who get it may not');
  expect(describePolicy({ max_delegations: 2 }).may).toContain(
    'pass this on, from one to the next at most 2 times',
  );
});
