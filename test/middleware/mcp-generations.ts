import { getRequestListener } from '@hono/node-server';
import * as v1client from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as V1HttpTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { completable as v1Completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer as V1Server } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as v2client from '@modelcontextprotocol/client';
import {
  completable as v2Completable,
  createMcpHandler,
  McpServer as V2Server,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import {
  signCalls,
  type Connectable,
  type Delegation,
  type McpProtection,
  type SignCallsOptions,
} from '../../src/middleware/mcp/index.js';
import { listen, type TestServer } from './http.js';

/** What is the same in the clients of all generations. */
export interface ToolCaller {
  callTool(params: Record<string, unknown>): Promise<{ content: { text: string }[] }>;
  readResource(params: Record<string, unknown>): Promise<{ contents: { text: string }[] }>;
  getPrompt(params: Record<string, unknown>): Promise<{ messages: { content: { text: string } }[] }>;
  complete(params: Record<string, unknown>): Promise<{ completion: { values: string[] } }>;
  getServerCapabilities(): { experimental?: Record<string, unknown> } | undefined;
  close(): Promise<void>;
}

/** How a client connects. */
export interface Connection {
  readonly headers?: Record<string, string>;
  /** Signs each call. */
  readonly delegation?: Delegation;
  readonly signing?: SignCallsOptions;
  readonly fetch?: (url: string | URL, init?: RequestInit) => Promise<Response>;
  /** `follow`: as earlier versions of the SDKs do. */
  readonly redirectPolicy?: 'follow';
}

export type Tool = (args: { query?: string | undefined; n?: number | undefined }) => string;

/** One generation of the SDK, over streamable HTTP. */
export interface Generation {
  readonly name: string;
  readonly serve: (drs: McpProtection, tool: Tool) => Promise<TestServer>;
  readonly connect: (url: string, connection?: Connection) => Promise<ToolCaller>;
}

const input = { query: z.string().optional(), n: z.number().optional() };
const content = (text: string) => ({ content: [{ type: 'text' as const, text }] });
const info = { name: 'test', version: '1.0.0' };

const NOTES = ['note:///a', 'note:///b'];
const noteOf = (text: string, uri: URL) => ({ contents: [{ uri: uri.href, text }] });
const letterOf = (text: string) => ({
  messages: [{ role: 'user' as const, content: { type: 'text' as const, text } }],
});

/** Besides tools, both servers have notes, and a prompt whose argument can be completed: all ask the tool. */
function v1Server(tool: Tool): V1Server {
  const server = new V1Server(info);
  for (const uri of NOTES) server.registerResource(uri, uri, {}, (url) => noteOf(tool({ query: uri }), url));
  const to = v1Completable(z.string(), (value) => [tool({ query: value })]);
  server.registerPrompt('letter', { argsSchema: { to } }, (args) => letterOf(tool({ query: args.to })));
  for (const name of ['search', 'fetch']) {
    server.registerTool(name, { inputSchema: input }, (args) => content(tool(args)));
  }
  return server;
}

function v2Server(tool: Tool): V2Server {
  const server = new V2Server(info);
  for (const uri of NOTES) server.registerResource(uri, uri, {}, (url) => noteOf(tool({ query: uri }), url));
  const to = v2Completable(z.string(), (value) => [tool({ query: value })]);
  server.registerPrompt('letter', { argsSchema: z.object({ to }) }, (args) =>
    letterOf(tool({ query: args.to })),
  );
  for (const name of ['search', 'fetch']) {
    server.registerTool(name, { inputSchema: z.object(input) }, (args) => content(tool(args)));
  }
  return server;
}

async function connectV2(url: string, connection: Connection, mode: 'legacy' | 'auto'): Promise<ToolCaller> {
  const client = new v2client.Client(info, { versionNegotiation: { mode } });
  return connectClient(
    client,
    connection,
    new v2client.StreamableHTTPClientTransport(new URL(url), httpOptions(connection)),
  );
}

/** The two clients differ only in types that no test looks at. */
async function connectClient(
  client: Connectable & { close(): Promise<void> },
  { delegation, signing }: Connection,
  transport: object,
): Promise<ToolCaller> {
  if (delegation !== undefined) signCalls(client, delegation, signing);
  await client.connect(transport as never);
  return client as unknown as ToolCaller;
}

const httpOptions = ({ headers, fetch, redirectPolicy }: Connection) => ({
  requestInit: { headers: headers ?? {} },
  ...(redirectPolicy === undefined ? {} : { redirectPolicy }),
  ...(fetch === undefined ? {} : { fetch }),
});

const serveV2 = (drs: McpProtection, tool: Tool): Promise<TestServer> => {
  const handler = createMcpHandler(() => drs.protectServer(v2Server(tool)));
  const listener = getRequestListener((request) => handler.fetch(request));
  return listen((req, res) => void listener(req, res));
};

export const GENERATIONS: readonly Generation[] = [
  {
    name: '1.x',
    serve: (drs, tool) =>
      listen((req, res) => {
        void (async () => {
          const server = drs.protectServer(v1Server(tool));
          const transport = new StreamableHTTPServerTransport({});
          res.on('close', () => void server.close());
          // Its own types disagree under exactOptionalPropertyTypes.
          await server.connect(transport);
          await transport.handleRequest(req, res);
        })();
      }),
    connect: (url, connection = {}) =>
      connectClient(
        new v1client.Client(info),
        connection,
        new V1HttpTransport(new URL(url), httpOptions(connection)),
      ),
  },
  {
    name: '2.x',
    serve: serveV2,
    connect: (url, connection = {}) => connectV2(url, connection, 'auto'),
  },
  {
    name: '2.x with a client of the 2025 protocol',
    serve: serveV2,
    connect: (url, connection = {}) => connectV2(url, connection, 'legacy'),
  },
];
