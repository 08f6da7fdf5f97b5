import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBundle, encodeBundle, importKey, issueInvocation } from '../../src/issue/index.js';
import { createChain, INVOKE, startService, type RunningService, type Workplace } from './drs.js';

let work: Workplace;
let service: RunningService;
let env: Record<string, string>;
let bundle: string;

beforeAll(async () => {
  [service, work] = await Promise.all([
    startService({ SERVER_IDENTITY: 'https://tools.example' }),
    createChain(),
  ]);
  env = { DRS_VERIFY_URL: service.url };
  bundle = (await work.done(...INVOKE, '--args', '@args.json', '--header')).stdout.trim();
});
afterAll(() => service.stop());

/** The same call, signed 1,000 seconds ago. */
async function old(): Promise<string> {
  const receipts = (await work.read('helper.jwt')).trim().split('\n');
  const invocation = await issueInvocation({
    key: importKey(JSON.parse(await work.read('helper.key'))),
    chain: receipts,
    args: { tool: 'search', ...args },
    toolServer: 'https://tools.example',
    now: Math.floor(Date.now() / 1000) - 1000,
    unchecked: true,
  });
  return encodeBundle(createBundle({ receipts, invocation }));
}

const args = { query: 'tea', estimated_cost_usd: 0.5 };
const toolCall = (given: object = args) => ({
  ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
  params: { name: 'search', arguments: given },
});
const request = (body: object, more: object = {}) =>
  JSON.stringify({ headers: { 'X-DRS-Bundle': bundle }, body_text: JSON.stringify(body), ...more });
const decide = (protocol: string, stdin: string, options: string[] = [], more: Record<string, string> = {}) =>
  work.drs(['verify', '--gate', protocol, '-', ...options], { env: { ...env, ...more }, stdin });

