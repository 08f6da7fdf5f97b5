import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signCalls } from '../../src/middleware/mcp/index.js';
import { MAIN } from '../cli/drs.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { newAgent, TOOL_SERVER } from './agent.js';
import { startGuard, type Said } from './guard-process.js';

/** What the operator says of tools, in front of servers that know nothing of it. */

const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'drs-tools-')));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string) => path.join(folder, name);
function linesIn(name: string, ...lines: object[]): string {
  writeFileSync(at(name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return at(name);
}

const SERVER_FILE = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-filesystem/dist/index.js',
);

describe('server-filesystem behind drs-verify guard', () => {
  const agent = newAgent();
  const lines = linesIn(
    'files.jsonl',
    { tool: '*', resource: { argument: 'path', before: 'file://' } },
    { tool: 'read_multiple_files', resource: { argument: 'paths', before: 'file://' } },
  );
  const server = [process.execPath, SERVER_FILE, folder];
  const guard = ['guard', '--trusted-root', agent.principal.did, '--tool-server', TOOL_SERVER];
  let client: Client;
  let chain: string;
  beforeAll(async () => {
    mkdirSync(at('notes'));
    for (const name of ['notes/a.txt', 'secret.txt', 'notes-b.txt']) writeFileSync(at(name), `in ${name}`);
    const policy = { allowed_resources: [`file://${at('notes')}/*`] };
    chain = await agent.chain('files.jwt', [], '/mcp', policy);
    const receipts = [readFileSync(chain, 'utf8').trim()];
    const delegation = { key: agent.key, chain: receipts, toolServer: TOOL_SERVER };
    client = signCalls(new Client({ name: 'test', version: '1.0.0' }), delegation);
    const args = [MAIN, ...guard, '--tools', lines, '--', ...server];
    await client.connect(new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' }));
  });
  afterAll(() => client.close());

  const call = async (name: string, args: Record<string, unknown>, by = client) =>
    JSON.stringify((await by.callTool({ name, arguments: args })).content);

  it('reads and writes in the folder that the principal has named', async () => {
    expect(await call('read_text_file', { path: at('notes/a.txt') })).toContain('in notes/a.txt');
    expect(await call('read_multiple_files', { paths: [at('notes/a.txt')] })).toContain('in notes/a.txt');
    await call('write_file', { path: at('notes/new.txt'), content: 'new' });
    expect(readFileSync(at('notes/new.txt'), 'utf8')).toBe('new');
  });

  it.each<[string, string, Record<string, unknown>]>([
    ['beside it, where the server may read', 'read_text_file', { path: at('secret.txt') }],
    ['whose name only begins like it', 'read_text_file', { path: at('notes-b.txt') }],
    ['by two dots', 'read_text_file', { path: `${at('notes')}/../secret.txt` }],
    ['by two dots in percent', 'read_text_file', { path: `${at('notes')}/%2e%2e/secret.txt` }],
    ['by two dots after a query', 'read_text_file', { path: `${at('notes')}/?/../../secret.txt` }],
    ['by two dots after a fragment', 'read_text_file', { path: `${at('notes')}/#/../../secret.txt` }],
    ['among others', 'read_multiple_files', { paths: [at('notes/a.txt'), at('secret.txt')] }],
    ['of a home folder', 'read_text_file', { path: '~/secret.txt' }],
    ['by arguments of another name', 'move_file', { source: at('secret.txt'), destination: at('notes/s') }],
    ['that is no text', 'read_text_file', { path: 5 }],
    ['that is not named', 'list_allowed_directories', {}],
    [
      'although the agent names another one',
      'read_text_file',
      { path: at('secret.txt'), resource_uri: `file://${at('notes')}/a.txt` },
    ],
  ])('gets nothing %s', async (_, name, args) => {
    await expect(call(name, args)).rejects.toMatchObject({
      code: -32010,
      data: { code: 'POLICY_VIOLATION' },
    });
  });

  it('leaves to the server what a link in the folder leads to', async () => {
    symlinkSync('/etc/hosts', at('notes/link'));
    expect(await call('read_text_file', { path: at('notes/link') })).toContain('Access denied');
  });

  it('is told in words by sign, which knows the same lines', async () => {
    const args = [
      MAIN,
      ...agent.options(chain),
      ...['--tools', lines, '--', process.execPath, MAIN, ...guard, '--tools', lines, '--', ...server],
    ];
    const host = new Client({ name: 'host', version: '1.0.0' });
    await host.connect(new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' }));
    try {
      expect(await call('read_text_file', { path: at('notes/a.txt') }, host)).toContain('in notes/a.txt');
      await expect(call('read_text_file', { path: at('secret.txt') }, host)).rejects.toMatchObject({
        message: expect.stringMatching(
          /not sent, since no delegation allows it: .* args\.resource_uri is "file:.*secret\.txt", .* what the operator says/,
        ) as unknown,
        data: { suggestion: expect.stringContaining('Call it otherwise') as unknown },
      });
    } finally {
      await host.close();
    }
  });
});

it('charges what a payment says to the limit of all', async () => {
  const policy = { max_total_cost_usd: 10, write_access: true };
  const chain = liveChain(1, { cmd: '/mcp', policy });
  const lines = linesIn('pay.jsonl', { tool: 'transfer', cost_usd: { argument: 'amount' }, writes: true });
  const did = chain.parties[0]?.did ?? '';
  const guard = startGuard(['--trusted-root', did, '--tool-server', TOOL_SERVER, '--tools', lines]);
  const pay = (id: number, args: object) => {
    const signed = liveCall(
      chain,
      { tool: 'transfer', ...args },
      { cmd: '/mcp/tools/call', tool_server: TOOL_SERVER },
    );
    const _meta = { 'X-DRS-Bundle': encode(signed) };
    guard.say({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'transfer', arguments: args, _meta },
    });
  };
  const calls = [
    { amount: 6 },
    { amount: 4.01 },
    { amount: 4, estimated_cost_usd: 0 },
    { amount: 0.01 },
    { amount: -1 },
    { amount: '0' },
    { amount: null },
    { estimated_cost_usd: 0 },
    {},
  ];
  calls.forEach((args, id) => pay(id, args));
  guard.process.stdin?.end();
  expect(await guard.ended).toBe(0);
  const said = guard.lines.map((line) => JSON.parse(line) as Said);
  const codes = calls.map((_, id) => said.find((one) => one.id === id)?.error?.data.code ?? 'paid');
  const refused = Array<string>(5).fill('POLICY_VIOLATION');
  expect(codes).toEqual(['paid', 'LIMIT_REACHED', 'paid', 'LIMIT_REACHED', ...refused]);
});
