import { Client as V2Client } from '@modelcontextprotocol/client';
import { StdioClientTransport as V2Transport } from '@modelcontextprotocol/client/stdio';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as V1Transport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { MAIN } from '../cli/drs.js';
import { eventually } from '../support/eventually.js';
import type { ToolCaller } from '../middleware/mcp-generations.js';
import { fileOf, startGuard, type GuardProcess, type Said } from './guard-process.js';

const SERVER = 'https://tools.example';
const info = { name: 'test', version: '1.0.0' };
const BUNDLE = 'X-DRS-Bundle';
const CONTEXT = 'xyz.okeyamy.drs/context';

/** A delegation under `/mcp` for what is named. */
const delegated = (...tools: string[]) => {
  return liveChain(1, { cmd: '/mcp', policy: { allowed_tools: tools } });
};
const chain = delegated('search', 'resources/read', 'prompts/get', 'completion/complete', 'tasks/get');
const other = delegated('tasks/get');
const didOf = (from: typeof chain) => from.parties[0]?.did ?? '';
const signed = (method: string, args: object, from = chain) =>
  encode(liveCall(from, args, { cmd: `/mcp/${method}`, tool_server: SERVER }));
const request = (id: unknown, method: string, params: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
});
const toolCall = (id: unknown, from: typeof chain, args: object) =>
  request(id, 'tools/call', {
    name: 'search',
    arguments: args,
    _meta: { [BUNDLE]: signed('tools/call', { tool: 'search', ...args }, from) },
  });
const ROOTS = ['--trusted-root', didOf(chain), '--trusted-root', didOf(other)];
const OPTIONS = [...ROOTS, '--tool-server', SERVER];

/** Starts a client of a generation, with a guard in front of a server of the same. */
const GENERATIONS: readonly (readonly [string, () => Promise<object>])[] = [
  [
    '1.x',
    async () => {
      const client = new V1Client(info);
      await client.connect(new V1Transport(parameters('1.x')));
      return client;
    },
  ],
  [
    '2.x',
    async () => {
      const client = new V2Client(info, { versionNegotiation: { mode: 'auto' } });
      await client.connect(new V2Transport(parameters('2.x')));
      return client;
    },
  ],
];
const parameters = (generation: string) => ({
  command: process.execPath,
  stderr: 'ignore' as const,
  args: [MAIN, 'guard', ...OPTIONS, '--', process.execPath, fileOf('mcp-server.mjs'), generation],
});

describe.each(GENERATIONS)('a server of SDK %s behind drs-verify guard', (_, connect) => {
  let client: ToolCaller;
  beforeAll(async () => {
    client = (await connect()) as ToolCaller;
  });
  afterAll(() => client.close());

  const textOf = async (name: string, params: Record<string, unknown>) => {
    switch (name) {
      case 'tools/call':
        return (await client.callTool(params)).content[0]?.text ?? '';
      case 'resources/read':
        return (await client.readResource(params)).contents[0]?.text ?? '';
      default:
        return (await client.getPrompt(params)).messages[0]?.content.text ?? '';
    }
  };
  const CALLS = [
    ['tools/call', { name: 'search', arguments: { query: 'tea' } }, { tool: 'search', query: 'tea' }],
    ['resources/read', { uri: 'note:///a' }, { tool: 'resources/read', resource_uri: 'note:///a' }],
    [
      'prompts/get',
      { name: 'letter', arguments: { query: 'x' } },
      { tool: 'prompts/get', prompt: 'letter', query: 'x' },
    ],
  ] as const;

  it.each(CALLS)(
    'gets a %s that is delegated, with its context and without its bundle',
    async (name, params, args) => {
      const seen = JSON.parse(
        await textOf(name, { ...params, _meta: { [BUNDLE]: signed(name, args), mine: 1 } }),
      ) as { what: string; meta: Record<string, unknown> };
      expect(seen.meta).not.toHaveProperty(BUNDLE);
      expect(seen.meta).toMatchObject({
        mine: 1,
        [CONTEXT]: {
          root_principal: didOf(chain),
          command: `/mcp/${name}`,
          tool: args.tool,
          binding: 'match',
        },
      });
    },
  );

  it.each(CALLS)(
    'gets no %s that is not delegated, not signed, or other than signed',
    async (name, params, args) => {
      const call = (bundle: string | null) =>
        textOf(name, { ...params, _meta: bundle === null ? {} : { [BUNDLE]: bundle } });
      const refused = (code: string) => ({ code: -32010, data: { code } });
      await expect(call(null)).rejects.toMatchObject(refused('MISSING_BUNDLE'));
      await expect(call(signed(name, args, other))).rejects.toMatchObject(refused('POLICY_VIOLATION'));
      await expect(call(signed(name, { ...args, more: 1 }))).rejects.toMatchObject(
        refused('BINDING_MISMATCH'),
      );
      const used = signed(name, args);
      await call(used);
      await expect(call(used)).rejects.toMatchObject(refused('REPLAY_DETECTED'));
    },
  );
});

