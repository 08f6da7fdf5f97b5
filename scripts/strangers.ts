// Programs that nobody here wrote, unchanged, as a newcomer would join them in an empty folder: MCP's inspector and the
// clients of both SDKs, through `drs-verify host` and `sign`, to server-everything behind the nginx recipe and to
// server-filesystem behind `guard`. `npm run strangers` installs them from the registry.
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { Client as V2Client } from '@modelcontextprotocol/client';
import { StdioClientTransport as V2Transport } from '@modelcontextprotocol/client/stdio';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as V1Transport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { RECIPE, startRecipe } from '../test/e2e/gate-proxies.js';
import { startProgram, type Program } from '../test/support/programs.js';

const STRANGERS = [
  '@modelcontextprotocol/inspector@2.12.0',
  '@modelcontextprotocol/server-everything@2026.8.31',
  '@modelcontextprotocol/server-filesystem@2026.8.31',
  '@modelcontextprotocol/server-memory@2026.8.31',
  'mcp-remote@0.15.1',
  'supergateway@4.0.0',
];
const [FILES, EVERYTHING] = ['https://files.example', 'https://everything.example'];
const MEMORY = 'https://memory.example';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-strangers-'));
const at = (name: string) => path.join(folder, name);
const bin = (name: string) => at(`node_modules/.bin/${name}`);
const run = promisify(execFile);
const env = { PATH: process.env['PATH'] ?? '', HOME: folder };
const stops: (() => unknown)[] = [];

let failures = 0;
function check(what: string, isRight: boolean, found?: unknown): void {
  if (isRight) return;
  failures++;
  console.log(`BAD  ${what}${found === undefined ? '' : `: ${JSON.stringify(found).slice(0, 400)}`}`);
}

/** Runs a command line, and says how long it took. */
async function timed(program: string, ...args: string[]): Promise<{ stdout: string; secs: number }> {
  const started = performance.now();
  const { stdout } = await run(program, args, { cwd: folder, env, maxBuffer: 64 * 1024 * 1024 });
  const secs = (performance.now() - started) / 1000;
  console.log(`${secs.toFixed(1).padStart(6)} s  ${path.basename(program)} ${args.join(' ').slice(0, 110)}`);
  return { stdout, secs };
}

const didIn = (stdout: string) => /did:key:\w+/.exec(stdout)?.[0] ?? '';

/** Writes a chain for the bot that names these tools. */
async function issue(file: string, ...tools: string[]): Promise<void> {
  const named = tools.flatMap((tool) => ['--tool', tool]);
  const to = ['issue', '--key', 'alice.key', '--to', 'bot.pub', '--cmd', '/mcp', '--yes', '--force'];
  await run(bin('drs-verify'), [...to, ...named, '-o', file], { cwd: folder, env });
}

interface Entry {
  readonly command: string;
  readonly args: string[];
}

/** The part of a client that both SDKs have. */
interface AnyClient {
  listTools(): Promise<{
    tools: { name: string; inputSchema: unknown; execution?: { taskSupport?: string } }[];
  }>;
  listResources(): Promise<{ resources: { uri: string }[] }>;
  listPrompts(): Promise<{ prompts: { name: string; arguments?: { name: string }[] }[] }>;
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  readResource(call: { uri: string }): Promise<unknown>;
  getPrompt(call: { name: string; arguments: Record<string, string> }): Promise<unknown>;
  close(): Promise<void>;
}

async function connect(version: 'v1' | 'v2', { command, args }: Entry): Promise<AnyClient> {
  const info = { name: 'stranger', version: '1.0.0' };
  const server = { command, args, env, cwd: folder, stderr: 'pipe' as const };
  if (version === 'v1') {
    const client = new V1Client(info);
    await client.connect(new V1Transport(server));
    return client as unknown as AnyClient;
  }
  const client = new V2Client(info);
  await client.connect(new V2Transport(server));
  return client as unknown as AnyClient;
}

/** Some value that fits a JSON schema, as far as servers ask for it. */
function sample(schema: unknown, name = ''): unknown {
  const { type, properties, required, items, enum: values } = (schema ?? {}) as Record<string, unknown>;
  if (Array.isArray(values)) return values[0];
  if (type === 'object' || properties !== undefined) {
    const names = Array.isArray(required) ? (required as string[]) : [];
    return Object.fromEntries(
      names.map((key) => [key, sample((properties as Record<string, unknown>)[key], key)]),
    );
  }
  if (type === 'array') return [sample(items, name)];
  if (type === 'number' || type === 'integer') return 1;
  if (type === 'boolean') return false;
  return /path|source|file/i.test(name) ? at('data/hello.txt') : 'hello';
}

