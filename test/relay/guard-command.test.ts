import { spawn } from 'node:child_process';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { listen } from '../middleware/http.js';
import { toCommandError } from '../../src/cli/command-error.js';
import { guard, type GuardOptions } from '../../src/cli/commands/guard.js';
import { MAIN } from '../cli/drs.js';
import { linesOf } from '../support/child.js';
import { requireApprovePage } from '../support/approve-page.js';
import { eventually } from '../support/eventually.js';
import { ECHO, startGuard } from './guard-process.js';

const named: GuardOptions = { trustedRoot: ['any'], toolServer: 'any' };
const proxy: GuardOptions = { ...named, to: 'http://127.0.0.1:1/mcp' };
const none: readonly string[] = [];

type Row = readonly [
  name: string,
  command: readonly string[],
  options: GuardOptions,
  env: Readonly<Record<string, string>>,
  message: string,
];
const WRONG: readonly Row[] = [
  ['without a tool server', none, named, {}, 'there is no tool server'],
  ['with two', ['x'], proxy, {}, 'there are two tool servers'],
  ['without a root', ['x'], { toolServer: 'any' }, {}, 'there is no trusted root'],
  ['with any root beside one', ['x'], { ...named, trustedRoot: ['any', 'x'] }, {}, 'expected any alone'],
  ['with a root that is none', ['x'], { ...named, trustedRoot: ['me'] }, {}, '(DRS_TRUSTED_ROOTS) is "me"'],
  ['without a name', ['x'], { trustedRoot: ['any'] }, {}, 'the tool server has no name'],
  [
    'with a typing error',
    ['x'],
    named,
    { DRS_TRUSTED_ROOT: 'x' },
    'expected --trusted-root (DRS_TRUSTED_ROOTS): unset it',
  ],
  ['with a variable of the service', ['x'], named, { DRS_GRPC_PORT: '1' }, 'DRS_GRPC_PORT is not a variable'],
  [
    'with a proxy under a name of ours',
    ['x'],
    named,
    { DRS_HTTP_PROXY: 'http://p:1' },
    'DRS_HTTP_PROXY is not a variable of drs-verify guard, expected HTTP_PROXY',
  ],
  [
    'with a proxy that is no URL',
    ['x'],
    named,
    { DRS_STATUS_LIST_BASE_URL: 'https://lists.example/1', HTTP_PROXY: 'p:1' },
    'configuration: HTTP_PROXY is "p:1"',
  ],
  ['with a variable of nobody', ['x'], named, { DRS_ACME: '1' }, 'DRS_ACME is not a variable'],
  ['with a log in the way', ['x'], named, { DRS_DECISION_LOG: '-' }, 'DRS_DECISION_LOG is "-"'],
  ['over stdio with an address', ['x'], { ...named, listen: 'x:1' }, {}, '--listen is for a tool server'],
  ['on no address', none, { ...proxy, listen: '8443' }, {}, '--listen is "8443"'],
  ['with routes of another protocol', none, { ...proxy, routes: 'x' }, {}, '--routes is for --protocol http'],
  ['with JSON-RPC of another protocol', none, { ...proxy, rpc: '/a2a' }, {}, '--rpc is for --protocol a2a'],
  ['over http without routes', none, { ...proxy, protocol: 'http' }, {}, 'there is no table of routes'],
  ['with a password', none, { ...named, to: 'http://a:secret@x/' }, {}, 'expected an http or https URL'],
  ['with a query', none, { ...proxy, to: 'http://x/?a', protocol: 'a2a' }, {}, 'without a query'],
  ['with a variable that is none', ['x'], named, { DRS_LOG_REFUSALS: 'me' }, 'DRS_LOG_REFUSALS is "me"'],
  ['with an empty name', ['x'], { ...named, toolServer: '' }, {}, '(DRS_SERVER_IDENTITY) is empty'],
  ['with a state off', ['x'], { ...named, state: 'x' }, { DRS_GATE_REPLAY: 'off' }, '--state keeps what'],
  ['with a state in Redis', ['x'], { ...named, state: 'x' }, { DRS_GATE_REPLAY: 'redis' }, 'is "redis"'],
  ['without its routes', none, { ...proxy, protocol: 'http', routes: 'no/file' }, {}, 'is "no/file"'],
  ['with a program that is not there', ['./no-such-program'], named, {}, 'spawn ./no-such-program ENOENT'],
];

