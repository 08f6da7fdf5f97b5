import { beforeAll, describe, expect, it } from 'vitest';
import { callOf } from '../../src/approval/statement.js';
import { generateKey, signClaims, type JsonObject } from '../../src/issue/index.js';
import { lineOf, yesTo } from '../approval/evidence.js';
import { Passkey } from '../approval/passkey.js';
import { proofOf } from '../gate/decide.js';
import { liveCall, liveChain } from '../middleware/call.js';
import { createChain, INVOKE, type Workplace } from './drs.js';

let work: Workplace;
beforeAll(async () => {
  work = await createChain();
});

const key = generateKey();
const claims = {
  drs_type: 'delegation-receipt',
  drs_v: '4.0',
  iss: key.did,
  aud: key.did,
  sub: key.did,
  cmd: '/mcp/tools/call',
  policy: {},
  iat: 1_900_000_000,
  nbf: 1_900_000_000,
  exp: 1_900_003_600,
  jti: 'dr:1',
  prev_dr_hash: null,
  drs_root_type: 'organisation',
};
const receipt = (changes: JsonObject = {}) => signClaims({ ...claims, ...changes }, key);
const audit = async (bundle: unknown, ...flags: string[]) =>
  work.drs(['audit', ...flags, '-'], { stdin: JSON.stringify(bundle) });

/** The text without DIDs, UUIDs, digests and times, which differ from run to run. */
const masked = (text: string) =>
  text
    .replace(/did:key:z6Mk\w+/g, '<did>')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replace(/sha256:[0-9a-f]{12}…/g, '<digest>')
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, '<time>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>');

