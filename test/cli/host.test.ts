import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { beforeAll, describe, expect, it } from 'vitest';
import { programOf } from '../../src/cli/commands/host.js';
import { BUILD } from '../../src/service/observe/build-info.js';
import { needs } from '../support/programs.js';
import { createChain, MAIN, type Workplace } from './drs.js';

const TOOLS = fileURLToPath(new URL('../relay/mcp-server.mjs', import.meta.url));
const SERVER = [process.execPath, TOOLS, '2.x', `it's "é" a\\b`];
let work: Workplace;
let alice: string;
beforeAll(async () => {
  work = await createChain();
  alice = (JSON.parse(await work.read('alice.pub')) as { kid: string }).kid;
});

const BY = ['--key', 'bot.key', '--chain', 'root.jwt'];
const host = (name: string, ...more: string[]) =>
  work.done('host', name, '--server', 'files', ...BY, ...more);
/** A server behind `guard`, which needs a secret of its own or none. */
const guarded = (name: string, ...variables: string[]) =>
  host(
    ...[name, '--trusted-root', alice, '--state', 'state'],
    ...[...variables.flatMap((one) => ['--variable', one]), '--', ...SERVER],
  );

/** What a host starts. */
interface Started {
  readonly command: string;
  readonly args: string[];
  readonly env?: Record<string, unknown>;
}
type Read = (text: string) => unknown;
const inFile: Read = (text) => (JSON.parse(text) as { mcpServers: { files: Started } }).mcpServers.files;
/** The words of a command line, as a shell reads it. */
const inShell: Read = (text) => {
  const { stdout } = spawnSync('sh', ['-c', `printf '%s\\0' ${text}`]);
  return stdout.toString().split('\0').slice(0, -1);
};
const inToml: Read = (text) => {
  const program = 'import json, sys, tomllib; print(json.dumps(tomllib.loads(sys.stdin.read())))';
  const { stdout } = spawnSync('python3', ['-c', program], { input: text, encoding: 'utf8' });
  return (JSON.parse(stdout) as { mcp_servers: { files: unknown } }).mcp_servers.files;
};

/** How each host reads what is printed, without a variable and with one, and where it says that it belongs. */
const HOSTS: Readonly<Record<string, readonly [string, plain: Read, secret: Read, reference: unknown]>> = {
  'claude-desktop': ['claude_desktop_config.json', inFile, inFile, undefined],
  'claude-code': ['', ofClaude, ofClaude, { TOKEN: '${TOKEN}' }],
  cursor: ['~/.cursor/mcp.json', inFile, inFile, { TOKEN: '${env:TOKEN}' }],
  vscode: ['mcp.json', ofCode, ofCodeFile, { TOKEN: '${input:TOKEN}' }],
  windsurf: ['~/.codeium/windsurf/mcp_config.json', inFile, inFile, { TOKEN: '${env:TOKEN}' }],
  zed: ['settings.json', ofZed, ofZed, undefined],
  cline: ['~/.cline/data/settings/cline_mcp_settings.json', inFile, inFile, { TOKEN: '${env:TOKEN}' }],
  codex: ['~/.codex/config.toml', ofCodex, inToml, undefined],
  gemini: ['~/.gemini/settings.json', inFile, inFile, { TOKEN: '${TOKEN}' }],
  opencode: ['opencode.json', ofOpencode, ofOpencode, { TOKEN: '{env:TOKEN}' }],
};

