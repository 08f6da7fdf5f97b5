/* oxlint-disable typescript/no-deprecated -- handlers are set on the low-level Server */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  acceptedContent,
  createMcpHandler,
  inputRequired,
  McpServer as V2McpServer,
} from '@modelcontextprotocol/server';
import {
  Client as V2Client,
  InMemoryTransport as V2Pair,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport as V1Pair } from '@modelcontextprotocol/sdk/inMemory.js';
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { McpServer as V1McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { Server as V1Server } from '@modelcontextprotocol/sdk/server/index.js';
import { z } from 'zod';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import {
  createConsent,
  generateKey,
  issueRootDelegation,
  IssueError,
  type IssuedPolicy,
} from '../../src/issue/index.js';
import {
  createMemoryReplayStore,
  drsMcp,
  findDrsContext,
  signRequest,
  signCalls,
  type Delegation,
  type SignCallsOptions,
  type ToolCallEvent,
} from '../../src/middleware/mcp/index.js';
import { eventually } from '../support/eventually.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';
import type { TestServer } from './http.js';
import { GENERATIONS, type Connection, type ToolCaller } from './mcp-generations.js';

/** What is gated besides `tools/call`, with servers and clients of both SDKs. */

const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const info = { name: 'test', version: '1.0.0' };
const consent = createConsent({ text: 'Read for me.', locale: 'en', method: 'explicit-ui-click' });

const delegationFor = async (policy: IssuedPolicy, command = '/mcp'): Promise<Delegation> => {
  const [person, agent] = [generateKey(), generateKey()];
  const root = await issueRootDelegation({ key: person, audience: agent.did, command, policy, consent });
  return { key: agent, chain: [root], toolServer: 'https://tools.example' };
};
const READER = { allowed_tools: ['search', 'resources/read', 'prompts/get', 'completion/complete'] };
const COMPLETION = { ref: { type: 'ref/prompt', name: 'letter' }, argument: { name: 'to', value: 'A' } };

/** What a client asks, and the text that comes back. */
const REQUESTS: readonly (readonly [string, (client: ToolCaller) => Promise<string | undefined>])[] = [
  ['resources/read', async (client) => (await client.readResource({ uri: 'note:///a' })).contents[0]?.text],
  [
    'prompts/get',
    async (client) => {
      const { messages } = await client.getPrompt({ name: 'letter', arguments: { to: 'Ada' } });
      return messages[0]?.content.text;
    },
  ],
  ['completion/complete', async (client) => (await client.complete(COMPLETION)).completion.values[0]],
];

describe.each(GENERATIONS)('MCP $name', ({ serve, connect }) => {
  const run = vi.fn<(query: string | undefined) => void>();
  const events: ToolCallEvent[] = [];
  const closing: (() => Promise<void>)[] = [];
  const serving = async (more: object = {}): Promise<TestServer> => {
    const drs = drsMcp({
      verifier,
      ...OPEN,
      replayStore: createMemoryReplayStore(),
      onToolCall: (event) => events.push(event),
      ...more,
    });
    const server = await serve(drs, ({ query }) => {
      run(query);
      return `${query} for ${findDrsContext()?.root_principal ?? 'nobody'}`;
    });
    closing.push(() => server.close());
    return server;
  };
  const connected = async ({ url }: TestServer, connection?: Connection) => {
    const client = await connect(url, connection);
    closing.unshift(() => client.close());
    return client;
  };
  let server: TestServer;
  beforeAll(async () => {
    server = await serving();
  });
  beforeEach(() => {
    run.mockClear();
    events.length = 0;
  });
  afterAll(async () => {
    for (const close of closing) await close();
  });

  it.each(REQUESTS)('%s is refused without a bundle, and runs nothing', async (method, ask) => {
    await expect(ask(await connected(server))).rejects.toMatchObject({
      code: -32010,
      data: {
        code: 'MISSING_BUNDLE',
        status: 403,
        suggestion: expect.stringContaining(`the command /mcp/${method}.`) as string,
      },
    });
    expect(run).not.toHaveBeenCalled();
  });

  it.each(REQUESTS)('%s is served where it was signed, with its context', async (method, ask) => {
    const client = await connected(server, { delegation: await delegationFor(READER) });
    expect(await ask(client)).toMatch(/ for did:key:z6Mk/);
    expect(events).toMatchObject([
      { command: `/mcp/${method}`, tool: method, policy_result: 'pass', outcome: 'ok' },
    ]);
    expect(run).toHaveBeenCalledTimes(1);
  });

  it.each(REQUESTS)('%s is not even sent where the delegation is for tools alone', async (_, ask) => {
    const client = await connected(server, { delegation: await delegationFor({}, '/mcp/tools/call') });
    await expect(ask(client)).rejects.toThrow(IssueError);
  });

  it('a resource that the policy does not cover is refused by client and server', async () => {
    const policy = { ...READER, allowed_resources: ['note:///a'] };
    const client = await connected(server, { delegation: await delegationFor(policy) });
    await expect(client.readResource({ uri: 'note:///b' })).rejects.toThrow(IssueError);
    const chain = liveChain(1, { cmd: '/mcp', policy });
    const bundleFor = (uri: string) =>
      encode(liveCall(chain, { tool: 'resources/read', resource_uri: uri }, { cmd: '/mcp/resources/read' }));
    const plain = await connected(server);
    const asked = (uri: string, signed: string) =>
      plain.readResource({ uri, _meta: { 'X-DRS-Bundle': bundleFor(signed) } });
    await expect(asked('note:///b', 'note:///b')).rejects.toMatchObject({
      data: { code: 'POLICY_VIOLATION' },
    });
    await expect(asked('note:///b', 'note:///a')).rejects.toMatchObject({
      data: { code: 'BINDING_MISMATCH' },
    });
    expect(run).not.toHaveBeenCalled();
    expect((await asked('note:///a', 'note:///a')).contents[0]?.text).toContain('did:key:');
  });

  it('everybody reads where each of these methods passes, and tools are still protected', async () => {
    const open = await serving({ passMethods: REQUESTS.map(([method]) => method) });
    const client = await connected(open);
    for (const [, ask] of REQUESTS) expect(await ask(client)).toContain('for nobody');
    await expect(client.callTool({ name: 'search', arguments: {} })).rejects.toMatchObject({
      data: { code: 'MISSING_BUNDLE' },
    });
  });

  it('a bundle goes into the header while it is short, and into _meta always', async () => {
    const lengthsWith = async (signing: SignCallsOptions, lengths: readonly number[]) => {
      const sent: { header: number | undefined; meta: number }[] = [];
      const client = await connected(server, {
        delegation: await delegationFor({ allowed_tools: ['search'] }),
        signing,
        fetch: (url, init) => {
          const body = typeof init?.body === 'string' ? (JSON.parse(init.body) as { params?: object }) : {};
          const { _meta: meta } = (body.params ?? {}) as { _meta?: Record<string, string> };
          const bundle = meta?.['X-DRS-Bundle'];
          const header = new Headers(init?.headers).get('x-drs-bundle')?.length;
          if (bundle !== undefined) sent.push({ header, meta: bundle.length });
          return fetch(url, init);
        },
      });
      for (const length of lengths)
        await client.callTool({ name: 'search', arguments: { query: 'x'.repeat(length) } });
      return sent;
    };
    const sent = await lengthsWith({}, [1, 500, 800, 900, 1000, 2000, 40_000]);
    expect(sent.map(({ header }) => header)).toEqual(
      sent.map(({ meta }) => (meta <= 4096 ? meta : undefined)),
    );
    expect(sent[0]?.header).toBeGreaterThan(1000);
    expect(sent.at(-1)?.header).toBeUndefined();
    // The formula of docs/middleware.md.
    const [first, last] = [sent[0]?.meta ?? 0, sent.at(-1)?.meta ?? 0];
    expect((last - first) / 39_999).toBeCloseTo(16 / 9, 2);
    const [always] = await lengthsWith({ carriers: 'header' }, [2000]);
    expect(always?.header).toBe(always?.meta);
    expect((await lengthsWith({ carriers: '_meta' }, [1]))[0]?.header).toBeUndefined();
    const delegation = await delegationFor({});
    for (const carriers of ['meta', 'toString', null])
      expect(() =>
        signCalls(new V2Client({ name: 'a', version: '1' }), delegation, { carriers } as never),
      ).toThrow(`carriers is ${JSON.stringify(carriers)}: expected one of "both", "_meta", "header"`);
  });
});

/** A connection on which the server answers each request with what `answer` returns. */
async function wire(
  answer: (method: string, params: Record<string, unknown>) => object,
  drs = drsMcp({ verifier, ...OPEN }),
) {
  const server = new V1Server(info, { capabilities: { tasks: { requests: { tools: { call: {} } } } } });
  const served: string[] = [];
  server.fallbackRequestHandler = ({ method, params = {} }) => {
    served.push(method);
    return Promise.resolve(answer(method, params) as Record<string, unknown>);
  };
  const [near, far] = V1Pair.createLinkedPair();
  const answers: { id?: unknown; result?: unknown; error?: { data?: { code?: string } } }[] = [];
  near.onmessage = (message) => answers.push(message as never);
  await near.start();
  await drs.protectServer(server).connect(far);
  let id = 0;
  /** Sends a request, and waits for its answer: the code of a refusal, or the result. */
  const ask = async (delegation: Delegation, method: string, params: object) => {
    const own = ++id;
    await near.send({
      jsonrpc: '2.0',
      id: own,
      method,
      params: await signRequest(method, params, delegation),
    });
    return eventually(() => {
      const found = answers.find((one) => one.id === own);
      if (found === undefined) throw new Error(`no answer to ${method} yet`);
      return found.error?.data?.code ?? found.result ?? found.error;
    });
  };
  return { ask, near, answers, served };
}

describe('a task', () => {
  const started = (taskId: string, form: 'task' | 'result') => () =>
    form === 'task' ? { task: { taskId, status: 'working' } } : { resultType: 'task', taskId };
  const TASK_METHODS = ['tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/update'];

  it.each(['task', 'result'] as const)(
    "is its principal's, also on another connection (%s)",
    async (form) => {
      const drs = drsMcp({ verifier, ...OPEN });
      const [mine, other] = [await delegationFor({}), await delegationFor({})];
      const one = await wire(started('t-1', form), drs);
      await one.ask(mine, 'tools/call', { name: 'search', task: { ttl: 60_000 } });
      const two = await wire(() => ({ ok: true }), drs);
      for (const method of TASK_METHODS) {
        expect(await two.ask(other, method, { taskId: 't-1' })).toBe('TASK_MISMATCH');
        expect(await two.ask(mine, method, { taskId: 't-1' })).toEqual({ ok: true });
      }
      expect(two.served).toEqual(TASK_METHODS);
    },
  );

  it('of the 1.x SDK is started, polled and read, each with an invocation of its own', async () => {
    const events: ToolCallEvent[] = [];
    const drs = drsMcp({
      verifier,
      ...OPEN,
      replayStore: createMemoryReplayStore(),
      onToolCall: (event) => events.push(event),
    });
    const taskStore = new InMemoryTaskStore();
    const connect = async (delegation: Delegation | null) => {
      const server = new V1McpServer(info, {
        taskStore,
        capabilities: { tasks: { requests: { tools: { call: {} } } } },
      });
      server.experimental.tasks.registerToolTask(
        'slow',
        {},
        {
          createTask: async (extra) => {
            const task = await extra.taskStore.createTask({ pollInterval: 1 });
            const result = { content: [{ type: 'text' as const, text: 'done' }] };
            await extra.taskStore.storeTaskResult(task.taskId, 'completed', result);
            return { task };
          },
          getTask: (extra) => extra.taskStore.getTask(extra.taskId),
          getTaskResult: async (extra) => (await extra.taskStore.getTaskResult(extra.taskId)) as never,
        },
      );
      const [clientSide, transport] = V1Pair.createLinkedPair();
      const client = new V1Client(info, { capabilities: { tasks: {} } });
      if (delegation !== null) signCalls(client, delegation);
      await Promise.all([drs.protectServer(server).connect(transport), client.connect(clientSide)]);
      return client.experimental.tasks;
    };
    const mine = await connect(await delegationFor({}));
    let taskId = '';
    const seen: string[] = [];
    for await (const message of mine.callToolStream({ name: 'slow' }, undefined, { task: { ttl: 60_000 } })) {
      seen.push(message.type);
      if (message.type === 'taskCreated') taskId = message.task.taskId;
      if (message.type === 'error') throw message.error;
    }
    expect(seen).toEqual(expect.arrayContaining(['taskCreated', 'taskStatus', 'result']));
    const commands = new Set(events.map(({ command }) => command));
    expect(commands).toEqual(new Set(['/mcp/tools/call', '/mcp/tasks/get', '/mcp/tasks/result']));
    expect(new Set(events.map(({ inv_jti }) => inv_jti)).size).toBe(events.length);
    const refused = (code: string) => ({ data: { code } });
    await expect((await connect(null)).getTask(taskId)).rejects.toMatchObject(refused('MISSING_BUNDLE'));
    const other = await connect(await delegationFor({}));
    await expect(other.getTask(taskId)).rejects.toMatchObject(refused('TASK_MISMATCH'));
    await expect(other.cancelTask(taskId)).rejects.toMatchObject(refused('TASK_MISMATCH'));
    expect(await mine.getTask(taskId)).toMatchObject({ taskId, status: 'completed' });
  });

  it('that this process has not seen start is read with a signature alone', async () => {
    const { ask } = await wire(() => ({ ok: true }));
    expect(await ask(await delegationFor({}), 'tasks/get', { taskId: 'elsewhere' })).toEqual({ ok: true });
  });

  it('is not read without a bundle, also where bundles are optional', async () => {
    const drs = drsMcp({ verifier, ...OPEN, optional: true });
    const mine = await delegationFor({});
    const { ask, near, answers } = await wire(started('t-1', 'task'), drs);
    await ask(mine, 'tools/call', { name: 'search' });
    const plain = (id: string, taskId: string) =>
      near.send({ jsonrpc: '2.0', id, method: 'tasks/get', params: { taskId } });
    await plain('owned', 't-1');
    await plain('unknown', 't-2');
    await eventually(() => {
      expect(answers).toContainEqual(
        expect.objectContaining({
          id: 'owned',
          error: expect.objectContaining({
            data: expect.objectContaining({ code: 'TASK_MISMATCH' }) as object,
          }) as object,
        }),
      );
      expect(answers).toContainEqual(
        expect.objectContaining({ id: 'unknown', result: expect.anything() as object }),
      );
    });
  });

  it('stays with the first principal, and no answer but that of a tool call gives it away', async () => {
    const drs = drsMcp({ verifier, ...OPEN });
    const [mine, other] = [await delegationFor({}), await delegationFor({})];
    const { ask } = await wire(started('t-1', 'task'), drs);
    await ask(other, 'resources/read', { uri: 'x:y' });
    await ask(mine, 'tools/call', { name: 'search' });
    await ask(other, 'tools/call', { name: 'search' });
    expect(await ask(other, 'tasks/get', { taskId: 't-1' })).toBe('TASK_MISMATCH');
    expect(await ask(mine, 'tasks/get', { taskId: 't-1' })).toMatchObject({ task: { taskId: 't-1' } });
  });
});

describe('a call of the 2.x SDK that asks its caller something', () => {
  const confirmation = z.object({ confirm: z.boolean() });
  const run = async (alter: (body: string) => string) => {
    const ran = vi.fn();
    const drs = drsMcp({ verifier, ...OPEN, replayStore: createMemoryReplayStore() });
    const handler = createMcpHandler(() => {
      const server = new V2McpServer(info);
      server.registerTool('deploy', { inputSchema: z.object({}) }, (_args, ctx) => {
        const answer = acceptedContent(ctx.mcpReq.inputResponses, 'confirm', confirmation);
        if (answer === undefined) {
          const asked = inputRequired.elicit({ message: 'Deploy?', requestedSchema: confirmation });
          return inputRequired({ inputRequests: { confirm: asked }, requestState: 'state' });
        }
        ran(answer.confirm);
        return { content: [{ type: 'text' as const, text: String(answer.confirm) }] };
      });
      return drs.protectServer(server);
    });
    const client = new V2Client(info, {
      versionNegotiation: { mode: 'auto' },
      capabilities: { elicitation: { form: {} } },
    });
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { confirm: false } }));
    signCalls(client, await delegationFor({}));
    const transport = new StreamableHTTPClientTransport(new URL('http://tool.example/mcp'), {
      fetch: (url, init) => {
        const body = typeof init?.body === 'string' ? alter(init.body) : null;
        return handler.fetch(new Request(url, { ...init, body }));
      },
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    return { result: client.callTool({ name: 'deploy', arguments: {} }), ran };
  };

  it('goes on with the answer that was signed', async () => {
    const { result, ran } = await run((body) => body);
    expect(await result).toMatchObject({ content: [{ text: 'false' }] });
    expect(ran.mock.calls).toEqual([[false]]);
  });

  it.each([
    ['another answer', (body: string) => body.replace('"confirm":false', '"confirm":true')],
    ['another state', (body: string) => body.replace('"requestState":"state"', '"requestState":"other"')],
  ])('does not go on with %s', async (_, alter) => {
    const { result, ran } = await run(alter);
    await expect(result).rejects.toMatchObject({ data: { code: 'BINDING_MISMATCH' } });
    expect(ran).not.toHaveBeenCalled();
  });
});