describe('audit', () => {
  it('shows a bundle level by level', async () => {
    const { code, stdout, stderr } = await work.drs(['audit', 'bundle.json']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(masked(stdout)).toBe(`\
bundle 4.0, 2 receipts and an invocation
valid now, as far as can be told here
  trust, revocation and earlier use are for \`npx drs-verify verify\`

receipt 0 (root)  dr:<uuid>
  iss                      <did>
  aud                      <did>
  sub                      <did>
  cmd                      /mcp/tools/call
  drs_root_type            human
  drs_status_list_index    7
  window                   <time> to <time>
  iat                      <time>
  hash                     <digest>
  drs_consent.locale       "en"
  drs_consent.method       "explicit-cli-command"
  drs_consent.policy_hash  <digest>
  drs_consent.session_id   "<uuid>"
  drs_consent.timestamp    "<time>"
  policy.allowed_tools     ["search","fetch"]
  policy.max_cost_usd      5

receipt 1  dr:<uuid>
  iss                   <did>
  aud                   <did>
  sub                   <did>
  cmd                   /mcp/tools/call
  window                <time> to <time>
  iat                   <time>
  hash                  <digest>
  prev_dr_hash          <digest>
  policy.allowed_tools  ["search"]  was ["search","fetch"]
  policy.max_cost_usd   1  was 5

invocation  inv:<uuid>
  iss                      <did>
  sub                      <did>
  cmd                      /mcp/tools/call
  tool_server              https://tools.example
  iat                      <time>
  hash                     <digest>
  dr_chain                 <digest>
  dr_chain                 <digest>
  args.estimated_cost_usd  0.5
  args.query               "tea"
  args.tool                "search"
`);
  });

  it('needs no service, and shows the same of a header', async () => {
    const { stdout: header } = await work.done(...INVOKE, '--args', '@args.json', '--header');
    const env = { DRS_VERIFY_URL: 'http://127.0.0.1:9' };
    const { code, stdout } = await work.drs(['audit', '-'], { stdin: header, env });
    expect(code).toBe(0);
    expect(masked(stdout)).toBe(masked((await work.drs(['audit', 'bundle.json'])).stdout));
  });

  it('shows what the operator says of the tool, and judges by it', async () => {
    const said = {
      cost_usd: { argument: '/price/usd' },
      writes: true,
      resource: { argument: 'query', before: 'x:' },
    };
    await work.write(
      'tools.jsonl',
      JSON.stringify({ tool: 'search', ...said, pii: false, data_class: 'public' }),
    );
    const { code, stdout } = await work.drs(['audit', 'bundle.json', '--tools', 'tools.jsonl']);
    expect(code).toBe(0);
    expect(stdout).toContain(
      'args.estimated_cost_usd is missing, expected what max_cost_usd 5 allows, by what the',
    );
    expect(stdout).toContain(`
by the operator
  the tool  costs what "/price/usd" says
  the tool  changes things: yes
  the tool  has as its resource what "query" says, after "x:"
  the tool  takes personal data: no
  the tool  has as its class of data "public"
`);
    await work.write('tools.jsonl', '{ "tool": "*", "cost_usd": 0.5 }');
    const json = await work.drs(['audit', 'bundle.json', '--json', '--tools', 'tools.jsonl']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      verdict: { valid: true },
      tool: ['costs 0.5 US dollars'],
    });
    await work.write('tools.jsonl', '{ "tool": "*", "cost": 0.5 }');
    const wrong = await work.drs(['audit', 'bundle.json', '--tools', 'tools.jsonl']);
    expect(wrong).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('tools.jsonl:1: cost') as unknown,
    });
  });

  it('shows a chain without an invocation, and judges it', async () => {
    const { code, stdout } = await work.drs(['audit', 'helper.jwt']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^2 receipts, no invocation\nvalid now, /);
    await work.write('turned.jwt', (await work.read('helper.jwt')).trim().split('\n').reverse().join('\n'));
    expect((await work.drs(['audit', 'turned.jwt'])).stdout).toMatch(
      /^2 receipts, no invocation\ninvalid {2}CHAIN_BREAK\n {2}Receipt 0: .*\n {2}hint: /,
    );
  });

  it('as JSON gives digests in full, and the verdict', async () => {
    const { code, stdout } = await work.drs(['audit', '--json', 'bundle.json']);
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as { receipts: { digest: string }[] };
    expect(report).toMatchObject({
      verdict: { valid: true },
      bundle_version: '4.0',
      receipts: [
        { claims: { policy: { max_cost_usd: 5 } } },
        { claims: { prev_dr_hash: report.receipts[0]?.digest } },
      ],
      invocation: { claims: { args: { tool: 'search' } } },
    });
    expect(report.receipts[0]?.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  it('calls people by the names of the file of trusted roots, and so do issue and delegate', async () => {
    const did = (JSON.parse(await work.read('alice.pub')) as { kid: string }).kid;
    const bot = (JSON.parse(await work.read('bot.pub')) as { kid: string }).kid;
    await work.write(
      'roots.jsonl',
      `${JSON.stringify({ did, name: 'alice@example.com' })}\n${JSON.stringify({ did: bot, name: 'Bot' })}\n`,
    );
    const env = { TRUSTED_ROOTS_FILE: 'roots.jsonl' };
    const { stdout } = await work.drs(['audit', 'bundle.json'], { env });
    expect(stdout).toContain(`iss                      ${did} (alice@example.com)\n`);
    const issue = ['issue', '--key', 'alice.key', '--to', 'bot.pub', '--tool', 'a', '--yes'];
    const issued = await work.drs(issue, { env });
    expect(issued.stderr).toContain(`I let Bot (${bot}) call tools for me`);
    const delegate = ['delegate', '--key', 'bot.key', '--chain', '-', '--to', 'helper.pub'];
    expect((await work.drs(delegate, { env, stdin: issued.stdout })).stderr).toContain(
      'You pass this on, which comes from alice@example.com:\n',
    );
    const wrong = await work.drs(['audit', 'bundle.json'], { env: { TRUSTED_ROOTS_FILE: 'none.jsonl' } });
    expect(wrong).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('none.jsonl: there is no such file') as string,
    });
  });
});

