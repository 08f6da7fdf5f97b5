import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { signCalls } from 'drs-verify/mcp';
import { fileURLToPath } from 'node:url';
import { demoDelegation } from './delegation.js';

// With an address it calls that server, otherwise one that it starts itself.
const url = process.argv[2];
const stdioServer = fileURLToPath(new URL('stdio.js', import.meta.url));
const transport = () =>
  url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: process.execPath, args: [stdioServer] });
const newClient = () =>
  new Client({ name: 'agent', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });

const call = { name: 'weather', arguments: { city: 'Zürich' } };

const client = signCalls(newClient(), await demoDelegation(), { sign: (tool) => tool !== 'help' });
await client.connect(transport());
console.log('signed:', JSON.stringify((await client.callTool(call)).content));
await client.close();

const other = newClient();
await other.connect(transport());
console.log('help:', JSON.stringify((await other.callTool({ name: 'help' })).content));
await other
  .callTool(call)
  .catch((error) => console.log(`not signed: ${error.message}. ${error.data.suggestion}`));
await other.close();
