import { Role, type AgentCard } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, type AgentExecutor } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createConsent, generateKey, IssueError, issueRootDelegation } from '../../src/issue/index.js';
import {
  createMemoryReplayStore,
  drsA2a,
  drsContext,
  drsExtension,
  signA2aRequests,
  type ToolCallEvent,
} from '../../src/middleware/a2a/index.js';
import { signCall } from '../../src/middleware/delegation.js';
import type { JsonObject } from '../../src/protocol/json.js';
import { encode, liveCall, liveChain, now, OPEN } from './call.js';
import { listen, send, type TestServer } from './http.js';
import { SOURCES } from './sources.js';

const METHOD = 'SendMessage';
const chain = liveChain(3, { cmd: '/a2a', policy: { allowed_tools: [METHOD, 'CancelTask', 'a/b'] } });
const part = {
  content: { $case: 'text' as const, value: 'hello' },
  metadata: undefined,
  filename: '',
  mediaType: '',
};
const message = (text: string, role: Role) => ({
  messageId: 'm1',
  contextId: '',
  taskId: '',
  role,
  parts: [{ ...part, content: { ...part.content, value: text } }],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
});
const params = { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] } };
const rpc = (members: object = {}) => ({ jsonrpc: '2.0', id: 7, method: METHOD, params, ...members });
const signed = (args: object = { tool: METHOD, ...params }, overrides: object = {}) =>
  encode(liveCall(chain, args, { cmd: `/a2a/${METHOD}`, ...overrides }));

const AGENT = 'https://agent.example';
const sending = () => ({
  tenant: '',
  configuration: undefined,
  metadata: undefined,
  message: message('hello', Role.ROLE_USER),
});

/** A delegation of every method. */
async function unlimited() {
  const [person, agent] = [generateKey(), generateKey()];
  const chain = [
    await issueRootDelegation({
      key: person,
      audience: agent.did,
      command: '/a2a',
      policy: {},
      rootType: 'organization',
      expiresAt: now() + 3600,
    }),
  ];
  const delegation = { key: agent, chain, toolServer: AGENT };
  const sign = (method: string, args: JsonObject) =>
    signCall(delegation, `/a2a/${method}`, { tool: method, ...args });
  return { delegation, sign };
}