/** How a call ended: with an answer of the server, which may be an error of its own, or the code of a refusal. */
async function outcomeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'answered';
  } catch (error) {
    const { message, code } = error as Error & { code?: unknown };
    const refusal = /DRS: (\w+)/.exec(message)?.[1];
    return refusal ?? (typeof code === 'number' ? 'answered' : message);
  }
}

/** Every tool, resource and prompt: allowed by a chain that names it, and refused by one that does not. */
async function walk(name: string, version: 'v1' | 'v2', entry: Entry): Promise<number> {
  const client = await connect(version, entry);
  const listed = async <T>(list: Promise<T>, none: T) => list.catch(() => none);
  const { tools } = await client.listTools();
  const { resources } = await listed(client.listResources(), { resources: [] });
  const { prompts } = await listed(client.listPrompts(), { prompts: [] });
  const calls: [subject: string, call: () => Promise<unknown>][] = [
    // These clients do not send a call without a task to a tool that wants one.
    ...tools
      .filter(({ execution }) => execution?.taskSupport !== 'required')
      .map(({ name: tool, inputSchema }): [string, () => Promise<unknown>] => [
        tool,
        () => client.callTool({ name: tool, arguments: sample(inputSchema) as Record<string, unknown> }),
      ]),
    ...resources.map(({ uri }): [string, () => Promise<unknown>] => [
      'resources/read',
      () => client.readResource({ uri }),
    ]),
    ...prompts.map(({ name: prompt, arguments: given = [] }): [string, () => Promise<unknown>] => [
      'prompts/get',
      () =>
        client.getPrompt({
          name: prompt,
          arguments: Object.fromEntries(given.map((one) => [one.name, '1'])),
        }),
    ]),
  ];
  const subjects = [...new Set(calls.map(([subject]) => subject))];
  for (const [subject, call] of calls) {
    await issue('bot.jwt', subject);
    const allowed = await outcomeOf(call());
    check(
      `${name}, ${version}: ${subject} is allowed by a chain that names it`,
      allowed === 'answered',
      allowed,
    );
    await issue('bot.jwt', ...subjects.filter((other) => other !== subject), 'another');
    const refused = await outcomeOf(call());
    check(`${name}, ${version}: ${subject} is refused else`, refused === 'POLICY_VIOLATION', refused);
  }
  await client.close();
  return calls.length;
}

