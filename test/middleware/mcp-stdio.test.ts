import { fileURLToPath } from 'node:url';
import { Client as V2Client } from '@modelcontextprotocol/client';
import { StdioClientTransport as V2Transport } from '@modelcontextprotocol/client/stdio';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as V1Transport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ToolCaller } from './mcp-generations.js';
import { ATTACKS, call, chain, invalid, principal, search } from './mcp-attacks.js';
import { liveCall } from './call.js';

const child = fileURLToPath(new URL('mcp-stdio-child.mjs', import.meta.url));
const info = { name: 'test', version: '1.0.0' };
const parameters = (generation: string) => ({
  command: process.execPath,
  args: [child, generation],
  stderr: 'pipe' as const,
});

const GENERATIONS: readonly (readonly [string, () => Promise<{ client: object; stderr: unknown }>])[] = [
  [
    '1.x',
    async () => {
      const [client, transport] = [new V1Client(info), new V1Transport(parameters('1.x'))];
      const { stderr } = transport;
      await client.connect(transport);
      return { client, stderr };
    },
  ],
  [
    '2.x',
    async () => {
      const client = new V2Client(info, { versionNegotiation: { mode: 'auto' } });
      const transport = new V2Transport(parameters('2.x'));
      const { stderr } = transport;
      await client.connect(transport);
      return { client, stderr };
    },
  ],
];

describe.each(GENERATIONS)('MCP %s over stdio', (_, connect) => {
  let client: ToolCaller;
  let executed = '';
  beforeAll(async () => {
    const connected = await connect();
    // Both have these two methods; their types differ in what no test here looks at.
    client = connected.client as ToolCaller;
    (connected.stderr as Readable).on('data', (chunk: Buffer) => (executed += chunk.toString()));
  });
  afterAll(async () => {
    await client.close();
    // An event for each executed call: of all these tests, one.
    expect(
      executed
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { inv_jti: string }).inv_jti),
    ).toEqual(['inv:stdio']);
  });

  it.each(ATTACKS)('refuses %s', async (_name, params, status, data) => {
    await expect(client.callTool({ ...params() })).rejects.toMatchObject({
      code: -32010,
      data: { ...data, status },
    });
  });

  it('executes what was signed, once, and nothing else', async () => {
    const params = call(search, liveCall(chain, search, { jti: 'inv:stdio' }));
    const { content } = await client.callTool(params);
    expect(content[0]?.text).toBe(`tea for ${principal}`);
    await expect(client.callTool(params)).rejects.toMatchObject({
      code: -32010,
      data: invalid('REPLAY_DETECTED'),
    });
  });
});
