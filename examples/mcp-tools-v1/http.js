import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createServer } from 'node:http';
import { weatherServer } from './weather-server.js';

const http = createServer(async (req, res) => {
  // A server and a transport for each request: shared ones hand answers to the wrong client.
  const server = weatherServer();
  const transport = new StreamableHTTPServerTransport({});
  res.on('close', () => void server.close());
  await server.connect(
    /** @type {import('@modelcontextprotocol/sdk/shared/transport.js').Transport} */ (transport),
  );
  await transport.handleRequest(req, res);
});
http.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (http.address());
  console.log(`listening on http://127.0.0.1:${port}/mcp`);
});
