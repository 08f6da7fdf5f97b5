import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { META_KEYS } from '../../src/gate/carriers.js';
import { decodeBundle } from '../../src/issue/index.js';
import { createVerifier } from '../../src/index.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { MAX_MESSAGE_BYTES } from '../../src/relay/message.js';
import { eventually } from '../support/eventually.js';
import { readKeyFile } from '../../src/cli/key-file.js';
import { MAIN } from '../cli/drs.js';
import { kindOf, parse } from '../cli/log-members.js';
import { newAgent, TOOL_SERVER } from './agent.js';
import { ECHO, type Said } from './guard-process.js';

const agent = newAgent();
const chain = await agent.chain('root.jwt', ['search', 'resources/read']);

function run(...command: string[]) {
  const child = spawn(process.execPath, [MAIN, ...agent.options(chain), '--', ...command]);
  child.stdin.on('error', () => undefined);
  const stdout = text(child.stdout);
  const stderr = text(child.stderr);
  return { child, stdout, stderr, ended: once(child, 'exit') as Promise<[number | null, string | null]> };
}

/** A message without the bundle that was put in. Nothing else may differ for whoever reads it. */
function withoutBundle(line: string, original: string): unknown {
  const value = JSON.parse(line) as { params: { _meta?: Record<string, unknown> } };
  expect(value.params._meta?.['X-DRS-Bundle']).toMatch(/^[\w-]+$/);
  for (const name of META_KEYS) delete value.params._meta?.[name];
  if (!original.includes('"_meta"')) delete value.params._meta;
  return value;
}

// Each as a host could write it.
const SIGNED = [
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"tea","n":1.0}}}',
  ' { "params" : { "_meta" : { "progressToken" : 7e0 } , "arguments":{"q":"\\u00e9 é \\/"} , "name" : "search"},"method":"tools/call","id":"a\\u0062c", "jsonrpc":"2.0" }',
  '{"jsonrpc":"2.0","id":90071992547409931234567890e-13,"method":"resources/read","params":{"uri":"file:///a","_meta":{}}}',
];
const PASSED = [
  '{"jsonrpc":"2.0","id":1.50,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}',
  '{"jsonrpc":"2.0","method":"notifications/initialized"}\r',
  '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
  '{"jsonrpc":"2.0","id":12345678901234567890,"result":{"roots":[]}}',
  '{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
  '[{"jsonrpc":"2.0","method":"notifications/initialized"}]',
  '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"search","_meta":{"X-DRS-Bundle":"theirs"}}}',
  '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"without an id"}}',
  'not JSON at all \u{1f600}',
  'null',
  '{"jsonrpc":"2.0","id":5,"method":"x/unknown"}',
  '{"jsonrpc":"2.0","id":6,"method":"resources/subscribe","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
];

describe('in front of a child', () => {
  let received: string[];
  beforeAll(async () => {
    // What `cat` is sent comes back.
    const { child, stdout, ended } = run('cat');
    const invalid = Buffer.from([0x7b, 0xff, 0xfe, 0x0a]);
    child.stdin.write(invalid);
    child.stdin.end(`${[...SIGNED, ...PASSED].join('\n')}\nthe last line has no end`);
    expect(await ended).toEqual([0, null]);
    received = (await stdout).split('\n');
  });

  it('signs what a gate checks, and passes on all else byte for byte', () => {
    const [, ...lines] = received;
    expect(lines.slice(SIGNED.length)).toEqual([...PASSED, 'the last line has no end', '']);
    const signed = lines.slice(0, SIGNED.length);
    expect(signed.map((line, at) => withoutBundle(line, SIGNED[at] ?? ''))).toEqual(
      SIGNED.map((line) => JSON.parse(line) as unknown),
    );
  });

  it('with bundles that are valid for exactly these calls', async () => {
    const verifier = createVerifier({
      workerThreads: 0,
      trustedRoots: [agent.principal.did],
      serverIdentity: TOOL_SERVER,
    });
    const bodies = [
      { tool: 'search', query: 'tea', n: 1 },
      { tool: 'search', q: 'é é /' },
      { tool: 'resources/read', resource_uri: 'file:///a' },
    ];
    for (const [at, body] of bodies.entries()) {
      const [, bundle = ''] = /"X-DRS-Bundle":"([\w-]+)"/.exec(received[at + 1] ?? '') ?? [];
      expect(await verifier.verify(decodeBundle(bundle), { body })).toMatchObject({
        valid: true,
        binding: 'match',
      });
    }
    await verifier.close();
  });
});

