import { getRequestListener } from '@hono/node-server';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { listen } from '../middleware/http.js';

/** A real MCP server that trusts whoever asks: what protects it is in front. */
export interface ToolServer {
  readonly port: number;
  /** The headers of the requests that got here, and what they asked for. */
  readonly requests: {
    readonly headers: IncomingHttpHeaders;
    readonly method: string;
    readonly url: string;
  }[];
  /** The calls that ran. */
  readonly calls: string[];
  /** Lets the event streams go on: answers to a GET with `Last-Event-ID`. */
  readonly release: () => void;
  readonly close: () => Promise<void>;
}

/** @param answers whether it has answered a request itself, in place of the MCP server */
export async function startToolServer(
  answers: (req: IncomingMessage, res: ServerResponse) => boolean = () => false,
): Promise<ToolServer> {
  const requests: ToolServer['requests'][number][] = [];
  const calls: string[] = [];
  const waiting: (() => void)[] = [];
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'tools', version: '1.0.0' });
    for (const name of ['search', 'fetch']) {
      server.registerTool(name, { inputSchema: z.object({ query: z.string() }) }, ({ query }) => {
        calls.push(`${name} ${query.length > 20 ? query.length : query}`);
        return { content: [{ type: 'text', text: `${name}: ${query.slice(0, 20)}` }] };
      });
    }
    return server;
  });
  const listener = getRequestListener((request) => handler.fetch(request));
  // With the limit on headers that node:http has by itself: the recipes take the bundle off.
  const server = await listen((req, res) => {
    const { headers, method = '', url: asked = '' } = req;
    requests.push({ headers, method, url: asked });
    if (answers(req, res)) return;
    if (method !== 'GET' || headers['last-event-id'] === undefined) {
      void listener(req, res);
      return;
    }
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    res.write('data: first\n\n');
    waiting.push(() => res.end('data: second\n\n'));
  });
  return {
    port: Number(new URL(server.url).port),
    requests,
    calls,
    release: () => waiting.splice(0).forEach((go) => go()),
    close: () => server.close(),
  };
}
