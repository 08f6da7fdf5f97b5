// An MCP server over stdio, of the SDK generation in argv[2]. Says on standard error what it executes.
import { z } from 'zod';
import { createVerifier } from '../../dist/index.js';
import { createMemoryReplayStore, drsContext, drsMcp } from '../../dist/middleware/mcp/index.js';

const input = { query: z.string().optional(), n: z.number().optional() };
const drs = drsMcp({
  verifier: createVerifier({ workerThreads: 0 }),
  trustedRoots: 'any',
  serverIdentity: 'any',
  replayStore: createMemoryReplayStore(),
  eventSink: process.stderr,
});
/** @param {{ query?: string | undefined }} args */
const tool = ({ query }) => ({
  content: [{ type: /** @type {const} */ ('text'), text: `${query} for ${drsContext().root_principal}` }],
});
const info = { name: 'test', version: '1.0.0' };

if (process.argv[2] === '1.x') {
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const server = new McpServer(info);
  for (const name of ['search', 'fetch']) server.registerTool(name, { inputSchema: input }, tool);
  await drs.protectServer(server).connect(new StdioServerTransport());
} else {
  const { McpServer } = await import('@modelcontextprotocol/server');
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  serveStdio(() => {
    const server = new McpServer(info);
    for (const name of ['search', 'fetch']) {
      server.registerTool(name, { inputSchema: z.object(input) }, tool);
    }
    return drs.protectServer(server);
  });
}