function ofClaude(text: string) {
  const [claude, mcp, add, scope, user, name, json = ''] = inShell(text) as string[];
  expect([claude, mcp, add, scope, user, name]).toEqual([
    ...['claude', 'mcp', 'add-json', '--scope', 'user', 'files'],
  ]);
  const { type, ...entry } = JSON.parse(json) as Started & { type: string };
  expect(type).toBe('stdio');
  return entry;
}
function ofCode(text: string) {
  const [code, add, json = '', ...more] = inShell(text) as string[];
  expect([code, add, more]).toEqual(['code', '--add-mcp', []]);
  const { name, type, ...entry } = JSON.parse(json) as Started & { name: string; type: string };
  expect([name, type]).toEqual(['files', 'stdio']);
  return entry;
}
function ofCodeFile(text: string) {
  const { inputs, servers } = JSON.parse(text) as {
    inputs: unknown;
    servers: { files: Started & { type: string } };
  };
  expect(inputs).toEqual([{ type: 'promptString', id: 'TOKEN', description: 'TOKEN', password: true }]);
  const { type, ...entry } = servers.files;
  expect(type).toBe('stdio');
  return entry;
}
function ofZed(text: string) {
  return (JSON.parse(text) as { context_servers: { files: Started } }).context_servers.files;
}
function ofCodex(text: string) {
  const [codex, mcp, add, name, dashes, command, ...args] = inShell(text) as string[];
  expect([codex, mcp, add, name, dashes]).toEqual(['codex', 'mcp', 'add', 'files', '--']);
  return { command, args };
}
function ofOpencode(text: string) {
  const { mcp } = JSON.parse(text) as {
    mcp: { files: { type: string; enabled: boolean; command: string[]; environment?: object } };
  };
  const { type, enabled, command, environment } = mcp.files;
  expect([type, enabled]).toEqual(['local', true]);
  const [program, ...args] = command;
  return { command: program, args, ...(environment === undefined ? {} : { env: environment }) };
}

/** What every host is to start. */
const expected = () => ({
  command: process.execPath,
  args: [
    ...[MAIN, 'sign', '--key', work.path('bot.key'), '--chain', work.path('root.jwt')],
    ...['--tool-server', 'stdio:files', '--', process.execPath, MAIN, 'guard', '--trusted-root', alice],
    ...['--tool-server', 'stdio:files', '--state', work.path('state'), '--', ...SERVER],
  ],
});

describe.each(Object.entries(HOSTS))('%s', (name, [where, plain, secret, reference]) => {
  it('is told to start both halves, in a form that it reads', async () => {
    const { stdout, stderr } = await guarded(name);
    expect(plain(stdout)).toEqual(expected());
    expect(stderr).toContain('signed for the tool server stdio:files');
    expect(stderr.includes('a folder that you trust')).toBe(name === 'gemini');
    expect(stderr).toContain(['claude-code', 'vscode', 'codex'].includes(name) ? 'Run this' : where);
  });

  // Python reads TOML.
  const needed = name === 'codex' ? needs('python3') : {};
  it('is told of a variable by its name, in its own way', needed, async () => {
    const { stdout, stderr } = await guarded(name, 'TOKEN');
    const { env, ...entry } = secret(stdout) as Started & { env_vars?: string[] };
    expect(env).toEqual(reference);
    if (name === 'codex') expect(entry).toEqual({ ...expected(), env_vars: ['TOKEN'] });
    else expect(entry).toEqual(expected());
    expect(stderr.includes('cannot refer to variables')).toBe(/claude-desktop|zed/.test(name));
  });
});

// All hosts are told the same, so one is enough. It has two windows open, which share one folder.
it('what they start signs, guards, and answers a call; a call that is not delegated is refused', async () => {
  const { command, args } = inFile((await guarded('cursor')).stdout) as Started;
  const windows = [1, 2].map(() => new Client({ name: 'host', version: '1.0.0' }));
  try {
    for (const client of windows)
      await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
    for (const client of windows) {
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(['search', 'fetch']);
      const call = { name: 'search', arguments: { query: 'tea', estimated_cost_usd: 1 } };
      const { content } = await client.callTool(call);
      expect(JSON.stringify(content)).toContain(alice);
      const dear = { name: 'search', arguments: { query: 'tea', estimated_cost_usd: 6 } };
      await expect(client.callTool(dear)).rejects.toThrow('estimated_cost_usd');
    }
    expect((await work.read('state/usage.jsonl')).match(/"used"/g)).toHaveLength(2);
  } finally {
    for (const client of windows) await client.close();
  }
});

