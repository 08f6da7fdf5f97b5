import { Role } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, type AgentExecutor } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createConsent, generateKey, IssueError, issueRootDelegation } from '../../src/issue/index.js';
import {
  createMemoryReplayStore,
  drsA2a,
  drsContext,
  signA2aRequests,
  type ToolCallEvent,
} from '../../src/middleware/a2a/index.js';
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
    const card = {
      name: 'test',
      description: '',
      version: '1',
      supportedInterfaces: [
        { url: `${server.url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
      ],
      provider: undefined,
      capabilities: { extensions: [] },
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
    app.use('/a2a', drs, jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
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
      ],
      body,
    );

  it('serves a client of the SDK that signs its requests', async () => {
    const [person, agent] = [generateKey(), generateKey()];
    const root = issueRootDelegation({
      key: person,
      audience: agent.did,
      command: '/a2a',
      policy: { allowed_tools: [METHOD] },
      consent: createConsent({ text: 'Talk for me.', locale: 'en', method: 'explicit-ui-click' }),
    });
    const fetchImpl = signA2aRequests({ key: agent, chain: [root], toolServer: 'https://agent.example' });
    const factory = new ClientFactory({
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
    });
    const client = await factory.createFromUrl(server.url);
    const request = {
      tenant: '',
      configuration: undefined,
      metadata: undefined,
      message: message('hello', Role.ROLE_USER),
    };
    expect(await client.sendMessage(request)).toMatchObject({ parts: [{ content: { value: person.did } }] });
    expect(events).toMatchObject([{ command: '/a2a/SendMessage', tool: METHOD, root_principal: person.did }]);
    await expect(client.getTask({ tenant: '', id: '1' })).rejects.toThrow(IssueError);
    expect(runs).toBe(1);
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
