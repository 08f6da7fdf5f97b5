import { spawn, type ChildProcess } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { end } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { linkExample } from '../support/examples.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const examples = path.join(root, 'examples');

/** Runs a script to its end. */
async function run(example: string, script: string, args: readonly string[] = []) {
  const child = spawn(process.execPath, [script, ...args], { cwd: path.join(examples, example) });
  const [out, err] = await Promise.all(
    [child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray()),
  );
  return { out: (out as string[]).join(''), err: (err as string[]).join('') };
}

class ExampleServer {
  readonly events: unknown[] = [];
  readonly #child: ChildProcess;

  constructor(example: string, script: string) {
    this.#child = spawn(process.execPath, [script], {
      cwd: path.join(examples, example),
      env: { ...process.env, PORT: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    createInterface({ input: this.#child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      this.events.push(JSON.parse(line));
    });
  }

  async url(): Promise<string> {
    for await (const line of createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })) {
      const [, url] = /^listening on (\S+)$/.exec(line) ?? [];
      if (url !== undefined) return url;
    }
    throw new Error('the example ended before it listened');
  }

  stop(): Promise<void> {
    return end(this.#child);
  }
}

const event = (members: object) => ({
  event: 'drs:tool-call',
  policy_result: 'pass',
  chain_depth: 1,
  ...members,
});

beforeAll(() =>
  ['express-tools', 'fastify-tools', 'hono-tools', 'mcp-tools', 'mcp-tools-v1', 'a2a-agent'].forEach(
    linkExample,
  ),
);

describe.each([
  [
    'express-tools',
    'server.js',
    [
      /^as signed: 200 .*sunny in Zürich/,
      /^another city: 403 .*BINDING_MISMATCH/,
      /^another tool: 403 .*TOOL_MISMATCH/,
      /^no cost: 403 .*POLICY_VIOLATION.*state it/,
      /^once more: 409 .*REPLAY_DETECTED/,
    ],
    { command: '/tools', tool: 'weather', cost_usd: 0.01 },
    2,
  ],
  ...['fastify-tools', 'hono-tools'].map(
    (name) =>
      [
        name,
        'server.js',
        [/^signed: 200 .*sunny in Zürich.*did:key:z6Mk/, /^not signed: 401 .*MISSING_BUNDLE/],
        { command: '/tools', tool: 'weather', cost_usd: 0 },
        1,
      ] as const,
  ),
  ...['mcp-tools', 'mcp-tools-v1'].map(
    (name) =>
      [
        name,
        'http.js',
        [
          /^signed: .*sunny in Zürich, for did:key:z6Mk/,
          /^help: .*Ask for a city/,
          /^not signed: .*DRS: MISSING_BUNDLE.*delegate the tool "weather" to you/,
        ],
        { command: '/mcp/tools/call', tool: 'weather', cost_usd: 0 },
        1,
      ] as const,
  ),
  [
    'a2a-agent',
    'server.js',
    [/^signed: .*sunny, for did:key:z6Mk/, /^not signed: .*DRS: MISSING_BUNDLE/],
    { command: '/a2a/SendMessage', tool: 'SendMessage', cost_usd: 0 },
    1,
  ],
] as const)('the example %s', (example, script, lines, executed, times) => {
  let server: ExampleServer;
  let url: string;
  beforeAll(async () => {
    server = new ExampleServer(example, script);
    url = await server.url();
  });
  afterAll(() => server.stop());

  it('serves its agent, and only what the agent signed', async () => {
    const { out, err } = await run(example, 'agent.js', [url]);
    expect(err).toBe('');
    const printed = out.trimEnd().split('\n');
    expect(printed).toHaveLength(lines.length);
    for (const [at, line] of lines.entries()) expect(printed[at]).toMatch(line);
    // The agent may have ended before the server tells of its last call.
    await eventually(() =>
      expect(server.events).toEqual(
        Array.from({ length: times }, () => expect.objectContaining(event(executed)) as unknown),
      ),
    );
  });
});

describe.each(['mcp-tools', 'mcp-tools-v1'])('the example %s over stdio', (example) => {
  it('serves its agent, and only what the agent signed', async () => {
    const { out, err } = await run(example, 'agent.js');
    expect(out).toMatch(
      /^signed: .*sunny in Zürich, for did:key:z6Mk.*\nhelp: .*\nnot signed: .*DRS: MISSING_BUNDLE.*\n$/,
    );
    expect(JSON.parse(err)).toMatchObject(event({ command: '/mcp/tools/call', tool: 'weather' }));
  });
});
