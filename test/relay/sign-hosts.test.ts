import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { getRequestListener } from '@hono/node-server';
import { Client as V2Client } from '@modelcontextprotocol/client';
import { StdioClientTransport as V2Transport } from '@modelcontextprotocol/client/stdio';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as V1Transport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { McpServer as V1Server } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  type JSONRPCMessage,
} from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, McpServer as V2Server } from '@modelcontextprotocol/server';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createVerifier } from '../../src/index.js';
import { createMemoryReplayStore, drsContext, drsMcp } from '../../src/middleware/mcp/index.js';
import { listen, type TestServer } from '../middleware/http.js';
import { eventually } from '../support/eventually.js';
import { MAIN } from '../cli/drs.js';
import { newAgent, TOOL_SERVER } from './agent.js';

// Unchanged clients of both SDKs, whose host configuration runs `sign` in place of the server.
const agent = newAgent();
const info = { name: 'test', version: '1.0.0' };
const verifier = createVerifier({ workerThreads: 0 });
const drs = drsMcp({
  verifier,
  trustedRoots: [agent.principal.did],
  serverIdentity: TOOL_SERVER,
  replayStore: createMemoryReplayStore(),
});
afterAll(() => verifier.close());

const answer = (text: string) => ({ content: [{ type: 'text' as const, text }] });
const searchFile = await agent.chain('search.jwt', ['search']);
const signed = (...server: string[]) => ({
  command: process.execPath,
  args: [MAIN, ...agent.options(searchFile, agent.path('more.jwt')), ...server],
  stderr: 'ignore' as const,
});
const textOf = (result: unknown) => (result as { content: { text: string }[] }).content[0]?.text;

describe('a host of SDK 1.x, and a server with sessions', { shuffle: false }, () => {
  let server: TestServer;
  let client: V1Client;
  const requests: string[] = [];
  const cancelled: unknown[] = [];
  const events: [string, JSONRPCMessage][] = [];
  const servers: V1Server[] = [];

  beforeAll(async () => {
    await agent.chain('more.jwt', ['ask', 'slow', 'resumed']);
    const transports = new Map<string, StreamableHTTPServerTransport>();
    server = await listen((req, res) => {
      const session = req.headers['mcp-session-id'] as string | undefined;
      requests.push(`${req.method} ${String(req.headers['mcp-protocol-version'] ?? '-')}`);
      void (async () => {
        let transport = transports.get(session ?? '');
        if (transport === undefined) {
          transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (id) => void transports.set(id, transport as StreamableHTTPServerTransport),
            retryInterval: 50,
            eventStore: {
              storeEvent: (stream, message) => {
                const id = `${stream}_${events.length}`;
                events.push([id, message]);
                return Promise.resolve(id);
              },
              replayEventsAfter: async (last, { send }) => {
                const stream = last.split('_')[0] as string;
                const from = events.findIndex(([id]) => id === last) + 1;
                for (const [id, message] of events.slice(from))
                  if (id.startsWith(stream)) await send(id, message);
                return stream;
              },
            },
          });
          await protectedServer().connect(transport);
        }
        await transport.handleRequest(req, res);
      })();
    });
    const transport = new V1Transport(signed('--to', `${server.url}/mcp`));
    client = new V1Client(info, { capabilities: { sampling: {}, elicitation: {}, roots: {} } });
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      role: 'assistant',
      model: 'm',
      content: { type: 'text', text: 'sampled' },
    }));
    client.setRequestHandler(ElicitRequestSchema, () => ({
      action: 'accept',
      content: { name: 'elicited' },
    }));
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///root' }] }));
    await client.connect(transport);
  });
  afterAll(async () => {
    await client.close();
    await server.close();
  });

  function protectedServer(): V1Server {
    const mcp = new V1Server(info, { capabilities: { logging: {} } });
    const input = { query: z.string().optional() };
    mcp.registerTool('search', { inputSchema: input }, ({ query }) =>
      answer(`${query ?? ''} for ${drsContext().root_principal}`),
    );
    mcp.registerTool('ask', {}, async () => {
      const sampled = await mcp.server.createMessage({ messages: [], maxTokens: 1 });
      const elicited = await mcp.server.elicitInput({
        message: 'name?',
        requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
      });
      const { roots } = await mcp.server.listRoots();
      return answer(JSON.stringify([sampled.content, elicited.content, roots]));
    });
    mcp.registerTool('slow', {}, async ({ signal, sendNotification, _meta }) => {
      const params = { progressToken: _meta?.progressToken ?? '', progress: 1, total: 2 };
      await sendNotification({ method: 'notifications/progress', params });
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      cancelled.push(signal.reason);
      return answer('too late');
    });
    mcp.registerTool('resumed', {}, ({ closeSSEStream }) => {
      closeSSEStream?.();
      return answer('after the stream broke');
    });
    servers.push(mcp);
    return drs.protectServer(mcp);
  }

  it('calls what a delegation allows, and sends nothing that none allows', async () => {
    const call = { name: 'search', arguments: { query: 'tea' } };
    expect(textOf(await client.callTool(call))).toBe(`tea for ${agent.principal.did}`);
    expect(textOf(await client.callTool(call))).toBe(`tea for ${agent.principal.did}`);
    // A GET, which opens the stream of what the server sends by itself, may come at any time.
    const posts = () => requests.filter((request) => request.startsWith('POST '));
    const before = posts();
    await expect(client.callTool({ name: 'delete' })).rejects.toMatchObject({
      code: -32010,
      data: {
        code: 'POLICY_VIOLATION',
        suggestion: expect.stringContaining('issue another search.jwt') as unknown,
      },
    });
    expect(posts()).toEqual(before);
  });

  it('answers what the server asks the host', async () => {
    expect(textOf(await client.callTool({ name: 'ask' }))).toBe(
      '[{"type":"text","text":"sampled"},{"name":"elicited"},[{"uri":"file:///root"}]]',
    );
  });

  it('gets progress, cancels, and gets what the server sends by itself', async () => {
    const controller = new AbortController();
    const onprogress = ({ progress }: { progress: number }) => controller.abort(`at ${progress}`);
    const called = client.callTool({ name: 'slow' }, undefined, { onprogress, signal: controller.signal });
    await expect(called).rejects.toThrow('at 1');
    await eventually(() => expect(cancelled).toEqual(['at 1']));

    const logged = new Promise((resolve) => {
      client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => resolve(params.data));
    });
    await eventually(() => expect(requests).toContain('GET 2025-11-25'));
    await client.setLoggingLevel('debug');
    for (const transport of servers) await transport.sendLoggingMessage({ level: 'info', data: 'by itself' });
    await expect(logged).resolves.toBe('by itself');
  });

  it('continues a stream that broke', async () => {
    expect(textOf(await client.callTool({ name: 'resumed' }))).toBe('after the stream broke');
  });

  it('reads chain files for each call: one that is broken or gone allows nothing', async () => {
    const refused = { code: -32010, message: expect.stringContaining('more.jwt') as unknown };
    const call = { name: 'resumed' };
    for (const spoil of [
      () => writeFileSync(agent.path('more.jwt'), 'eyJ'),
      () => rmSync(agent.path('more.jwt')),
    ]) {
      spoil();
      await expect(client.callTool(call)).rejects.toMatchObject(refused);
      expect(textOf(await client.callTool({ name: 'search' }))).toContain(agent.principal.did);
    }
    await agent.chain('more.jwt', ['resumed']);
    expect(textOf(await client.callTool(call))).toBe('after the stream broke');
  });

  it('ends the session, once', async () => {
    await client.close();
    expect(requests.at(-1)).toBe('DELETE 2025-11-25');
    expect(requests.filter((request) => request.startsWith('DELETE'))).toHaveLength(1);
  });
});

