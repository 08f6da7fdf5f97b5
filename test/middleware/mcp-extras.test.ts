/* oxlint-disable typescript/no-deprecated -- the low-level Server is what handlers are set on */
import { InMemoryTransport as V2Pair, Client as V2Client } from '@modelcontextprotocol/client';
import { Server as V2Server } from '@modelcontextprotocol/server';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport as V1Pair } from '@modelcontextprotocol/sdk/inMemory.js';
import { Server as V1Server } from '@modelcontextprotocol/sdk/server/index.js';
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { createConsent, generateKey, issueRootDelegation } from '../../src/issue/index.js';
import {
  drsMcp,
  findDrsContext,
  signCalls,
  type Delegation,
  type DrsContext,
  type McpOptions,
  type Outcome,
} from '../../src/middleware/mcp/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { eventually } from '../support/eventually.js';
import { liveCall, OPEN } from './call.js';
import { listen } from './http.js';
import { call, chain, search } from './mcp-attacks.js';
import { GENERATIONS, type ToolCaller } from './mcp-generations.js';

/** Issue 16 item 17, MCP. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
const info = { name: 'test', version: '1.0.0' };
const capabilities = { capabilities: { tools: {} } };
const content = (text: string) => ({ content: [{ type: 'text' as const, text }] });
const agent = chain.parties.at(-1)?.did;

const [person, bot] = [generateKey(), generateKey()];
const delegation: Delegation = {
  key: bot,
  chain: [
    await issueRootDelegation({
      key: person,
      audience: bot.did,
      command: '/mcp/tools/call',
      policy: { allowed_tools: ['search'] },
      consent: createConsent({ text: 'Search.', locale: 'en', method: 'explicit-ui-click' }),
    }),
  ],
  toolServer: 'https://tools.example',
};

interface AuthInfo {
  token: string;
  clientId: string;
  scopes: string[];
  expiresAt?: number;
  extra?: { drs?: DrsContext; mine?: number };
}
type Handler = (name: string, authInfo: AuthInfo | undefined) => object;

/** A protected server of each generation, with one handler for all tools. */
const KINDS: readonly (readonly [string, (handler: Handler, options: object) => Promise<ToolCaller>])[] = [
  [
    'a 1.x server',
    async (handler, options) => {
      const server = new V1Server(info, capabilities);
      server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) =>
        handler(params.name, extra.authInfo),
      );
      return connectV1(drsMcp(options as McpOptions).protectServer(server));
    },
  ],
  [
    'a 2.x server',
    async (handler, options) => {
      const server = new V2Server(info, capabilities);
      server.setRequestHandler(
        'tools/call',
        ({ params }, ctx) => handler(params.name, ctx.http?.authInfo) as never,
      );
      return connectV2(drsMcp(options as McpOptions).protectServer(server));
    },
  ],
];

async function connectV1(server: V1Server): Promise<ToolCaller> {
  const [clientSide, transport] = V1Pair.createLinkedPair();
  const client = new V1Client(info);
  await Promise.all([server.connect(transport), client.connect(clientSide)]);
  closing.push(() => client.close());
  return client as unknown as ToolCaller;
}

async function connectV2(server: V2Server): Promise<ToolCaller> {
  const [clientSide, transport] = V2Pair.createLinkedPair();
  const client = new V2Client(info);
  await Promise.all([server.connect(transport), client.connect(clientSide)]);
  closing.push(() => client.close());
  return client as unknown as ToolCaller;
}

const signed = () => call(search, liveCall(chain, search)) as Record<string, unknown>;

describe.each(KINDS)('%s', (_, connect) => {
  it('tells its tools who calls in authInfo', async () => {
    const seen: (AuthInfo | undefined)[] = [];
    const client = await connect(
      (name, authInfo) => {
        seen.push(authInfo);
        return content(name);
      },
      { verifier, ...OPEN },
    );
    await client.callTool(signed());
    expect(seen).toEqual([
      {
        token: '',
        clientId: agent,
        scopes: ['search', 'fetch'],
        expiresAt: expect.any(Number) as number,
        extra: { drs: expect.objectContaining({ agent, tool: 'search' }) as DrsContext },
      },
    ]);
  });

  it('leaves tools alone that are not protected, and protects the others', async () => {
    const seen: unknown[] = [];
    const client = await connect(
      (name, authInfo) => {
        seen.push([name, findDrsContext()?.tool ?? null, authInfo?.clientId]);
        return content(name);
      },
      { verifier, ...OPEN, protect: (name: string) => name !== 'help' },
    );
    await client.callTool({ name: 'help' });
    await client.callTool(call({ tool: 'help' }, 'no bundle'));
    await client.callTool(signed());
    await expect(client.callTool({ name: 'search' })).rejects.toMatchObject({
      data: {
        code: 'MISSING_BUNDLE',
        suggestion: expect.stringContaining('delegate the tool "search" to you') as string,
      },
    });
    expect(seen).toEqual([
      ['help', null, undefined],
      ['help', null, undefined],
      ['search', 'search', agent],
    ]);
  });

  it('protects a tool of which `protect` cannot say', async () => {
    const onError = vi.fn();
    const client = await connect(() => content('ran'), {
      verifier,
      ...OPEN,
      onError,
      protect: () => {
        throw new Error('protect');
      },
    });
    await expect(client.callTool({ name: 'help' })).rejects.toMatchObject({
      data: { code: 'MISSING_BUNDLE' },
    });
    expect(onError).toHaveBeenCalledWith(expect.objectContaining({ message: 'protect' }));
  });

  it('says how a call ended', async () => {
    const outcomes: Outcome[] = [];
    const results = [
      () => content('fine'),
      () => ({ ...content('failed'), isError: true }),
      () => {
        throw new Error('broken');
      },
    ];
    const client = await connect(() => (results.shift() as () => object)(), {
      verifier,
      ...OPEN,
      onToolCall: ({ outcome }: { outcome: Outcome }) => outcomes.push(outcome),
    });
    await client.callTool(signed());
    await client.callTool(signed());
    await client.callTool(signed()).catch(() => undefined);
    await eventually(() => expect(outcomes).toEqual(['ok', 'error', 'error']));
  });

  it('tells the operator of refusals', async () => {
    const onRefused = vi.fn();
    const client = await connect(() => content('ran'), { verifier, ...OPEN, onRefused });
    await client.callTool({ name: 'search' }).catch(() => undefined);
    expect(onRefused).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ code: 'MISSING_BUNDLE', status: 403 }),
      expect.objectContaining({ protocol: 'mcp', tool: 'search', context: null }),
    );
  });
});