it('what the tools do is told to both halves', async () => {
  await work.write('tools.jsonl', '{"tool":"*","writes":true}');
  const said = ['--tools', work.path('tools.jsonl')];
  const { stdout } = await host('cursor', '--trusted-root', alice, '--tools', 'tools.jsonl', '--', ...SERVER);
  const { args } = inFile(stdout) as Started;
  const [signs, guards] = [args.slice(0, args.indexOf('--')), args.slice(args.indexOf('--'))];
  for (const half of [signs, guards]) expect(half.join(' ')).toContain(said.join(' '));
});

it('a server elsewhere is named by its URL, and its header by a variable', async () => {
  const to = 'https://tools.example/mcp?key=k';
  const { stdout } = await host('cursor', '--to', to, '--header-env', 'Authorization: TOKEN');
  const { args, env } = inFile(stdout) as Started;
  expect(args.slice(6)).toEqual([
    ...['--tool-server', 'https://tools.example/mcp', '--to', to, '--header-env', 'Authorization: TOKEN'],
  ]);
  expect(env).toEqual({ TOKEN: '${env:TOKEN}' });
});

it('pins the version: this file, or that of npx', () => {
  const npx = programOf(['/node', '/home/a/.npm/_npx/1/node_modules/.bin/drs-verify']);
  expect(npx).toEqual(['npx', '--yes', `drs-verify@${BUILD.version}`]);
  expect(programOf(['/node', '/lib/drs.mjs'])).toEqual(['/node', '/lib/drs.mjs']);
});

it.each([
  [['host', 'emacs'], 'claude-desktop, claude-code, cursor, vscode, windsurf, zed, cline, codex, gemini'],
  [['host', 'zed', '--server', 'a b', ...BY, '--', 'cat'], '"a b" is no name'],
  [['host', 'zed', '--server', 'a', ...BY, '--variable', 'A=b', '--', 'cat'], '"A=b" is no name'],
  [['host', 'zed', '--server', 'a', ...BY], 'neither --to nor a command, or both'],
  [['host', 'zed', '--server', 'a', ...BY, '--to', 'x:y', '--trusted-root', 'a'], 'is for a command'],
  [['host', 'zed', '--server', 'a', ...BY, '--to', 'x:y'], '--to is "x:y"'],
  [['host', 'zed', '--server', 'a', ...BY, '--trusted-root', 'alice', '--', 'cat'], 'is "alice"'],
  [['host', 'zed', '--server', 'a', ...BY, '--trusted-root', '', '--', 'cat'], 'not an empty text'],
  [['host', 'zed', '--server', 'a', ...BY, '--state', 'state', '--', 'cat'], '--state is for a guard'],
  [['host', 'zed', '--server', 'a', ...BY, '--tools', 'no', '--', 'cat'], '--tools is for a guard'],
  [['host', 'zed', '--server', 'a', ...BY, '--trusted-root', 'any', '--tools', 'no', '--', 'cat'], 'no such'],
  [['host', 'gemini', '--server', 'a', ...BY, '--', 'cat', '$HOME'], 'which gemini may replace'],
  [['host', 'gemini', '--server', 'my_files', ...BY, '--', 'cat'], 'gemini do not find a server with _'],
  [['host', 'opencode', '--server', 'a', ...BY, '--', 'cat', '{env:A}'], 'which opencode may replace'],
  [['host', 'zed', '--server', 'a', ...BY, '--header-env', 'A: B', '--', 'cat'], '--header-env is for --to'],
  [['host', 'zed', '--server', 'a', '--key', 'bot.key', '--', 'cat'], 'there is no chain'],
  [['host', 'zed', '--server', 'a', '--chain', 'root.jwt', '--', 'cat'], 'there is no key to sign with'],
  [['host', 'zed', '--server', 'a', '--key', 'bot.key', '--chain', 'no', '--', 'cat'], 'no such file'],
  [['host', 'zed', '--server', 'a', '--key', 'alice.key', '--chain', 'root.jwt', '--', 'cat'], 'root.jwt'],
])('%j is refused', async (args, says) => {
  const { code, stdout, stderr } = await work.drs(args);
  expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining(says)]);
});