describe('verify --gate', () => {
  it('allows the call that was signed, as often as it is asked', async () => {
    for (const asked of [request(toolCall()), request(toolCall(), { protocol: 'mcp', path: '/mcp' })]) {
      const { code, stdout, stderr } = await decide('mcp', asked);
      expect([code, stderr]).toEqual([0, 'replay and SERVER_IDENTITY were not checked\n']);
      expect(stdout).toMatch(
        /^allowed\n {2}root principal {2}did:key:z\w+\n {2}agent {11}did:key:z\w+\n {2}command {9}\/mcp\/tools\/call\n {2}tool {12}search\n {2}binding {9}match\n$/,
      );
    }
    const alone = await work.drsAlone(['verify', '--gate', 'mcp', '-'], { env, stdin: request(toolCall()) });
    expect(alone).toEqual(await decide('mcp', request(toolCall())));
    const plain = request({ tool: 'search', ...args });
    expect(
      await decide('http', plain, ['--tool-server', 'https://tools.example'], { GATE_ROUTES: 'any' }),
    ).toMatchObject({ code: 0, stderr: 'replay was not checked\n' });
    expect(
      await decide('http', plain, ['--tool-server', 'https://other.example'], { GATE_ROUTES: 'any' }),
    ).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('TOOL_SERVER_MISMATCH') as string,
      stderr: '',
    });
  });

  it('reads the routes of http where the service does', async () => {
    const route = { method: 'POST', path: '/search', tool: 'search' };
    const table = 'routes.json';
    await work.write(table, JSON.stringify({ routes: [route] }));
    const asked = (path: string) => request(args, { path });
    const routed = (path: string) => decide('http', asked(path), [], { GATE_ROUTES: table });
    expect(await routed('/search')).toMatchObject({ code: 0 });
    expect(await routed('/delete')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('UNKNOWN_ROUTE') as string,
    });
    expect(await decide('http', asked('/search'), [], { GATE_ROUTES: 'missing.json' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('GATE_ROUTES is "missing.json"') as string,
    });
  });

  it('passes what a gate does not check', async () => {
    const { code, stdout } = await decide('mcp', request({ jsonrpc: '2.0', id: 1, method: 'tools/list' }));
    expect([code, stdout]).toEqual([0, 'passes, without a check\n']);
  });

  it.each<[string, string, () => string | Promise<string>, string]>([
    [
      'another argument',
      'mcp',
      () => request(toolCall({ ...args, query: ['tea'] })),
      'BINDING_MISMATCH\n  the body of the call is not what invocation.args were signed for: args.query is a string, the body has an array\n',
    ],
    ['no bundle', 'mcp', () => request(toolCall(), { headers: {} }), 'MISSING_BUNDLE\n'],
    [
      'another command',
      'a2a',
      () => request({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: {} }),
      'COMMAND_MISMATCH\n  Invocation: cmd is "/mcp/tools/call", expected "/a2a/GetTask"\n',
    ],
    [
      'a method that the gate does not know',
      'mcp',
      () => request({ jsonrpc: '2.0', id: 1, method: 'acme/search' }),
      'UNKNOWN_METHOD\n',
    ],
    [
      'an old invocation',
      'mcp',
      async () => request(toolCall(), { headers: { 'X-DRS-Bundle': await old() } }),
      'INVOCATION_STALE\n  Invocation: iat is ',
    ],
  ])('refuses %s, with code, message and remedy', async (_, protocol, asked, says) => {
    const { code, stdout } = await decide(protocol, await asked());
    expect(stdout).toMatch(/^refused {2}[A-Z_]+\n {2}.+\n {2}hint: .+\n {2}status: \d{3}\n$/);
    expect(stdout).toContain(`refused  ${says}`);
    expect(code).toBe(1);
  });

  it('prints what /v1/gate answers as JSON', async () => {
    const asked = request(toolCall({}), { protocol: 'mcp' });
    const { code, stdout } = await decide('mcp', asked, ['--json']);
    const ask = async (body: string): Promise<unknown> => {
      const headers = { 'content-type': 'application/json' };
      return (await fetch(`${service.url}/v1/gate`, { method: 'POST', headers, body })).json();
    };
    expect(JSON.parse(stdout)).toEqual(await ask(asked));
    expect(code).toBe(1);
    const allowed = await decide('mcp', request(toolCall()), ['--json']);
    const said = JSON.parse(allowed.stdout) as object;
    expect(said).toMatchObject({ allow: true, context: { chain_depth: 2, leaf_policy: {} } });
    expect(said).toEqual(await ask(request(toolCall(), { protocol: 'mcp' })));
    const passed = await decide('mcp', request({ jsonrpc: '2.0', id: 1, method: 'ping' }), ['--json']);
    expect(JSON.parse(passed.stdout)).toEqual({ allow: true, gated: false, status: 200 });
  });

  it('takes the variables of a gate', async () => {
    const asked = request({ jsonrpc: '2.0', id: 1, method: 'acme/search' });
    expect(await decide('mcp', asked, [], { GATE_PASS_METHODS: 'acme/search' })).toMatchObject({ code: 0 });
    const read = request({ jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: 'x:1' } });
    expect(await decide('mcp', read)).toMatchObject({ code: 1 });
    expect(await decide('mcp', read, [], { GATE_METHODS: 'tools' })).toMatchObject({ code: 0 });
    const stale = request(toolCall(), { headers: { 'X-DRS-Bundle': await old() } });
    expect(await decide('mcp', stale, [], { REPLAY_WINDOW_SECS: '100000' })).toMatchObject({ code: 0 });
    expect(await decide('mcp', stale, [], { REPLAY_WINDOW_SECS: 'x' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('REPLAY_WINDOW_SECS is "x"') as string,
    });
  });

  it.each<[string, string, string, string[]]>([
    ['no JSON', '{', 'does not describe a request: the body is not JSON', []],
    ['an unknown member', '{"bodi":1}', 'the member "bodi" is none of', []],
    ['another protocol', '{"protocol":"a2a"}', 'describes a request over a2a, expected mcp', []],
    ['an unknown protocol', '{"protocol":"x"}', 'protocol is "x", expected http, mcp or a2a', []],
    [
      'a body of its own beside it',
      '{}',
      "option '--gate <protocol>' cannot be used with option '--body <file>'",
      ['--body', 'x'],
    ],
  ])('exits with 2 for %s', async (_, stdin, says, options) => {
    const { code, stdout, stderr } = await decide('mcp', stdin, options);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(says);
  });

  it('exits with 2 for a protocol that there is not, and without a service', async () => {
    expect(await decide('grpc', '{}')).toMatchObject({ code: 2, stdout: '' });
    // Port 9 (discard) is below the range from which systems lend ports, and nothing listens there.
    expect(
      await decide('mcp', request(toolCall()), [], { DRS_VERIFY_URL: 'http://127.0.0.1:9' }),
    ).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('no verdict from the service: ') as string,
    });
    expect(await decide('mcp', request(toolCall()), [], { DRS_VERIFY_URL: 'ftp://x' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('DRS_VERIFY_URL is not an http or https URL') as string,
    });
  });
});