describe('audit', () => {
  it.each<[string, JsonObject, JsonObject, string]>([
    [
      'members of a policy as they change',
      { policy: { max_cost_usd: 5, max_calls: 3, pii_access: false, allowed_tools: ['a'] } },
      { policy: { max_cost_usd: 9, max_calls: 3, write_access: false, allowed_tools: [] } },
      `policy.allowed_tools  []  was ["a"]
  policy.max_calls      3  unchanged
  policy.max_cost_usd   9  was 5
  policy.write_access   false  new
  policy.pii_access     (none)  was false
`,
    ],
    [
      'a window that is none',
      {},
      { nbf: 'soon', exp: 2 ** 53 - 1 },
      'soon to 9007199254740991 (Unix seconds, beyond the calendar)\n',
    ],
    ['claims that nobody knows', {}, { x: 1 }, '  x              1\n'],
  ])('shows %s', async (_, root, child, expected) => {
    const { stdout } = await audit({ receipts: [await receipt(root), await receipt(child)] });
    expect(stdout).toContain(expected);
    expect(stdout).toMatch(/\ninvalid {2}/);
  });

  it('shows the rest of what cannot be read, and what a verifier says of it', async () => {
    const receipts = ['no-jwt', 7, await receipt({ policy: { max_cost_usd: 'x' } })];
    const { code, stdout } = await audit({ bundle_version: 3, receipts, invocation: null });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^bundle 3, 3 receipts and an invocation\ninvalid {2}MALFORMED_BUNDLE\n/);
    expect(stdout).toContain('malformed  it has 1 segments, expected 3 separated by dots\n');
    expect(stdout).toContain('malformed  it is 7, expected a compact JWT\n');
    expect(stdout).toContain('malformed  it is null, expected a compact JWT\n');
    expect(stdout).toContain('policy.max_cost_usd  "x"\n');
  });

  it.each([[{ receipts: {} }], [{ invocation: null }]])('shows %j, without failing', async (bundle) => {
    const { code, stderr } = await audit(bundle);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it.each([[[]], [{}], ['text'], [null]])('says that %j is another file than was meant', async (bundle) => {
    const { code, stderr } = await audit(bundle);
    expect(code).toBe(2);
    expect(stderr).toContain('has neither receipts nor an invocation, expected a bundle\n');
  });

  it('shows 130,000 members, and values that nest deeper than any program can write', async () => {
    // More than a function call can take arguments.
    const many = Object.fromEntries(Array.from({ length: 130_000 }, (_, at) => [`acme:${at}`, at]));
    const jwt = await receipt({ policy: many });
    const invocation = await signClaims({ args: many }, key);
    const { stdout } = await audit({ receipts: [jwt, jwt], invocation });
    expect(stdout).toContain('policy.acme:129999  129999\n');
    expect(stdout).toContain('policy.acme:129999  129999  unchanged\n');
    expect(stdout).toContain('args.acme:129999  129999\n');
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    const stdin = `{"bundle_version":${deep},"receipts":[${deep}],"invocation":${deep}}`;
    for (const flags of [[], ['--json']])
      expect(await work.drs(['audit', ...flags, '-'], { stdin })).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('[[[[[[[[') as string,
      });
  });
});