it('keeps what OAuth says of the caller, and adds the verified call', async () => {
  const server = new V1Server(info, capabilities);
  const seen: unknown[] = [];
  server.setRequestHandler(CallToolRequestSchema, (_request, { authInfo }) => {
    seen.push(authInfo);
    return content('ran');
  });
  const [clientSide, transport] = V1Pair.createLinkedPair();
  await drsMcp({ verifier, ...OPEN })
    .protectServer(server)
    .connect(transport);
  await clientSide.start();
  const authInfo = { token: 'bearer', clientId: 'app', scopes: ['s'], extra: { mine: 1 } };
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: signed() } as const;
  await clientSide.send(message, { authInfo });
  await eventually(() =>
    expect(seen).toMatchObject([{ ...authInfo, extra: { mine: 1, drs: { agent, tool: 'search' } } }]),
  );
});

describe.each(GENERATIONS)('a client that signs its calls, MCP $name', ({ serve, connect }) => {
  it('sends header and _meta alike, with each call, and none with other messages', async () => {
    const server = await serve(drsMcp({ verifier, ...OPEN }), ({ query }) => query ?? '');
    closing.push(() => server.close());
    const sent: { method: string; meta: unknown; header: string | null }[] = [];
    const client = await connect(server.url, {
      delegation,
      fetch: (url, init) => {
        if (typeof init?.body === 'string') {
          const { method, params } = JSON.parse(init.body) as { method: string; params?: { _meta?: object } };
          const meta: unknown = (params?._meta as Record<string, unknown> | undefined)?.['X-DRS-Bundle'];
          sent.push({ method, meta, header: new Headers(init.headers).get('x-drs-bundle') });
        }
        return fetch(url, init);
      },
    });
    closing.push(() => client.close());
    await client.callTool({ name: 'search', arguments: { query: 'one' } });
    await client.callTool({ name: 'search', arguments: { query: 'two' } });
    const calls = sent.filter(({ method }) => method === 'tools/call');
    expect(new Set(calls.map(({ header }) => header)).size).toBe(2);
    for (const { header, meta } of calls) expect(header).toBe(meta);
    const others = sent.filter(({ method }) => method !== 'tools/call');
    expect(others.length).toBeGreaterThan(0);
    for (const { header, meta } of others) expect([header, meta]).toEqual([null, undefined]);
  });

  it.each([
    ['both', 307],
    ['both', 302],
    ['_meta', 308],
  ] as const)('takes the bundle (%s) to no other server that a %i names', async (carriers, status) => {
    const arrived: string[] = [];
    const other = await listen(({ method = '', url = '' }, res) => {
      arrived.push(`${method} ${url}`);
      res.end('{}');
    });
    closing.push(() => other.close());
    const server = await serve(drsMcp({ verifier, ...OPEN }), () => 'ran');
    closing.push(() => server.close());
    const client = await connect(server.url, {
      delegation,
      signing: { carriers },
      redirectPolicy: 'follow',
    });
    closing.push(() => client.close());
    server.server.removeAllListeners('request').on('request', (req, res) => {
      req.resume().once('end', () => res.writeHead(status, { location: `${other.url}/mcp` }).end());
    });
    await expect(client.callTool({ name: 'search', arguments: { query: 'one' } })).rejects.toThrow(
      `redirects this signed request to "${other.url}/mcp"`,
    );
    expect(arrived).toEqual([]);
  });
});

it('a client signs only what it is told to, and sends _meta alone where it is told to', async () => {
  const sent: Record<string, unknown>[] = [];
  const headers: (string | null)[] = [];
  const server = await (GENERATIONS[0] as (typeof GENERATIONS)[0]).serve(
    drsMcp({ verifier, ...OPEN, protect: (name) => name === 'search' }),
    () => 'ran',
  );
  closing.push(() => server.close());
  const { StreamableHTTPClientTransport } =
    await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const client = signCalls(new V1Client(info), delegation, {
    sign: (name) => name === 'search',
    carriers: '_meta',
  });
  const transport = new StreamableHTTPClientTransport(new URL(server.url), {
    fetch: (url, init) => {
      if (typeof init?.body === 'string') {
        sent.push(
          (JSON.parse(init.body) as { params?: { _meta?: Record<string, unknown> } }).params?._meta ?? {},
        );
        headers.push(new Headers(init.headers).get('x-drs-bundle'));
      }
      return fetch(url, init);
    },
  });
  await client.connect(transport);
  closing.push(() => client.close());
  sent.length = 0;
  await client.callTool({ name: 'fetch' });
  await client.callTool({ name: 'search' });
  const bundle: unknown = expect.any(String);
  expect(sent).toEqual([{}, { 'X-DRS-Bundle': bundle, 'xyz.okeyamy.drs/bundle': bundle }]);
  expect(headers.every((header) => header === null)).toBe(true);
});
