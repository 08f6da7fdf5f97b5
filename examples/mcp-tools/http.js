import { getRequestListener } from '@hono/node-server';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { createServer } from 'node:http';
import { weatherServer } from './weather-server.js';

const handler = createMcpHandler(weatherServer);
const listener = getRequestListener((request) => handler.fetch(request));
const server = createServer((req, res) => void listener(req, res));
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  console.log(`listening on http://127.0.0.1:${port}/mcp`);
});
