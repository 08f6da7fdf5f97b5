/* oxlint-disable typescript/no-deprecated -- the low-level Server is what handlers are set on, and must be protected too */
import { InMemoryTransport as V2Pair, Client as V2Client } from '@modelcontextprotocol/client';
import { McpServer as V2McpServer, Server as V2Server } from '@modelcontextprotocol/server';
import { InMemoryTransport as V1Pair } from '@modelcontextprotocol/sdk/inMemory.js';
import { Server as V1Server } from '@modelcontextprotocol/sdk/server/index.js';
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, describe, expect, it, vi } from 'vitest';
import {
  createMemoryReplayStore,
  drsMcp,
  signRequest,
  type Delegation,
  type ToolCallEvent,
} from '../../src/middleware/mcp/index.js';
import { createConsent, generateKey, issueRootDelegation } from '../../src/issue/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { liveCall, OPEN } from './call.js';
import { call, chain, search } from './mcp-attacks.js';
import { eventually } from '../support/eventually.js';
import { askMcp } from '../support/mcp-message.js';

const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const info = { name: 'test', version: '1.0.0' };
const capabilities = { capabilities: { tools: {} } };
const events: ToolCallEvent[] = [];
const protection = (more: object = {}) =>
  drsMcp({
    verifier,
    ...OPEN,
    replayStore: createMemoryReplayStore(),
    onToolCall: (event) => events.push(event),
    ...more,
  });
const signed = (jti?: string) => call(search, liveCall(chain, search, jti === undefined ? {} : { jti }));
const content = (text: string) => ({ content: [{ type: 'text' as const, text }] });

/** A 1.x server with one handler for all tools, and the bare transport of a client. */
async function wire(handler: (extra: { signal: AbortSignal }) => Promise<string>, more: object = {}) {
  const server = new V1Server(info, capabilities);
  server.setRequestHandler(CallToolRequestSchema, async (_request, extra) => content(await handler(extra)));
  const [client, transport] = V1Pair.createLinkedPair();
  await protection(more).protectServer(server).connect(transport);
  const answers: { id?: unknown; error?: { code: number; data: object } }[] = [];
  client.onmessage = (message) => answers.push(message as never);
  await client.start();
  const send = (message: object) => client.send({ jsonrpc: '2.0', ...message } as never);
  return { server, transport, client, answers, send };
}
const toolCall = (id: string | number, params: object = signed()) => ({ id, method: 'tools/call', params });