// The last test ends it.
describe('drs-verify guard over stdio', { shuffle: false }, () => {
  let guard: GuardProcess;
  beforeAll(() => {
    guard = startGuard([...OPTIONS], undefined, {
      DRS_MAX_BODY_BYTES: '100000',
      DRS_GATE_SIGNING_KEY: Buffer.alloc(32, 1).toString('base64url'),
      OWN: '1',
    });
  });
  let heard = 0;
  /** Says something, and returns the lines that came for it. */
  const ask = async (count: number, ...messages: (string | Buffer | object)[]) => {
    for (const message of messages) guard.say(message);
    heard += count;
    return (await guard.heard(heard)).slice(-count);
  };
  const refusal = (code: string, id: unknown = null) => ({ id, error: { data: { code } } });

  it('passes everything else to the byte, both ways', async () => {
    const odd =
      '{"jsonrpc" : "2.0", "method":"notifications/progress", "params":{"n":1.50,"say":"{ \\"jsonrpc\\":\\"2.0\\",\\"id\\":\\"s\\", \\"method\\":\\"roots/list\\" }"}}';
    const [got] = await ask(2, odd);
    expect(got?.params?.line).toBe(odd);
    expect(guard.lines.at(-1)).toBe('{ "jsonrpc":"2.0","id":"s", "method":"roots/list" }');
    const answer = '{"jsonrpc":"2.0", "id":"s", "result":{"roots":[], "big":12345678901234567890}}';
    const [answered] = await ask(1, answer);
    expect(answered?.params?.line).toBe(answer);
    await ask(2, request(1, 'tools/list'));
    expect(guard.lines.at(-1)).toBe('{ "jsonrpc":"2.0","id":1, "result":{"capabilities":{"tools":{}}} }');
  });

  it('refuses what is no message, and goes on', async () => {
    const [syntax, utf8, batch, both, unknown] = await ask(
      5,
      '{"jsonrpc":',
      Buffer.from([0x7b, 0xff, 0x7d]),
      [request(1, 'ping')],
      '{"jsonrpc":"2.0","id":3,"method":"ping","method":"tools/call"}',
      request(4, 'sampling/createMessage'),
    );
    expect(syntax).toMatchObject(refusal('INVALID_JSONRPC'));
    expect(utf8).toMatchObject(refusal('INVALID_JSONRPC'));
    expect(batch).toMatchObject(refusal('BATCH_NOT_SUPPORTED'));
    expect(both).toMatchObject(refusal('INVALID_JSONRPC', 3));
    expect(unknown).toMatchObject(refusal('UNKNOWN_METHOD', 4));
  });

  it('skips a line of 20 MB and blank ones, and goes on', async () => {
    const [long] = await ask(1, Buffer.alloc(20_000_000, 0x20));
    expect(long).toMatchObject(refusal('BODY_TOO_LARGE'));
    // Where the id comes first, or last, as both SDKs write it.
    const first = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":"${'x'.repeat(200_000)}"}`;
    expect(await ask(1, first)).toMatchObject([refusal('BODY_TOO_LARGE', 5)]);
    const last = `{"method":"tools/call","params":{"id":1,"x":"${'y'.repeat(200_000)}"},"jsonrpc":"2.0","id":"l"}`;
    expect(await ask(1, last)).toMatchObject([refusal('BODY_TOO_LARGE', 'l')]);
    const [got] = await ask(2, '', ' \t\r', request(6, 'ping'));
    expect(got?.params?.line).toContain('"ping"');
  });

  it('drops a notification that it refuses', async () => {
    const [got] = await ask(
      2,
      toolCall(undefined, chain, {}),
      { jsonrpc: '2.0', method: 'notifications/acme' },
      request(7, 'ping'),
    );
    expect(got?.params?.line).toContain('"id":7');
  });

  it('lets nobody say what only a guard says, and sends one line for one message', async () => {
    const forged = {
      [CONTEXT]: { root_principal: 'x' },
      'xyz.okeyamy.drs/context_jwt': 'x',
      [BUNDLE]: 'x',
      mine: 1,
    };
    const call = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"search"}}`;
    const lines = [
      request(8, 'tools/list', { _meta: forged, _META: { 'XYZ.oKeyamy.drs/CONTEXT': 'x' } }),
      `{"jsonrpc":"2.0","method":"notifications/progress","params":{"_meta":${JSON.stringify(forged)}},"params":{}}`,
      // To Python, for one, a carriage return ends a line.
      `{"jsonrpc":"2.0","method":"notifications/progress","params":\r${call}\r}`,
      toolCall(10, chain, { note: 'a' }),
    ];
    (lines[3] as { params: { _meta: object } }).params._meta = {
      ...forged,
      ...(lines[3] as { params: { _meta: object } }).params._meta,
    };
    const got = (await ask(6, ...lines)).flatMap(({ params }) => (params === undefined ? [] : [params.line]));
    expect(
      got.map((line) => [line.includes('root_principal":"x'), line.includes(BUNDLE), line.includes('\r')]),
    ).toEqual(got.map(() => [false, false, false]));
    expect(JSON.parse(got[0] ?? '')).toMatchObject({ params: { _meta: { mine: 1 }, _META: {} } });
    expect(got[1]).toBe('{"jsonrpc":"2.0","method":"notifications/progress","params":{}}');
    const meta = (JSON.parse(got[3] ?? '') as { params: { _meta: Record<string, unknown> } }).params._meta;
    expect(meta).toMatchObject({ mine: 1, [CONTEXT]: { root_principal: didOf(chain) } });
    expect(String(meta['xyz.okeyamy.drs/context_jwt']).split('.')).toHaveLength(3);
  });

  it('keeps a task for the principal who started it, and ids apart', async () => {
    const started = { task: { taskId: 't-1', status: 'working' } };
    await ask(2, toolCall(20, chain, { result: started }));
    const forTask = (id: number, from: typeof chain) =>
      request(id, 'tasks/get', {
        taskId: 't-1',
        _meta: { [BUNDLE]: signed('tasks/get', { tool: 'tasks/get', task: 't-1' }, from) },
      });
    const [foreign, untrusted] = await ask(2, forTask(21, other), forTask(22, delegated('tasks/get')));
    expect(foreign).toMatchObject(refusal('TASK_MISMATCH', 21));
    expect(untrusted).toMatchObject(refusal('UNTRUSTED_ROOT', 22));
    const [got] = await ask(2, forTask(23, chain));
    expect(got?.params?.line).toContain('tasks/get');
  });

  it('hands signals and standard error on, keeps its secrets, and ends as the server does', async () => {
    await eventually(() => {
      expect(guard.stderr()).toContain('"pid"');
    });
    guard.process.kill('SIGHUP');
    guard.process.kill('SIGUSR2');
    await eventually(() => {
      expect(guard.stderr()).toMatch(/got SIGHUP[^]*got SIGUSR2|got SIGUSR2[^]*got SIGHUP/);
    });
    expect(guard.stderr()).toMatch(/"env":\["OWN"\]/);
    guard.process.kill('SIGTERM');
    expect(await guard.ended).toBe(7);
    expect(guard.stderr()).toContain('got SIGTERM');
  });
});

it('is not concerned with variables of others, and forgets no call whose answer is due', async () => {
  const foreign = { LOG_LEVEL: 'INFO', PORT: 'x', TRUSTED_ROOT: 'x', HOST: '', MAX_BODY_BYTES: '1' };
  const guard = startGuard(OPTIONS, undefined, foreign);
  const started = { task: { taskId: 't-2' } };
  // The echo answers each request; a handshake takes the place of no call.
  guard.say(toolCall(1, chain, { result: started }));
  for (let id = 2; id < 10_100; id++) guard.say(`{"jsonrpc":"2.0","id":${id},"method":"initialize"}`);
  const foreignTask = signed('tasks/get', { tool: 'tasks/get', task: 't-2' }, other);
  guard.say(request('last', 'tasks/get', { taskId: 't-2', _meta: { [BUNDLE]: foreignTask } }));
  guard.process.stdin?.end();
  expect(await guard.ended).toBe(0);
  const last = guard.lines.map((line) => JSON.parse(line) as Said).find(({ id }) => id === 'last');
  expect(last?.error?.data.code).toBe('TASK_MISMATCH');
});

describe('where a side of drs-verify guard ends', () => {
  const pidOf = async (guard: GuardProcess) =>
    eventually(() => (JSON.parse(guard.stderr().split('\n')[0] ?? '') as { pid: number }).pid);
  const isGone = (pid: number) =>
    eventually(() => {
      expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    });

  it('kill -9 of the server ends the guard likewise; the end of the input ends the server', async () => {
    const [one, two, three] = [startGuard(OPTIONS), startGuard(OPTIONS), startGuard(OPTIONS)];
    process.kill(await pidOf(one), 'SIGKILL');
    expect(await one.ended).toBe('SIGKILL');
    // A last line needs no line feed.
    two.process.stdin?.end('{"jsonrpc":"2.0","id":1,"method":"ping"}');
    expect(await two.ended).toBe(0);
    expect(two.lines).toHaveLength(2);
    const pid = await pidOf(three);
    three.process.kill('SIGKILL');
    await isGone(pid);
  });
});