describe('a host of SDK 2.x', { shuffle: false }, () => {
  const input = z.object({ query: z.string().optional() });
  let server: TestServer;
  const child = fileURLToPath(new URL('../middleware/mcp-stdio-child.mjs', import.meta.url));
  const heads: Record<string, unknown>[] = [];
  beforeAll(async () => {
    const handler = createMcpHandler(() => {
      const mcp = new V2Server(info);
      mcp.registerTool('search', { inputSchema: input }, ({ query }) =>
        answer(`${query ?? ''} for ${drsContext().root_principal}`),
      );
      return drs.protectServer(mcp);
    });
    const listener = getRequestListener((request) => handler.fetch(request));
    server = await listen((req, res) => {
      heads.push(req.headers);
      void listener(req, res);
    });
  });
  afterAll(() => server.close());

  it.each([
    ['over Streamable HTTP', () => ['--to', `${server.url}/mcp`]],
    ['over standard input and output', () => [process.execPath, child, '2.x']],
  ])('of 2026-07-28, %s', async (_, to) => {
    await agent.chain('more.jwt', ['fetch']);
    const client = new V2Client(info, { versionNegotiation: { mode: 'auto' } });
    await client.connect(new V2Transport(signed(...to())));
    const call = { name: 'search', arguments: { query: 'tea' } };
    expect(textOf(await client.callTool(call))).toBe(`tea for ${agent.principal.did}`);
    await expect(client.callTool({ name: 'delete' })).rejects.toMatchObject({ code: -32010 });
    await client.close();
  });

  it('of 2026-07-28 sends the headers that this version has', () => {
    const call = heads.find((head) => head['mcp-method'] === 'tools/call');
    expect(call).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-name': 'search',
      'x-drs-bundle': expect.stringMatching(/^[\w-]{500,4096}$/) as unknown,
    });
  });
});