describe('drs-verify guard', () => {
  afterEach(() => vi.unstubAllEnvs());

  it.each(WRONG)('does not start %s', async (_, command, options, env, message) => {
    for (const [name, value] of Object.entries({ DRS_LOG_LEVEL: 'silent', ...env })) vi.stubEnv(name, value);
    const error = toCommandError(await guard(command, options).catch((thrown: unknown) => thrown));
    expect(error).toMatchObject({ exitCode: 2, message: expect.stringContaining(message) as unknown });
    expect(error?.message).not.toContain('secret');
  });

  it('says which of its variables it does not read, for want of their prefix', async () => {
    const args = ['--trusted-root', 'any', '--tool-server', 'any'];
    const foreign = { PORT: 'tcp://10.0.0.1:80', LOG_LEVEL: 'INFO', HOST: 'me' };
    const guard = startGuard(args, ECHO, { STATUS_LIST_BASE_URL: 'https://lists.example/1', ...foreign });
    await eventually(() => {
      expect(guard.stderr()).toContain('set DRS_STATUS_LIST_BASE_URL');
    });
    guard.process.stdin?.end();
    expect(await guard.ended).toBe(0);
    expect(guard.stderr().match(/does not read it/g)).toHaveLength(1);
  });

  it('names its variables in what it answers', async () => {
    const args = ['--trusted-root', 'any', '--tool-server', 'any', '--to', 'http://127.0.0.1:1/mcp'];
    const env = {
      PATH: process.env['PATH'],
      DRS_MAX_BODY_BYTES: '9',
      DRS_ALLOWED_ORIGINS: 'https://a.example',
    };
    const child = spawn(process.execPath, [MAIN, 'guard', ...args, '--listen', '127.0.0.1:0'], { env });
    try {
      let url: string | undefined;
      for await (const line of linesOf(child.stdout)) {
        ({ url } = JSON.parse(line) as { url?: string });
        if (url !== undefined) break;
      }
      const refusal = async (headers: Record<string, string>) => {
        const res = await fetch(`${url}/mcp`, { method: 'POST', headers, body: '{"jsonrpc":"2.0"}' });
        return res.text();
      };
      const json = { 'Content-Type': 'application/json' };
      expect(await refusal(json)).toContain('larger than DRS_MAX_BODY_BYTES (9)');
      expect(await refusal({ ...json, Origin: 'https://b.example' })).toContain('unless DRS_ALLOWED_ORIGINS');
    } finally {
      child.kill();
    }
  });

  it('names its own options where its address is taken', async () => {
    const other = await listen((_req, res) => res.end());
    const address = new URL(other.url).host;
    const error = await guard(none, { ...proxy, listen: address }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      message: expect.stringMatching(
        `^cannot listen on ${address}: .*choose another address \\(--listen .*$`,
      ) as unknown,
      hint: 'check what the options and variables name (--check)',
    });
    await other.close();
  });

  it('names APPROVALS_URL where the port of its page is taken, as by another guard', async () => {
    requireApprovePage();
    const other = await listen((_req, res) => res.end());
    const { port } = new URL(other.url);
    vi.stubEnv('DRS_LOG_LEVEL', 'silent');
    vi.stubEnv('DRS_APPROVALS_URL', `http://localhost:${port}`);
    const error = await guard(['x'], named).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      message: expect.stringMatching(
        `^cannot guard x: cannot listen on 127.0.0.1:${port}: another process has the port, .*choose another address \\(DRS_APPROVALS_URL\\)$`,
      ) as unknown,
    });
    await other.close();
  });

  it('warns with --check where nobody could say yes on its page', async () => {
    requireApprovePage();
    const [warned, said] = [vi.spyOn(console, 'error'), vi.spyOn(console, 'log')].map((spy) =>
      spy.mockReturnValue(undefined),
    );
    vi.stubEnv('DRS_APPROVALS_URL', 'http://localhost:8765');
    await guard(['x'], { ...named, check: true });
    expect(warned?.mock.calls).toEqual([
      [
        expect.stringMatching(
          /^warning: DRS_APPROVALS_URL is "http:\/\/localhost:8765", and no approver in DRS_TRUSTED_ROOTS_FILE has this origin/,
        ),
      ],
    ]);
    expect(said?.mock.calls).toEqual([['The configuration can work.']]);
    warned?.mockRestore();
    said?.mockRestore();
  });
});
