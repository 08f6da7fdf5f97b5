import { beforeAll, describe, expect, it } from 'vitest';
import { generateKey, signClaims, type JsonObject } from '../../src/issue/index.js';
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
signatures NOT verified: this is what the file claims; \`npx drs-verify verify\` gives the verdict

receipt 0 (root)  dr:<uuid>
  iss                      <did>
  aud                      <did>
  sub                      <did>
  cmd                      /mcp/tools/call
  window                   <time> to <time>
  iat                      <time>
  hash                     <digest>
  drs_root_type            human
  drs_status_list_index    7
  drs_consent.locale       "en"
  drs_consent.method       "explicit-cli-command"
  drs_consent.session_id   "<uuid>"
  drs_consent.timestamp    "<time>"
  drs_consent.policy_hash  <digest>
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
  prev_dr_hash          <digest>  is receipt 0
  policy.allowed_tools  ["search"]  narrowed from ["search","fetch"]
  policy.max_cost_usd   1  narrowed from 5

invocation  inv:<uuid>
  iss                      <did>
  sub                      <did>
  cmd                      /mcp/tools/call
  tool_server              https://tools.example
  iat                      <time>
  dr_chain                 2 hashes, those of the receipts above
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

  it('shows a chain without an invocation', async () => {
    const { code, stdout } = await work.drs(['audit', 'helper.jwt']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^2 receipts, no invocation\n/);
    expect(stdout).toContain('narrowed from 5');
  });

  it('as JSON gives digests in full', async () => {
    const { code, stdout } = await work.drs(['audit', '--json', 'bundle.json']);
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as { receipts: { digest: string }[] };
    expect(report).toMatchObject({
      signatures_verified: false,
      bundle_version: '4.0',
      receipts: [
        { linked: true, claims: { policy: { max_cost_usd: 5 } } },
        {
          linked: true,
          claims: { prev_dr_hash: report.receipts[0]?.digest },
          policy_changes: [
            { member: 'allowed_tools', change: 'narrowed', from: ['search', 'fetch'], to: ['search'] },
            { member: 'max_cost_usd', change: 'narrowed', from: 5, to: 1 },
          ],
        },
      ],
      invocation: { chain_matches: true, claims: { args: { tool: 'search' } } },
    });
    expect(report.receipts[0]?.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  });
});

describe('audit points out', () => {
  it('every kind of change to a policy', async () => {
    const root = await receipt({
      policy: { max_cost_usd: 5, max_calls: 3, pii_access: false, allowed_tools: ['a'] },
    });
    const child = await receipt({
      policy: { max_cost_usd: 9, max_calls: 3, write_access: false, allowed_tools: [] },
    });
    const { stdout } = await audit({ receipts: [root, child] });
    expect(stdout).toContain('policy.max_cost_usd   9  WIDER than 5\n');
    expect(stdout).toContain('policy.max_calls      3  unchanged\n');
    expect(stdout).toContain('policy.pii_access     (none)  left out; false above still holds\n');
    expect(stdout).toContain('policy.allowed_tools  []  narrowed from ["a"]\n');
    expect(stdout).toContain('policy.write_access   false  added\n');
  });

  it('a receipt that was passed on more often than one above it allows', async () => {
    const policies = [{ max_delegations: 2 }, { max_delegations: 1 }, {}, { max_delegations: '0' }, {}];
    const receipts = await Promise.all(policies.map((policy) => receipt({ policy })));
    const { stdout } = await audit({ receipts });
    const marked = stdout
      .split('\nreceipt ')
      .filter((part) => /delegated +MORE OFTEN than a receipt above/.test(part));
    expect(marked.map((part) => part.slice(0, 1))).toEqual(['3', '4']);
    expect(stdout).toContain('policy.max_delegations  1  narrowed from 2\n');
    expect(stdout).toContain('policy.max_delegations  (none)  left out; 1 above still holds\n');
  });

  it('a dropped limit, a wider window and a broken link', async () => {
    const root = await receipt({ policy: { max_cost_usd: 5 } });
    const child = await receipt({ nbf: claims.nbf - 1, prev_dr_hash: `sha256:${'0'.repeat(64)}` });
    const { stdout } = await audit({ receipts: [root, child] });
    expect(stdout).toContain('policy.max_cost_usd  (none)  WIDER than 5\n');
    expect(stdout).toContain('2030-03-17 17:46:39 UTC to 2030-03-17 18:46:40 UTC  WIDER than its parent\n');
    expect(stdout).toContain('sha256:000000000000…  is NOT receipt 0\n');
  });

  it('a root that refers to another, and an invocation for another chain', async () => {
    const invocation = await signClaims(
      { ...claims, drs_type: 'invocation-receipt', jti: 'inv:1', args: {}, tool_server: 's', dr_chain: [] },
      key,
    );
    const { stdout } = await audit({ receipts: [await receipt({ prev_dr_hash: 'x' })], invocation });
    expect(stdout).toContain('prev_dr_hash   x  is NOT a root\n');
    expect(stdout).toContain('0 hashes, NOT that of the receipt above\n');
  });

  it('what is malformed, and shows the rest', async () => {
    const { code, stdout } = await audit({
      bundle_version: 3,
      receipts: [
        'no-jwt',
        await receipt({ nbf: 'soon', exp: 2 ** 53 - 1 }),
        7,
        await receipt({ policy: { max_cost_usd: 'x' } }),
      ],
      invocation: null,
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^bundle 3, 4 receipts and an invocation\n/);
    expect(stdout).toContain('malformed  it has 1 segments, expected 3 separated by dots\n');
    expect(stdout).toContain('nbf is "soon", expected an integer');
    expect(stdout).toContain('soon to 9007199254740991 (Unix seconds, beyond the calendar)');
    expect(stdout).toContain('malformed  it is 7, expected a compact JWT\n');
    expect(stdout).toContain('policy.max_cost_usd is "x", expected a finite number');
    expect(stdout).toContain('malformed  it is null, expected a compact JWT\n');
  });

  it.each([[{ receipts: {} }], [{ invocation: null }]])('nothing in %j, without failing', async (bundle) => {
    const { code, stderr } = await audit(bundle);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it.each([[[]], [{}], ['text'], [null]])('that %j is another file than was meant', async (bundle) => {
    const { code, stderr } = await audit(bundle);
    expect(code).toBe(2);
    expect(stderr).toContain('has neither receipts nor an invocation, expected a bundle\n');
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
