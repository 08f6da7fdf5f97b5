import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createChain, INVOKE, startService, type RunningService, type Workplace, words } from './drs.js';
import { parse } from './log-members.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { startService as startLogged } from '../support/service.js';

const ADMIN_TOKEN = 'a-token-for-tests';
let work: Workplace;
let service: RunningService;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startService({ DRS_ADMIN_TOKEN: ADMIN_TOKEN });
  env = { DRS_VERIFY_URL: service.url, DRS_ADMIN_TOKEN: ADMIN_TOKEN };
  work = await createChain();
});
afterAll(() => service.stop());

describe('a session against the service', { shuffle: false }, () => {
  it('git ignores the folder of the quick start', () => {
    const ignored = readFileSync(new URL('../../.gitignore', import.meta.url), 'utf8').split('\n');
    expect(ignored).toContain('drs-demo/');
  });

  it('a chain made by hand is valid', async () => {
    const { code, stdout, stderr } = await work.drs(['verify', 'bundle.json'], { env });
    expect(stderr).toBe('');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^valid\n {2}root principal {2}did:key:z6Mk\w+\n {2}chain depth {5}2\n/);
    expect(stdout).toContain('leaf policy     {"allowed_tools":["search"],"max_cost_usd":1}\n');
    expect(stdout).not.toContain('binding');
  });

  it('from standard input, in the form of a header, as JSON', async () => {
    const { stdout: header } = await work.done(...INVOKE, '--args', '@args.json', '--header');
    expect(header).toMatch(/^[\w-]+\n$/);
    const { code, stdout } = await work.drsAlone(['verify', '--json', '-'], { env, stdin: header });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ valid: true, context: { chain_depth: 2 } });
  });

  it('with the body that was signed', async () => {
    await work.write('body.json', ' {"estimated_cost_usd": 5e-1, "query": "tea", "tool": "search"}\n');
    const { code, stdout } = await work.drs(['verify', 'bundle.json', '--body', 'body.json'], { env });
    expect(stdout).toContain('binding         match\n');
    expect(code).toBe(0);
  });

  it('with another body it is valid, and the exit code is 1', async () => {
    const stdin = '{"tool":"search","query":"gold"}';
    const { code, stdout } = await work.drs(['verify', 'bundle.json', '--body', '-'], { env, stdin });
    expect(stdout).toMatch(/^valid, but the body is not what was signed\n/);
    expect(stdout).toContain(
      'binding         mismatch\n  BINDING_MISMATCH\n  the body of the call is not what invocation.args were signed for: ' +
        'args.estimated_cost_usd is a number, the body has none\n  hint: Sign the invocation',
    );
    expect(code).toBe(1);
  });

  it('an integer that a double cannot hold reaches the service as it is', async () => {
    const args = (n: string) => `{"tool":"search","estimated_cost_usd":0,"n":${n}}`;
    await work.done(...INVOKE, '--args', args('9007199254740992'), '-o', 'big.json');
    const verify = ['verify', 'big.json', '--json', '--body', '-'];
    const near = await work.drs(verify, { env, stdin: args('9007199254740993') });
    expect(JSON.parse(near.stdout)).toMatchObject({ valid: true, binding: 'invalid_body' });
    expect(near.code).toBe(1);
    const same = await work.drs(verify, { env, stdin: args('9007199254740992') });
    expect(JSON.parse(same.stdout)).toMatchObject({ valid: true, binding: 'match' });
    expect(same.code).toBe(0);
  });

  it('an escalation is refused when it is issued, and by the service when it is signed all the same', async () => {
    const greedy = words('delegate --key bot.key --chain root.jwt --to helper.pub --max-cost 6');
    const refused = await work.drs([...greedy, '-o', 'greedy.jwt']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      /^drs-verify: refused, POLICY_ESCALATION: Receipt 1: policy\.max_cost_usd is 6,.*\n {2}hint: .+\n$/,
    );

    await work.done(...greedy, '--unchecked', '-o', 'greedy.jwt');
    const invoke = INVOKE.map((word) => (word === 'helper.jwt' ? 'greedy.jwt' : word));
    expect((await work.drs([...invoke, '--args', '@args.json'])).code).toBe(1);
    await work.done(...invoke, '--args', '@args.json', '--unchecked', '-o', 'greedy.json');
    const verdict = await work.drs(['verify', 'greedy.json'], { env });
    expect(verdict).toMatchObject({ code: 1, stderr: '' });
    expect(verdict.stdout).toMatch(/^invalid {2}POLICY_ESCALATION\n {2}Receipt 1: .+\n {2}hint: .+\n$/);
  });

  it('a call against the policy is refused when it is signed', async () => {
    const { code, stderr } = await work.drs([...INVOKE, '--args', '{"tool":"fetch"}']);
    expect(code).toBe(1);
    expect(stderr).toContain('refused, POLICY_VIOLATION: ');
  });

  it('a tampered bundle is invalid', async () => {
    const bundle = JSON.parse(await work.read('bundle.json')) as { receipts: string[] };
    await work.write('tampered.json', JSON.stringify({ ...bundle, receipts: bundle.receipts.slice(1) }));
    const { code, stdout } = await work.drs(['verify', 'tampered.json', '--json'], { env });
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ valid: false, error: { code: expect.any(String) as string } });
  });

  it('an organisation can delegate without end, to a DID', async () => {
    const did = (await work.done('keygen', '-o', 'agent.key')).stdout.trim();
    const root = [
      ...words('issue --key alice.key --to'),
      did,
      ...words('--root-type organisation --expires never'),
    ];
    await work.done(...root, '--policy', '{"acme:region":"eu"}', '--deny-write', '-o', 'standing.jwt');
    const call = ['invoke', '--key', 'agent.key', '--chain', 'standing.jwt', '--tool-server', 'x'];
    expect((await work.drs([...call, '--args', '{}'])).stderr).toContain('args.write_access is missing');
    await work.done(...call, '--args', '{"write_access":false}', '-o', 'standing.json');
    const { code, stdout } = await work.drs(['verify', 'standing.json'], { env });
    expect(stdout).toContain('{"acme:region":"eu","write_access":false}');
    expect(code).toBe(0);
  });

  it('a revocation holds from the next verdict on', async () => {
    const wrong = await work.drs(['revoke', '--index', '7'], {
      env: { ...env, DRS_ADMIN_TOKEN: 'wrong-token' },
    });
    expect(wrong).toMatchObject({ code: 1, stdout: '' });
    expect(wrong.stderr).toContain('401');
    expect(wrong.stderr).not.toContain('wrong-token');
    expect((await work.drs(['verify', 'bundle.json'], { env })).code).toBe(0);

    const revoked = await work.drsAlone(['revoke', '--index', '7'], { env });
    expect(revoked).toEqual({
      ...{ code: 0, stdout: 'revoked: status list index 7\n' },
      stderr:
        "note: every receipt with this index in the operator's list is revoked, whoever issued it; --receipt ends one alone\n",
    });
    const { code, stdout } = await work.drs(['verify', 'bundle.json'], { env });
    expect(stdout).toMatch(/^invalid {2}RECEIPT_REVOKED\n/);
    expect(code).toBe(1);
  });

  it('a receipt is revoked by its file or digest, a key by its DID, and the list says so', async () => {
    const revoke = async (...args: string[]) => {
      const { code, stdout, stderr } = await work.drs(['revoke', ...args], { env });
      return [code, stdout || stderr];
    };
    const [root = '', ...others] = (await work.read('root.jwt')).trim().split('\n');
    expect(others).toEqual([]);
    const receipt = digestOf(root);
    expect(await revoke('--receipt', 'root.jwt', '--reason', 'wrong limit')).toEqual([
      0,
      `revoked: receipt ${receipt}\n`,
    ]);
    const DIGEST = digestOf('another');
    expect(await revoke('--receipt', DIGEST)).toEqual([0, `revoked: receipt ${DIGEST}\n`]);
    const [did = ''] = /did:key:\w+/.exec(await work.read('helper.pub')) ?? [];
    expect(await revoke('--did', did)).toEqual([0, `revoked: did ${did}\n`]);
    expect((await work.drs(['verify', 'bundle.json'], { env })).stdout).toContain(
      'invalid  RECEIPT_REVOKED\n',
    );

    const { code, stdout } = await work.drs(['revocations', 'list'], { env });
    const at = expect.any(String) as string;
    const { exp } = JSON.parse(Buffer.from(root.split('.')[1] ?? '', 'base64url').toString()) as {
      exp?: number;
    };
    expect([code, parse(stdout)]).toEqual([
      0,
      [
        { status_list_index: 7, at },
        { receipt, at, reason: 'wrong limit', ...(exp !== undefined && { exp }) },
        { receipt: DIGEST, at },
        { did, at },
      ],
    ]);
    const wrong = await work.drs(['revocations', 'list'], {
      env: { ...env, DRS_ADMIN_TOKEN: 'wrong-token' },
    });
    expect(wrong).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('401') as string });
  });

  it.each([
    [[], 'nothing is named, expected one'],
    [['--index', '7', '--did', 'did:key:z1'], 'several things are named, expected one'],
    [['--did', 'did:key:z1'], 'did is "did:key:z1", expected a did:key of an Ed25519 key'],
    [['--receipt', 'sha256:12'], 'receipt is "sha256:12", expected sha256: and 64'],
    [['--receipt', 'helper.jwt'], 'helper.jwt has 2 receipts, expected the one to revoke'],
    [['--receipt', 'bundle.json'], 'bundle.json is not a chain of receipts'],
  ])('revoke %j is refused', async (args, says) => {
    const { code, stderr } = await work.drs(['revoke', ...args], { env });
    expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
  });
});

