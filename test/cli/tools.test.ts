import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { beforeAll, expect, it } from 'vitest';
import { createChain, INVOKE, type Workplace } from './drs.js';
import { parse } from './log-members.js';

/** What an operator says of tools, by command. */

let work: Workplace;
beforeAll(async () => {
  work = await createChain();
});
const FILES = [
  process.execPath,
  createRequire(import.meta.url).resolve('@modelcontextprotocol/server-filesystem/dist/index.js'),
];

it('`tools` prints a line for each tool of a server, which a file of tools takes', async () => {
  const { code, stdout, stderr } = await work.drsAlone(['tools', '--', ...FILES, tmpdir()]);
  expect(code).toBe(0);
  const lines = parse(stdout);
  expect(lines).toContainEqual({ tool: 'write_file', writes: true });
  // The server says that it only reads, and nobody here knows.
  expect(lines).toContainEqual({ tool: 'read_text_file' });
  expect(lines.at(-1)).toEqual({ tool: '*', writes: true });
  expect(stderr).toMatch(/they only read; add "writes":false where it is so: .*"read_text_file"/);
  await work.write('tools.jsonl', stdout);
  expect(await work.drs([...INVOKE, '--args', '@args.json', '--tools', 'tools.jsonl'])).toMatchObject({
    code: 0,
  });
});

it('`tools` reads all pages over HTTP, and names what a server does not do', async () => {
  const hints = { readOnlyHint: true };
  const pages: Record<string, object> = {
    first: { tools: [{ name: 'a\u202e', annotations: hints }, { name: 5 }, null], nextCursor: 'second' },
    second: { tools: [{ name: 'b', annotations: { readOnlyHint: 'true' } }] },
  };
  let isBroken = false;
  const server = createServer((request, response) => {
    void (async () => {
      const { id, method, params } = JSON.parse(
        Buffer.concat((await request.toArray()) as Buffer[]).toString() || '{}',
      ) as {
        id?: number;
        method?: string;
        params?: { cursor?: string };
      };
      if (id === undefined) return void response.writeHead(request.method === 'POST' ? 202 : 405).end();
      const result =
        method === 'initialize'
          ? { protocolVersion: '2025-06-18', capabilities: {} }
          : pages[params?.cursor ?? 'first'];
      const answer = isBroken ? { error: { code: -32601, message: 'no\u001b[2J' } } : { result };
      response
        .setHeader('Content-Type', 'application/json')
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    })();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  try {
    const { code, stdout } = await work.drsAlone(['tools', '--from', url]);
    expect([code, stdout]).toEqual([
      0,
      '{"tool":"a\\u202e"}\n{"tool":"b","writes":true}\n{"tool":"*","writes":true}\n',
    ]);
    isBroken = true;
    const refused = await work.drsAlone(['tools', '--from', url]);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain(
      'cannot list the tools: initialize: {"code":-32601,"message":"no\\u001b[2J"}',
    );
  } finally {
    server.close().closeAllConnections();
  }
  const ended = await work.drsAlone(['tools', '--', process.execPath, '-e', '0']);
  expect(ended).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('the server has ended') as unknown,
  });
  const missing = await work.drsAlone(['tools', '--', './no-such-program']);
  expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('ENOENT') as unknown });
  expect((await work.drs(['tools'])).stderr).toContain('neither --from nor a command');
});

it('`invoke` takes what the operator says in place of the call', async () => {
  const args = ['--args', '{"tool":"search","query":"tea","amount":0.5}'];
  const refused = await work.drs([...INVOKE, ...args]);
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('args.estimated_cost_usd is missing') as unknown,
  });
  await work.write('price.jsonl', '{ "tool": "search", "cost_usd": { "argument": "amount" } }');
  expect(await work.drs([...INVOKE, ...args, '--tools', 'price.jsonl'])).toMatchObject({ code: 0 });
  const dear = ['--args', '{"tool":"search","amount":2}', '--tools', 'price.jsonl'];
  expect((await work.drs([...INVOKE, ...dear])).stderr).toContain(
    'args.estimated_cost_usd is 2, expected what max_cost_usd 1',
  );
});