describe('audit --approval', () => {
  const alice = new Passkey('P-256', { name: 'Alice\u00adB' });
  const args = { tool: 'search', query: 'tea' };
  // The receipts say that it needs a yes.
  const chain = liveChain(2, { policy: { approve_tools: ['search'] } });
  const bundle = liveCall(chain, args);
  const root = { did: chain.parties[0]?.did, approvers: [alice.approver] };
  const line = lineOf(yesTo(callOf(proofOf(bundle)), alice));
  beforeAll(async () => {
    await work.write('call.json', JSON.stringify(bundle));
    await work.write('other.json', JSON.stringify(liveCall(chain, { ...args, query: 'coffee' })));
    await work.write('yes.json', `${line}\n`);
    await work.write('roots.jsonl', `${JSON.stringify(root)}\n`);
    await work.write('none.jsonl', `${JSON.stringify({ did: root.did })}\n`);
    await work.write('empty.jsonl', '');
  });
  const proves = (...more: string[]) =>
    work.drs(['audit', ...more, ...(more.includes('--roots') ? [] : ['--roots', 'roots.jsonl'])]);

  it('says whose passkey said yes to exactly this call', async () => {
    const { code, stdout } = await proves('call.json', '--approval', 'yes.json');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^bundle 4.0, 2 receipts and an invocation\nvalid now, /);
    expect(stdout).toContain(
      '\napproved  by the passkey of Alice\\u{ad}B: exactly this call, asked about at 2023-11-14 22:13:20 UTC\n',
    );
    const fromInput = ['call.json', '--json', '--approval', '-', '--roots', 'roots.jsonl'];
    const json = await work.drs(['audit', ...fromInput], { stdin: line });
    expect([json.code, JSON.parse(json.stdout)]).toMatchObject([
      0,
      {
        verdict: { valid: true },
        approval: { valid: true, by: 'Alice\u00adB', requested_at: 1_700_000_000 },
      },
    ]);
  });

  it('does not call a bundle valid for one yes of two', async () => {
    const bob = new Passkey('Ed25519', { name: 'Bob' });
    const approvers = [alice.approver, bob.approver];
    for (const needed of [1, 2]) {
      await work.write('needed.jsonl', JSON.stringify({ ...root, approvers, needed }));
      const options = ['call.json', '--approval', 'yes.json', '--roots', 'needed.jsonl'];
      const { code, stdout } = await proves(...options);
      expect(code).toBe(0);
      expect(stdout).toContain(needed === 1 ? '\nvalid now, ' : '\ninvalid  APPROVAL_REQUIRED\n');
      expect(stdout).toContain('\napproved  by the passkey of Alice');
      expect(stdout.includes('; 2 persons are needed')).toBe(needed === 2);
      const valid = needed === 1;
      expect(JSON.parse((await proves(...options, '--json')).stdout)).toMatchObject({
        verdict: valid ? { valid } : { valid, error: { code: 'APPROVAL_REQUIRED' } },
        approval: { valid: true, by: 'Alice\u00adB', needed },
      });
    }
  });

  it('says it also of a call that is refused now', async () => {
    const { code, stdout } = await work.drs(['audit', 'call.json']);
    expect([code, stdout]).toEqual([0, expect.stringContaining('\ninvalid  APPROVAL_REQUIRED\n') as string]);
    const over = liveChain(1, { exp: 1_600_000_000, nbf: 1_500_000_000, iat: 1_500_000_000 });
    const old = liveCall(over, args);
    await work.write('old.json', JSON.stringify(old));
    await work.write('old-yes.json', lineOf(yesTo(callOf(proofOf(old)), alice)));
    await work.write('old.jsonl', JSON.stringify({ ...root, did: over.parties[0]?.did }));
    const expired = await proves('old.json', '--approval', 'old-yes.json', '--roots', 'old.jsonl');
    expect(expired).toMatchObject({ code: 0, stdout: expect.stringContaining('\napproved  by ') as string });
    expect(expired.stdout).toContain('\ninvalid  EXPIRED\n');
  });

  it.each<[what: string, options: string[], problem: string]>([
    [
      'another call',
      ['other.json'],
      'args of the statement is {"query":"tea","tool":"search"}, expected {"query":"coffee",',
    ],
    [
      'a root without approvers',
      ['call.json', '--roots', 'none.jsonl'],
      'no approver in the line of did:key:',
    ],
    [
      'a root that is not there',
      ['call.json', '--roots', 'empty.jsonl'],
      'no approver in the line of did:key:',
    ],
    [
      'a call that nobody signed',
      ['unsigned.json'],
      'the bundle is no signed call: INVALID_INVOCATION_SIGNATURE',
    ],
  ])('says no to %s, and exits with 1', async (_, options, problem) => {
    const [head, payload] = bundle.invocation.split('.');
    const unsigned = { ...bundle, invocation: `${head}.${payload}.${'A'.repeat(86)}` };
    await work.write('unsigned.json', JSON.stringify(unsigned));
    const { code, stdout } = await proves(...options, '--approval', 'yes.json');
    expect(code).toBe(1);
    expect(stdout).toContain(`\nnot approved  by what was given\n  ${problem}`);
    const json = await proves(...options, '--json', '--approval', 'yes.json');
    expect([json.code, JSON.parse(json.stdout)]).toMatchObject([1, { approval: { valid: false } }]);
  });

  it.each<[options: string[], message: string]>([
    [['audit', 'call.json', '--approval', 'yes.json'], 'there is only one of --approval and --roots'],
    [['audit', 'call.json', '--roots', 'roots.jsonl'], '--roots is given without --approval and --key'],
    [
      ['audit', '-', '--approval', '-', '--roots', 'roots.jsonl'],
      'bundle and approval cannot both be standard',
    ],
    [
      ['audit', 'helper.jwt', '--approval', 'yes.json', '--roots', 'roots.jsonl'],
      'holds receipts but no invocation',
    ],
    [
      ['audit', 'call.json', '--approval', 'call.json', '--roots', 'roots.jsonl'],
      '--approval names no line of a yes',
    ],
    [
      ['audit', 'call.json', '--approval', 'nowhere', '--roots', 'roots.jsonl'],
      'cannot read a line of a decision log',
    ],
    [
      ['audit', 'call.json', '--approval', 'yes.json', '--roots', 'yes.json'],
      'cannot read the roots: yes.json:1: ',
    ],
  ])('refuses %j', async (options, message) => {
    expect(await work.drs(options)).toMatchObject({
      ...{ code: 2, stdout: '' },
      stderr: expect.stringContaining(message) as string,
    });
  });
});