it('answers itself what it does not send, in whole lines, and skips a line that is too long', async () => {
  // The child leaves a line unfinished until it is sent one, and answers too much.
  const long = `head -c 17000000 /dev/zero | tr '\\0' x`;
  const half = `echo '{}'; printf '{"half":'; read line; echo "1}"`;
  const much = `printf '{"result":"'; ${long}; echo '","jsonrpc":"2.0","id":"m"}'; ${long}; echo`;
  const { child, stdout, stderr, ended } = run('sh', '-c', `${half}; ${much}; exec cat`);
  const refused = '{"jsonrpc":"2.0","id":"r","method":"tools/call","params":{"name":"delete"}}';
  const batch = `[${refused},{"jsonrpc":"2.0","id":2,"method":"ping"}]`;
  const twice = '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"search","name":"search"}}';
  const big = '{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"search"}}';
  const deep = `{"id":1e-3,"method":"tools/call","params":{"name":"search","arguments":{"a":${'['.repeat(1e5)}${']'.repeat(1e5)}}}}`;
  child.stdout.once('data', () => {
    child.stdin.write('{}\n');
    child.stdin.write(`${refused}\n${batch}\n${twice}\n${big}\n${deep}\n`);
    const piece = Buffer.alloc(1 << 20, 'x');
    for (let sent = 0; sent <= MAX_MESSAGE_BYTES; sent += piece.length) child.stdin.write(piece);
    child.stdin.end('\n{"jsonrpc":"2.0","id":3,"method":"ping"}\n');
  });
  expect(await ended).toEqual([0, null]);
  const lines = (await stdout)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const error = (id: unknown, code: number, data = {}) => ({
    ...{ jsonrpc: '2.0', id },
    error: expect.objectContaining({ code, ...data }) as unknown,
  });
  const unsigned = (id: unknown, code: string) =>
    error(id, -32010, { data: expect.objectContaining({ code }) as unknown });
  const answers: unknown[] = [
    ...[{}, { half: 1 }, error('m', -32000), unsigned('r', 'POLICY_VIOLATION')],
    JSON.parse(batch),
    ...[9, 12345678901234567890, 1e-3].map((id) => unsigned(id, 'INVALID_JSONRPC')),
    unsigned(null, 'BODY_TOO_LARGE'),
    { jsonrpc: '2.0', id: 3, method: 'ping' },
  ];
  // A client that reads integers of any size finds its own.
  expect(await stdout).toContain('"id":12345678901234567890,');
  expect((await stderr).match(/more than 16.78 MB/g)).toHaveLength(2);
  expect(lines).toHaveLength(answers.length);
  expect(lines).toEqual(expect.arrayContaining(answers));
  const refusal = lines.find((line) => line['id'] === 'r') as { error: { message: string } };
  expect(refusal.error.message).toContain(
    `To allow the tool "delete" under /mcp/tools/call, issue another root.jwt (as ${agent.principal.did}): it counts at once.`,
  );
});

it('signs arguments of 1 MB for a guard, and says how much is too much, under the id of the call', async () => {
  const root = ['guard', '--trusted-root', agent.principal.did, '--tool-server', TOOL_SERVER, '--'];
  const { child, stdout, ended } = run(process.execPath, MAIN, ...root, ...ECHO);
  // As both SDKs write it: the id comes last.
  const call = (id: unknown, size: number) =>
    JSON.stringify({
      ...{ method: 'tools/call', params: { name: 'search', arguments: { id: 'x', text: 'y'.repeat(size) } } },
      ...{ jsonrpc: '2.0', id },
    });
  child.stdin.end(`${call(1, 1_000_000)}\n${call(2, 5_000_000)}\n${call('3', 17_000_000)}\n`);
  expect(await ended).toEqual([0, null]);
  const lines = (await stdout).trim().split('\n');
  const answers = lines.map((line) => JSON.parse(line) as Said).filter(({ id }) => id !== undefined);
  expect(answers.find(({ id }) => id === 1)).toMatchObject({ result: {} });
  const text = 'your arguments are 5.00 MB, and at most 4.19 MB can be signed';
  expect(answers.find(({ id }) => id === 2)?.error?.message).toContain(text);
  expect(answers.find(({ id }) => id === '3')?.error?.message).toContain('at most 4.19 MB can be signed');
});