describe('a protected connection', () => {
  it('runs no call that is not a request, since it could not be refused', async () => {
    const handler = vi.fn(() => Promise.resolve('ran'));
    const { send, answers } = await wire(handler);
    await send({ method: 'tools/call', params: signed() });
    await send(toolCall(1));
    await eventually(() => expect(answers).toMatchObject([{ id: 1, result: {} }]));
    expect(handler).toHaveBeenCalledTimes(1);
  });

  it('refuses a request id that is in use, whose answers could not be told apart', async () => {
    const running: ((text: string) => void)[] = [];
    const { send, answers } = await wire(() => new Promise((resolve) => running.push(resolve)));
    await send(toolCall(1));
    await eventually(() => expect(running).toHaveLength(1));
    await send(toolCall(1));
    expect(answers).toMatchObject([
      {
        id: 1,
        error: {
          code: -32010,
          data: { code: 'INVALID_JSONRPC', detail: expect.stringContaining('in use') as string },
        },
      },
    ]);
    // Its answer would end the call.
    await send({ id: 1, method: 'ping' });
    expect(answers).toMatchObject([{ id: 1 }, { id: 1, error: { data: { code: 'INVALID_JSONRPC' } } }]);
    running[0]?.('done');
    await eventually(() => expect(answers).toHaveLength(3));
  });

  it('does not start a call that was cancelled while it was being checked', async () => {
    const handler = vi.fn(() => Promise.resolve('ran'));
    const pending: (() => void)[] = [];
    const verify = (bundle: unknown, options?: object) =>
      new Promise((resolve) => pending.push(() => resolve(verifier.verify(bundle, options))));
    const { send, answers } = await wire(handler, { verifier: { verify } });
    await send(toolCall('one'));
    await eventually(() => expect(pending).toHaveLength(1));
    await send({ method: 'notifications/cancelled', params: { requestId: 'one' } });
    await send(toolCall('two'));
    await eventually(() => expect(pending).toHaveLength(2));
    for (const decide of pending) decide();
    await eventually(() => expect(answers).toMatchObject([{ id: 'two', result: {} }]));
    expect(handler).toHaveBeenCalledTimes(1);
  });

  it.each([
    [
      'cancelled',
      async (wired: Awaited<ReturnType<typeof wire>>) => {
        await wired.send({ method: 'notifications/cancelled', params: { requestId: 1 } });
      },
    ],
    [
      'cut off',
      async (wired: Awaited<ReturnType<typeof wire>>) => {
        await wired.client.close();
      },
    ],
  ])('tells of a running call that is %s', async (how, end) => {
    events.length = 0;
    const handler = vi.fn(() => new Promise<string>(() => undefined));
    const wired = await wire(handler);
    await wired.send(toolCall(1, signed(`inv:${how}`)));
    await eventually(() => expect(handler).toHaveBeenCalled());
    expect(events).toEqual([]);
    await end(wired);
    expect(events).toMatchObject([{ inv_jti: `inv:${how}`, outcome: 'cancelled' }]);
  });

  it('hands on no message with a method that it does not know, unless that is said', async () => {
    const unknown = { jsonrpc: '2.0', id: 7, method: 'acme/delete', params: { all: true } };
    for (const passMethods of [undefined, ['acme/delete']]) {
      const drs = drsMcp({ verifier, ...OPEN, ...(passMethods === undefined ? {} : { passMethods }) });
      const server = new V1Server(info, capabilities);
      const fallback = vi.fn(() => Promise.resolve({}));
      server.fallbackRequestHandler = fallback;
      server.fallbackNotificationHandler = fallback as never;
      const [near, far] = V1Pair.createLinkedPair();
      const answers: unknown[] = [];
      near.onmessage = (answer) => answers.push(answer);
      await near.start();
      await drs.protectServer(server).connect(far);
      await near.send(unknown as never);
      await near.send({ jsonrpc: '2.0', method: 'acme/forget' });
      await near.send({ jsonrpc: '2.0', id: 8, method: 'ping' });
      await eventually(() => expect(answers).toHaveLength(2));
      if (passMethods === undefined)
        expect(answers).toContainEqual(
          expect.objectContaining({
            id: 7,
            error: expect.objectContaining({
              data: expect.objectContaining({ code: 'UNKNOWN_METHOD' }) as object,
            }) as object,
          }),
        );
      expect(fallback).toHaveBeenCalledTimes(passMethods === undefined ? 0 : 1);
      await server.close();
    }
  });

  it.each([
    ['1.x', () => new V1Server(info, capabilities), V1Pair],
    ['2.x', () => new V2McpServer(info, capabilities), V2Pair],
    ['2.x, inside', () => new V2Server(info, capabilities), V2Pair],
  ])('never shares a transport between clients: %s', async (_, make, Pair) => {
    const drs = protection();
    const [, transport] = Pair.createLinkedPair();
    await drs.protectServer(make()).connect(transport);
    await expect(drs.protectServer(make()).connect(transport as never)).rejects.toThrow(
      'make a new one for each client',
    );
  });

  it('cannot be made of one that is connected already', async () => {
    const server = new V2McpServer(info, capabilities);
    const [, transport] = V2Pair.createLinkedPair();
    await server.connect(transport);
    expect(() => protection().protectServer(server)).toThrow('protect it first, then connect it');
  });

  it('is protected also where the server inside is connected', async () => {
    const server = new V2McpServer(info);
    const handler = vi.fn(() => content('ran'));
    server.registerTool('search', {}, handler);
    protection().protectServer(server);
    const [clientSide, transport] = V2Pair.createLinkedPair();
    await server.server.connect(transport);
    const client = new V2Client(info);
    await client.connect(clientSide);
    await expect(client.callTool({ name: 'search' })).rejects.toMatchObject({
      data: { code: 'MISSING_BUNDLE', status: 403 },
    });
    expect(handler).not.toHaveBeenCalled();
  });
});

describe('signing a tool call', async () => {
  const [person, agent] = [generateKey(), generateKey()];
  const root = await issueRootDelegation({
    key: person,
    audience: agent.did,
    command: '/mcp/tools/call',
    policy: {},
    consent: createConsent({ text: 'Anything.', locale: 'en', method: 'explicit-ui-click' }),
  });
  const delegation: Delegation = { key: agent, chain: [root], toolServer: 'https://tools.example' };

  it('signs what JSON makes of the arguments, and sends just that', async () => {
    const at = new Date(0);
    const params = await signRequest(
      'tools/call',
      { name: 'search', arguments: { at, none: undefined }, _meta: { progressToken: 1 } },
      delegation,
    );
    expect(params).toMatchObject({
      arguments: { at: '1970-01-01T00:00:00.000Z' },
      _meta: { progressToken: 1 },
    });
    expect(await askMcp(protection(), { method: 'tools/call', params }, () => 'ran')).toBe('ran');
  });
});
