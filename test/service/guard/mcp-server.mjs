// An MCP server over stdio that knows nothing of delegations, of the SDK generation in argv[2]. Its answers say what it got.
import { z } from 'zod';

const info = { name: 'tools', version: '1.0.0' };
const query = z.string().optional();

/**
 * @param {string} what
 * @param {{ _meta?: object | undefined; mcpReq?: { _meta?: object | undefined } }} extra of either SDK
 */
const seen = (what, extra) => JSON.stringify({ what, meta: extra.mcpReq?._meta ?? extra._meta ?? {} });

/** @param {any} server of either SDK, which differ in types alone @param {object} schema */
function addAll(server, schema) {
  for (const name of ['search', 'fetch'])
    server.registerTool(
      name,
      { inputSchema: schema },
      (/** @type {{ query?: string }} */ args, /** @type {object} */ extra) => ({
        content: [{ type: 'text', text: seen(`${name} ${args.query}`, extra) }],
      }),
    );
  for (const uri of ['note:///a', 'note:///b'])
    server.registerResource(uri, uri, {}, (/** @type {URL} */ url, /** @type {object} */ extra) => ({
      contents: [{ uri: url.href, text: seen(url.href, extra) }],
    }));
  for (const name of ['letter', 'poem'])
    server.registerPrompt(
      name,
      { argsSchema: schema },
      (/** @type {{ query?: string }} */ args, /** @type {object} */ extra) => ({
        messages: [{ role: 'user', content: { type: 'text', text: seen(`${name} ${args.query}`, extra) } }],
      }),
    );
  return server;
}

if (process.argv[2] === '1.x') {
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  await addAll(new McpServer(info), { query }).connect(new StdioServerTransport());
} else {
  const { McpServer } = await import('@modelcontextprotocol/server');
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  serveStdio(() => addAll(new McpServer(info), z.object({ query })));
}