it('hands through the exit code, standard error and signals, and does not outlive its child', async () => {
  // A shell would wait in a program of its own, which may miss the signal while it starts, and keep standard error open.
  const { child, stderr, ended } = run(
    process.execPath,
    '-e',
    `const say = (word) => require('node:fs').writeSync(2, word + '\\n');
     process.on('SIGTERM', () => { say('told'); process.kill(process.pid, 'SIGKILL'); });
     setInterval(() => undefined, 1000);
     say('up');`,
  );
  await Promise.race([once(child.stderr, 'data'), ended]);
  child.kill('SIGTERM');
  expect([await ended, await stderr]).toEqual([[null, 'SIGKILL'], 'up\ntold\n']);
  const other = run('sh', '-c', 'exit 7');
  expect(await other.ended).toEqual([7, null]);
});

it('ends its child when it is killed: what the child reads ends', async () => {
  const { child, stdout, ended } = run('sh', '-c', `echo up; cat; touch ${agent.path('ended')}`);
  await Promise.race([once(child.stdout, 'data'), ended]);
  child.kill('SIGKILL');
  expect(await ended).toEqual([null, 'SIGKILL']);
  await stdout;
  await eventually(() => expect(existsSync(agent.path('ended'))).toBe(true));
});

it('refuses a key that others can read, before anything runs', async () => {
  chmodSync(agent.keyFile, 0o640);
  const { ended, stderr } = run('touch', agent.path('ran'));
  expect(await ended).toEqual([2, null]);
  expect(await stderr).toContain('its permissions are 0640, expected 0600');
  await expect(readKeyFile(agent.keyFile, { isPrivate: 'group' })).resolves.toMatchObject({
    did: agent.key.did,
  });
  chmodSync(agent.keyFile, 0o660);
  await expect(readKeyFile(agent.keyFile, { isPrivate: 'group' })).rejects.toThrow('permissions are 0660');
  chmodSync(agent.keyFile, 0o600);
  writeFileSync(agent.path('bad.jwt'), 'no chain');
  await expect(agent.delegations([agent.path('bad.jwt')])).rejects.toThrow('is not a chain of receipts');
});

it('keeps a record of what it signed, and of what it did not', async () => {
  const record = agent.path('signed.jsonl');
  const call = (id: number, name: string) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name, arguments: { q: 's3cret' } },
    });
  const args = [...agent.options(chain), '--record', record, '--', 'cat'];
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['pipe', 'ignore', 'inherit'] });
  child.stdin.end(`${call(1, 'search')}\n${call(2, 'delete')}\n${call(3, 'search')}\n`);
  expect(await once(child, 'exit')).toEqual([0, null]);
  const written = readFileSync(record, 'utf8');
  const lines = parse(written);
  for (const line of lines) expect(kindOf(line)).toEqual(['signing']);
  const who = { agent: agent.key.did, command: '/mcp/tools/call', toolServer: TOOL_SERVER };
  const signed = {
    ...{ ...who, tool: 'search', rootPrincipal: agent.principal.did, delegates: [agent.key.did] },
    receipts: [digestOf(readFileSync(chain, 'utf8').trimEnd())],
  };
  const message = expect.stringContaining('args.tool is "delete"') as string;
  const refused = { ...who, tool: 'delete', code: 'POLICY_VIOLATION', message, jti: null };
  expect(lines).toMatchObject([signed, refused, signed]);
  expect(written).not.toContain('s3cret');
  expect(statSync(record).mode & 0o027).toBe(0);
});

it('does not start with a record that it cannot write', async () => {
  const child = spawn(process.execPath, [MAIN, ...agent.options(chain), '--record', '/no/file', '--', 'cat']);
  const said = await text(child.stderr);
  expect(said).toMatch(/cannot write the record \/no\/file: ENOENT.*\n {2}hint: name a file/s);
});