describe('a hostile bundle', async () => {
  const attack = '\u001b[2J\u009b2J\u0007\r\u202e\u2028\nreceipt 9';
  const hostile = {
    bundle_version: attack,
    receipts: [
      await receipt({
        iss: attack,
        jti: `dr:${attack}`,
        policy: { [attack]: attack, ['__proto__']: 1 },
        [attack]: attack,
      }),
      attack,
      await receipt({ policy: { [attack]: [attack] }, drs_consent: { [attack]: attack }, nbf: attack }),
    ],
    invocation: await signClaims(
      { ...claims, drs_type: 'invocation-receipt', args: { [attack]: attack } },
      key,
    ),
  };

  it('does not steer the terminal', async () => {
    const { code, stdout } = await audit(hostile);
    expect(code).toBe(0);
    expect(stdout.replaceAll('\n', '').replaceAll('…', '')).toMatch(/^[\x20-\x7e]+$/);
    expect(stdout).not.toMatch(/^receipt 9/m);
    expect(stdout).toContain('\\u{1b}[2J');
  });

  it('does not steer the terminal as JSON, and reads the same', async () => {
    const { stdout } = await audit(hostile, '--json');
    expect(stdout.replaceAll('\n', '')).toMatch(/^[\x20-\x7e]+$/);
    expect(JSON.parse(stdout)).toMatchObject({ bundle_version: attack });
  });

  it('does not flood it', async () => {
    const { stdout } = await audit({ receipts: [await receipt({ policy: { note: 'x'.repeat(100_000) } })] });
    expect(stdout.length).toBeLessThan(3000);
    expect(stdout).toContain('(100002 characters)');
  });
});

it.each(['nonsense!', '', '{"receipts":'])('audit refuses %j', async (stdin) => {
  const { code, stdout, stderr } = await work.drs(['audit', '-'], { stdin });
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(/^drs-verify: standard input is not a bundle: .+\n {2}hint: .+\n$/);
});