it('revoke takes the token from a file, to the address of /admin', async () => {
  const service = await startLogged({
    ...{ DRS_ADMIN_TOKEN: 'a-token-of-16-letters', METRICS_ADDR: '127.0.0.1:0' },
    ADMIN_ON_METRICS_ADDR: '1',
  });
  const metricsPort = String(service.log.find(({ msg }) => msg === 'listening')?.['metricsPort']);
  try {
    writeFileSync(work.path('token'), 'a-token-of-16-letters\n');
    const { PATH = '' } = process.env;
    const withFile = { PATH, DRS_VERIFY_URL: service.url, DRS_ADMIN_TOKEN_FILE: work.path('token') };
    const wrong = await work.drs(['revoke', '--index', '7'], { env: withFile });
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('set DRS_ADMIN_URL')]);
    const right = { ...withFile, DRS_ADMIN_URL: `http://127.0.0.1:${metricsPort}` };
    const { code, stdout } = await work.drs(['revoke', '--index', '7', '--reason', 'key lost'], {
      env: right,
    });
    expect([code, stdout]).toEqual([0, 'revoked: status list index 7\n']);
    const missing = { ...withFile, DRS_ADMIN_TOKEN_FILE: work.path('missing') };
    expect(await work.drs(['revoke', '--index', '7'], { env: missing })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/DRS_ADMIN_TOKEN_FILE is ".*missing": ENOENT/) as string,
    });
  } finally {
    await service.stop();
  }
});

it('revoke says that the service has no admin token', async () => {
  const closed = await startService();
  try {
    const { code, stderr } = await work.drs(['revoke', '--index', '7'], {
      env: { ...env, DRS_VERIFY_URL: closed.url },
    });
    expect(code).toBe(1);
    expect(stderr).toContain('503');
    expect(stderr).toContain('DRS_ADMIN_TOKEN');
  } finally {
    await closed.stop();
  }
});