async function all(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const items: unknown[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

const mismatch = (binding: string) => ({ valid: true, binding, code: 'BINDING_MISMATCH' });
/** What must never reach the agent: name, header, body, status, data of the error. */
const ATTACKS: readonly (readonly [
  string,
  () => string | undefined,
  () => string,
  number,
  { readonly code: string; readonly valid?: boolean },
])[] = [
  ['no bundle', () => undefined, () => JSON.stringify(rpc()), 403, { code: 'MISSING_BUNDLE' }],
  [
    'two values joined by a comma',
    () => `${signed()},${signed()}`,
    () => JSON.stringify(rpc()),
    400,
    { code: 'MULTIPLE_BUNDLES' },
  ],
  ['bad base64url', () => '*', () => JSON.stringify(rpc()), 400, { code: 'MALFORMED_BUNDLE' }],
  ['bad JSON', () => encode('{'), () => JSON.stringify(rpc()), 400, { code: 'MALFORMED_BUNDLE' }],
  [
    'a method that is not allowed',
    () => signed({ tool: 'GetTask' }, { cmd: '/a2a/GetTask' }),
    () => JSON.stringify(rpc({ method: 'GetTask', params: {} })),
    403,
    { valid: false, code: 'POLICY_VIOLATION' },
  ],
  [
    'the command of another method',
    () => signed(undefined, { cmd: '/a2a/CancelTask' }),
    () => JSON.stringify(rpc()),
    403,
    { valid: false, code: 'COMMAND_MISMATCH' },
  ],
  [
    'the command above all methods',
    () => signed(undefined, { cmd: '/a2a' }),
    () => JSON.stringify(rpc()),
    403,
    { valid: false, code: 'COMMAND_MISMATCH' },
  ],
  [
    'the method swapped',
    () => signed(),
    () => JSON.stringify(rpc({ method: 'CancelTask' })),
    403,
    { valid: false, code: 'COMMAND_MISMATCH' },
  ],
  [
    'params changed after signing',
    () => signed(),
    () => JSON.stringify(rpc()).replace('hello', 'goodbye'),
    403,
    mismatch('mismatch'),
  ],
  [
    'an extra param',
    () => signed(),
    () => JSON.stringify(rpc({ params: { ...params, tenant: 'x' } })),
    403,
    mismatch('mismatch'),
  ],
  [
    'a param named tool',
    () => signed(),
    () => JSON.stringify(rpc({ params: { ...params, tool: METHOD } })),
    400,
    { code: 'RESERVED_ARGUMENT' },
  ],
  [
    'a member that occurs twice',
    () => signed(),
    () => JSON.stringify(rpc()).replace('{', '{"method":"CancelTask",'),
    400,
    { code: 'INVALID_JSONRPC' },
  ],
  [
    'a number beyond 2^53',
    () => signed({ tool: METHOD, n: 9007199254740992 }),
    () => JSON.stringify(rpc({ params: { n: 1 } })).replace('"n":1', '"n":9007199254740993'),
    403,
    mismatch('invalid_body'),
  ],
  ['a batch', () => signed(), () => JSON.stringify([rpc()]), 400, { code: 'BATCH_NOT_SUPPORTED' }],
  ['a body that is no JSON', () => signed(), () => 'hello', 400, { code: 'INVALID_JSONRPC' }],
  [
    'a stale invocation',
    () => signed(undefined, { iat: now() - 901 }),
    () => JSON.stringify(rpc()),
    409,
    { valid: false, code: 'INVOCATION_STALE' },
  ],
];

describe.each(SOURCES.filter(([name]) => name !== 'in an own pool'))('A2A with verdicts %s', (_, open) => {
  let opened: Awaited<ReturnType<typeof open>>;
  let server: TestServer;
  let runs = 0;
  const events: ToolCallEvent[] = [];
  beforeAll(async () => {
    opened = await open();
    const app = express();
    server = await listen(app);
    const executor: AgentExecutor = {
      execute: (_context, bus) => {
        runs++;
        bus.publish(AgentEvent.message(message(drsContext().root_principal, Role.ROLE_AGENT)));
        return Promise.resolve();
      },
      cancelTask: () => Promise.resolve(),
    };
    const card: AgentCard = {
      name: 'test',
      description: '',
      version: '1',
      supportedInterfaces: [
        { url: `${server.url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
        { url: `${server.url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0', tenant: '' },
      ],
      provider: undefined,
      capabilities: {
        streaming: true,
        pushNotifications: true,
        extensions: [drsExtension({ serverIdentity: AGENT, askAt: 'https://agent.example/ask' })],
      },
      securitySchemes: {},
      securityRequirements: [],
      defaultInputModes: [],
      defaultOutputModes: [],
      skills: [],
      signatures: [],
    };
    const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
    const drs = drsA2a({
      ...opened.source,
      ...OPEN,
      replayStore: createMemoryReplayStore(),
      onToolCall: (event) => events.push(event),
      maxBodyBytes: 4096,
    });
    app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
    const handlers = { requestHandler, userBuilder: UserBuilder.noAuthentication };
    app.use('/a2a', drs, jsonRpcHandler(handlers));
    app.use('/rest', drs, restHandler(handlers));
  });
  beforeEach(() => {
    runs = 0;
    events.length = 0;
  });
  afterAll(async () => {
    await server.close();
    await opened.close();
  });

  const post = (header: string | undefined, body: string) =>
    send(
      `${server.url}/a2a`,
      [
        ...(header === undefined ? [] : [['X-DRS-Bundle', header] as const]),
        ['Content-Type', 'application/json'],
        ['A2A-Version', '1.0'],
        ['A2A-Extensions', drsExtension({ serverIdentity: AGENT }).uri],
      ],
      body,
    );

  const BINDINGS = [
    ['JSON-RPC', JsonRpcTransportFactory],
    ['REST', RestTransportFactory],
  ] as const;

  it.each(BINDINGS)('serves a client of the SDK that signs its requests over %s', async (_, Factory) => {
    const [person, agent] = [generateKey(), generateKey()];
    const root = await issueRootDelegation({
      key: person,
      audience: agent.did,
      command: '/a2a',
      policy: { allowed_tools: [METHOD] },
      consent: createConsent({ text: 'Talk for me.', locale: 'en', method: 'explicit-ui-click' }),
    });
    const fetchImpl = signA2aRequests({ key: agent, chain: [root], toolServer: AGENT });
    const factory = new ClientFactory({ transports: [new Factory({ fetchImpl })] });
    const client = await factory.createFromUrl(server.url);
    const request = sending();
    expect(await client.sendMessage(request)).toMatchObject({ parts: [{ content: { value: person.did } }] });
    expect(events).toMatchObject([{ command: '/a2a/SendMessage', tool: METHOD, root_principal: person.did }]);
    await expect(client.getTask({ tenant: '', id: '1' })).rejects.toThrow(IssueError);
    expect(runs).toBe(1);
  });

  it.each(BINDINGS)('refuses a client of the SDK that signs nothing over %s', async (_, Factory) => {
    const client = await new ClientFactory({ transports: [new Factory()] }).createFromUrl(server.url);
    await expect(client.sendMessage(sending())).rejects.toThrow('no X-DRS-Bundle header');
    await expect(client.getTask({ tenant: '', id: '1' })).rejects.toThrow('no X-DRS-Bundle header');
    expect(runs).toBe(0);
  });

  it.each([
    ['with a query', '/a2a?tenant=8', {}, 'the path has a query'],
    ['with the argument path', '/a2a', { path: '/tenant-7' }, 'a member named "tool" or "path"'],
    ['that no header can carry', '/a2a', { n: 'x'.repeat(37_000) }, 'and headers have at most 60000'],
  ])('signs no request %s, and sends none', async (_, path, params, reason) => {
    const sent = vi.fn<typeof fetch>();
    const { delegation } = await unlimited();
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: METHOD, params });
    const signed = signA2aRequests(delegation, sent)(`${server.url}${path}`, { method: 'POST', body });
    await expect(signed).rejects.toThrow(reason);
    await expect(signed).rejects.toBeInstanceOf(TypeError);
    expect(sent).not.toHaveBeenCalled();
  });

  it.each(['', 'tenant 7'])(
    'serves every method over REST that is signed, with the tenant "%s"',
    async (tenant) => {
      const { delegation } = await unlimited();
      const sent: string[] = [];
      const record: typeof fetch = (input, init) => {
        sent.push(
          `${init?.method ?? 'GET'} ${new URL(input instanceof Request ? input.url : input).pathname}`,
        );
        return fetch(input, init);
      };
      const client = await new RestTransportFactory({
        fetchImpl: signA2aRequests(delegation, record),
      }).create(`${server.url}/rest`, {} as AgentCard);
      const options = { serviceParameters: { 'A2A-Version': '1.0' } };
      const task = { tenant, id: 'a task' };
      const config = { tenant, taskId: 'a task', id: 'c' };
      const settled = await Promise.allSettled([
        client.sendMessage({ ...sending(), tenant }, options),
        all(client.sendMessageStream({ ...sending(), tenant }, options)),
        client.getTask({ ...task, historyLength: 3 }, options),
        client.listTasks(
          { tenant, contextId: 'a+b c', status: 0, pageToken: '', pageSize: 7 } as never,
          options,
        ),
        client.cancelTask({ ...task, metadata: undefined }, options),
        all(client.resubscribeTask(task, options)),
        client.createTaskPushNotificationConfig(
          { ...config, url: 'https://agent.example/hook', token: '', authentication: undefined },
          options,
        ),
        client.getTaskPushNotificationConfig(config, options),
        client.listTaskPushNotificationConfig({ ...config, pageSize: 0, pageToken: '' }, options),
        client.deleteTaskPushNotificationConfig(config, options),
        client.getExtendedAgentCard({ tenant }, options),
      ]);
      // There is no such task: the agent says so, not the middleware.
      for (const one of settled)
        if (one.status === 'rejected') expect(String(one.reason)).not.toContain('DRS');
      expect(settled.slice(0, 2).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
      expect(runs).toBe(2);
      await expect.poll(() => events.length).toBe(sent.length);
      expect(sent).toHaveLength(settled.length);
      expect(events.map(({ tool }) => tool).sort()).toEqual([
        ...['CancelTask', 'CreateTaskPushNotificationConfig', 'DeleteTaskPushNotificationConfig'],
        ...['GetExtendedAgentCard', 'GetTask', 'GetTaskPushNotificationConfig'],
        ...['ListTaskPushNotificationConfigs', 'ListTasks', 'SendMessage', 'SendStreamingMessage'],
        'SubscribeToTask',
      ]);
    },
  );

  it('tells in its card that a delegation is needed, for what, and where to ask', async () => {
    const card = (await (await fetch(`${server.url}/.well-known/agent-card.json`)).json()) as AgentCard;
    expect(card.capabilities?.extensions).toMatchObject([
      {
        uri: expect.stringMatching(/^https:/) as string,
        required: true,
        params: {
          commandPrefix: '/a2a/',
          toolServer: AGENT,
          header: 'X-DRS-Bundle',
          askAt: 'https://agent.example/ask',
        },
      },
    ]);
  });

  it('refuses what is signed for a message over JSON-RPC and posted to REST', async () => {
    const { sign } = await unlimited();
    const answer = await send(
      `${server.url}/rest/message:send`,
      [
        ['X-DRS-Bundle', await sign('GetTask', { id: '1' })],
        ['Content-Type', 'application/json'],
        ['A2A-Version', '1.0'],
      ],
      JSON.stringify({ ...rpc({ method: 'GetTask', params: { id: '1' } }), message: params.message }),
    );
    expect(answer).toMatchObject({ status: 403, body: { error: { code: 'COMMAND_MISMATCH' } } });
    expect(runs).toBe(0);
  });

  it('serves a signed request', async () => {
    expect(await post(signed(), JSON.stringify(rpc()))).toMatchObject({
      status: 200,
      body: { id: 7, result: {} },
    });
    expect(runs).toBe(1);
  });

  it.each(ATTACKS)('refuses %s', async (_name, header, body, status, data) => {
    const answer = await post(header(), body());
    expect(answer).toMatchObject({
      status,
      body: {
        jsonrpc: '2.0',
        error: {
          code: -32010,
          message: expect.stringMatching(new RegExp(`^DRS: ${data.code}: .`)) as string,
          data: { ...data, status },
        },
      },
    });
    expect(runs).toBe(0);
    expect(events).toEqual([]);
  });

  it('refuses a replay', async () => {
    const header = signed();
    await post(header, JSON.stringify(rpc()));
    expect(await post(header, JSON.stringify(rpc()))).toMatchObject({
      status: 409,
      body: { id: 7, error: { code: -32010, data: { code: 'REPLAY_DETECTED', status: 409 } } },
    });
    expect(runs).toBe(1);
  });

  it('refuses a larger body than it reads', async () => {
    expect(await post(signed(), 'x'.repeat(5000))).toMatchObject({
      status: 413,
      body: {
        id: null,
        error: { message: 'DRS: BODY_TOO_LARGE: the body is larger than 4096 bytes (maxBodyBytes)' },
      },
    });
  });

  it('leaves the agent card public', async () => {
    expect((await fetch(`${server.url}/.well-known/agent-card.json`)).status).toBe(200);
  });
});