async function startService(): Promise<number> {
  const child = spawn(process.execPath, [at('node_modules/drs-verify/scripts/drs.mjs'), 'serve'], {
    env: { ...env, PORT: '0', TRUSTED_ROOTS: alice, SERVER_IDENTITY: EVERYTHING, WORKER_THREADS: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  stops.push(() => child.kill());
  for await (const line of createInterface({ input: child.stdout })) {
    const { port } = JSON.parse(line) as { port?: number };
    if (port !== undefined) return port;
  }
  throw new Error('the service ended before it listened');
}

const portOf = ({ url }: Program) => Number(new URL(url).port);
let alice = '';
try {
  const pack = await run('npm', ['pack', '--silent', '--pack-destination', folder]);
  writeFileSync(at('package.json'), '{ "private": true, "type": "module" }');
  mkdirSync(at('data'));
  writeFileSync(at('data/hello.txt'), 'hello');

  // From an empty folder to the first protected call.
  const seconds: number[] = [];
  const step = async (program: string, ...args: string[]) => {
    const { stdout, secs } = await timed(program, ...args);
    seconds.push(secs);
    return stdout;
  };
  const install = ['install', '--no-audit', '--no-fund', '--silent', '--ignore-scripts'];
  await step('npm', ...install, at(pack.stdout.trim()), STRANGERS[2] ?? '');
  alice = didIn(await step(bin('drs-verify'), 'keygen', '-o', 'alice.key'));
  await step(bin('drs-verify'), 'keygen', '-o', 'bot.key');
  const toBot = ['--key', 'alice.key', '--to', 'bot.pub', '--cmd', '/mcp', '--tool', 'read_text_file'];
  await step(bin('drs-verify'), 'issue', ...toBot, '--yes', '-o', 'bot.jwt');
  const filesystem = [bin('mcp-server-filesystem'), at('data')];
  const by = ['--key', 'bot.key', '--chain', 'bot.jwt', '--trusted-root', alice, '--tool-server', FILES];
  const host = ['host', 'cursor', '--server', 'files', ...by, '--', ...filesystem];
  const printed = await step(bin('drs-verify'), ...host);
  writeFileSync(at('mcp.json'), printed);
  const { mcpServers } = JSON.parse(printed) as { mcpServers: Record<string, Entry> };
  const files = mcpServers['files'] as Entry;
  const started = performance.now();
  const client = await connect('v2', files);
  const first = await client.callTool({ name: 'read_text_file', arguments: { path: at('data/hello.txt') } });
  seconds.push((performance.now() - started) / 1000);
  check('the first protected call', JSON.stringify(first).includes('hello'), first);
  await client.close();
  console.log(
    `\n${seconds.reduce((sum, one) => sum + one, 0).toFixed(1)} s from an empty folder to the first protected call\n`,
  );

  await timed('npm', ...install, ...STRANGERS);
  const inspect = async (...call: string[]) => {
    const cli = ['--cli', '--config', 'mcp.json', '--server', 'files', '--method', ...call];
    return (await timed(bin('mcp-inspector'), ...cli).catch((error: unknown) => error)) as { stdout: string };
  };
  const tool = ['tools/call', '--tool-name', 'read_text_file', '--tool-arg', `path=${at('data/hello.txt')}`];
  const listing = await inspect('tools/list');
  check('the inspector lists tools', listing.stdout.includes('read_text_file'), listing);
  const read = await inspect(...tool);
  check('the inspector calls a tool', read.stdout.includes('hello'), read);
  await issue('bot.jwt', 'another');
  const refused = JSON.stringify(await inspect(...tool));
  check('the inspector is told why it may not', refused.includes('POLICY_VIOLATION'), refused);

  const port = await startService();
  const server = await startProgram('env', (own) => [
    `PORT=${own}`,
    bin('mcp-server-everything'),
    'streamableHttp',
  ]);
  stops.push(() => server.stop());
  const proxy = await startRecipe(RECIPE.nginx, port, portOf(server));
  stops.push(() => proxy.stop());
  const sign = ['sign', '--key', at('bot.key'), '--chain', at('bot.jwt'), '--tool-server', EVERYTHING];
  const everything = { command: bin('drs-verify'), args: [...sign, '--to', `${proxy.url}/mcp`] };
  // A server that speaks stdio alone, and a host that does: mcp-remote, sign, guard and supergateway between them.
  const gateway = await startProgram(bin('supergateway'), (own) => [
    ...['--stdio', bin('mcp-server-memory'), '--port', String(own)],
    ...['--outputTransport', 'streamableHttp', '--stateful'],
  ]);
  stops.push(() => gateway.stop());
  const drs = (...args: string[]) => startProgram(bin('drs-verify'), (own) => [...args, `127.0.0.1:${own}`]);
  const guarded = ['guard', '--trusted-root', alice, '--tool-server', MEMORY, '--to', `${gateway.url}/mcp`];
  const guard = await drs(...guarded, '--listen');
  stops.push(() => guard.stop());
  const signed = ['sign', '--key', at('bot.key'), '--chain', at('bot.jwt'), '--tool-server', MEMORY];
  const signing = await drs(...signed, '--to', `${guard.url}/mcp`, '--listen');
  stops.push(() => signing.stop());
  const remote = [`${signing.url}/mcp`, '--allow-http', '--transport', 'http-only'];
  const memory = { command: bin('mcp-remote'), args: remote };
  for (const version of ['v1', 'v2'] as const) {
    console.log(
      `server-memory behind supergateway, guard, sign, mcp-remote, ${version}: ${await walk('memory', version, memory)} tools, resources and prompts`,
    );
    console.log(
      `server-filesystem behind guard, ${version}: ${await walk('filesystem', version, files)} tools, resources and prompts`,
    );
    console.log(
      `server-everything behind nginx, ${version}: ${await walk('everything', version, everything)} tools, resources and prompts`,
    );
  }
} finally {
  for (const stop of stops.reverse()) await stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(failures === 0 ? 'all as expected' : `${failures} not as expected`);
process.exit(failures === 0 ? 0 : 1);
