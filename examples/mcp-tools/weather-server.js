import { McpServer } from '@modelcontextprotocol/server';
import { createVerifier } from 'drs-verify';
import { createMemoryReplayStore, drsContext, drsMcp } from 'drs-verify/mcp';
import { z } from 'zod';

// One for the whole process: what was used on one connection is used on all.
const drs = drsMcp({
  verifier: createVerifier(),
  // With 'any', anyone can be a principal: then check root_principal in the tool.
  trustedRoots: process.env['TRUSTED_ROOTS']?.split(',') ?? 'any',
  serverIdentity: 'https://weather.example',
  replayStore: createMemoryReplayStore(),
  // Tools that need no delegation.
  protect: (tool) => tool !== 'help',
  // Over stdio, standard output belongs to the protocol.
  eventSink: process.stderr,
});

/** A server of its own for each client. */
export function weatherServer() {
  const server = new McpServer({ name: 'weather', version: '1.0.0' });
  server.registerTool('weather', { inputSchema: z.object({ city: z.string() }) }, ({ city }) => ({
    content: [{ type: 'text', text: `sunny in ${city}, for ${drsContext().root_principal}` }],
  }));
  server.registerTool('help', {}, () => ({ content: [{ type: 'text', text: 'Ask for a city.' }] }));
  return drs.protectServer(server);
}