describe('signing a request', () => {
  it('is for gated methods, and for parameters that the gate takes', async () => {
    const delegation = await delegationFor({});
    await expect(signRequest('tools/list', {}, delegation)).rejects.toThrow('not a gated method');
    await expect(signRequest('resources/read', {}, delegation)).rejects.toThrow(
      'params.uri is not a non-empty string',
    );
    await expect(signRequest('resources/read', { uri: 'x:y', role: 1 }, delegation)).rejects.toThrow(
      'a member "role"',
    );
    await expect(
      signRequest('prompts/get', { name: 'a', arguments: { prompt: 'b' } }, delegation),
    ).rejects.toThrow('named "prompt"');
    const written = await signRequest('tasks/get', { taskId: 't', _meta: { a: 1 } }, delegation);
    const { 'X-DRS-Bundle': ours, ...others } = written['_meta'] as Record<string, unknown>;
    expect(others).toEqual({ a: 1, 'xyz.okeyamy.drs/bundle': ours });
    expect(written).toMatchObject({
      taskId: 't',
      _meta: { a: 1, 'X-DRS-Bundle': expect.stringMatching(/^[\w-]+$/) as string },
    });
  });

  it('leaves alone what needs no bundle', async () => {
    const sent: { method?: string; params?: { _meta?: object } }[] = [];
    const client = new V2Client(info);
    signCalls(client, await delegationFor({}), { sign: (_, method) => method !== 'tasks/get' });
    const [near, far] = V2Pair.createLinkedPair();
    far.onmessage = (message) => sent.push(message as never);
    await far.start();
    void client.connect(near).catch(() => undefined);
    const send = (method: string, params?: object) =>
      near.send({ jsonrpc: '2.0', id: 9, method, ...(params === undefined ? {} : { params }) } as never);
    await eventually(() => expect(sent).not.toEqual([]));
    sent.length = 0;
    await send('subscriptions/listen', { notifications: { toolsListChanged: true } });
    await send('tools/list');
    await send('tasks/get', { taskId: 't' });
    await send('subscriptions/listen', { notifications: { resourceSubscriptions: ['x:y'] } });
    expect(sent.map(({ params }) => params?._meta !== undefined)).toEqual([false, false, false, true]);
    await client.close();
  });
});
