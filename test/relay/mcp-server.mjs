// An MCP server over stdio that knows nothing of delegations, of the SDK generation in argv[2]. Its answers say what it got.
import { z } from 'zod';

const info = { name: 'tools', version: '1.0.0' };
const query = z.string().optional();
const [TOOLS, NOTES, PROMPTS] = [
  ['search', 'fetch'],
  ['note:///a', 'note:///b'],
  ['letter', 'poem'],
];

/**
 * @param {string} what
 * @param {{ _meta?: object | undefined, mcpReq?: { _meta?: object | undefined } }} extra of either SDK
 */
const seen = (what, extra) => JSON.stringify({ what, meta: extra.mcpReq?._meta ?? extra._meta ?? {} });
/** @param {string} text */
const content = (text) => ({ type: /** @type {const} */ ('text'), text });

if (process.argv[2] === '1.x') {
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const server = new McpServer(info);
  for (const name of TOOLS)
    server.registerTool(name, { inputSchema: { query } }, (args, extra) => ({
      content: [content(seen(`${name} ${args.query ?? ''}`, extra))],
    }));
  for (const uri of NOTES)
    server.registerResource(uri, uri, {}, (_, extra) => ({ contents: [{ uri, text: seen(uri, extra) }] }));
  for (const name of PROMPTS)
    server.registerPrompt(name, { argsSchema: { query } }, (args, extra) => ({
      messages: [{ role: 'user', content: content(seen(`${name} ${args.query ?? ''}`, extra)) }],
    }));
  await server.connect(new StdioServerTransport());
} else {
  const { McpServer } = await import('@modelcontextprotocol/server');
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const schema = z.object({ query });
  serveStdio(() => {
    const server = new McpServer(info);
    for (const name of TOOLS)
      server.registerTool(name, { inputSchema: schema }, (args, extra) => ({
        content: [content(seen(`${name} ${args.query ?? ''}`, extra))],
      }));
    for (const uri of NOTES)
      server.registerResource(uri, uri, {}, (_, extra) => ({ contents: [{ uri, text: seen(uri, extra) }] }));
    for (const name of PROMPTS)
      server.registerPrompt(name, { argsSchema: schema }, (args, extra) => ({
        messages: [{ role: 'user', content: content(seen(`${name} ${args.query ?? ''}`, extra)) }],
      }));
    return server;
  });
}
