import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeBundle, signClaims } from '../../src/issue/index.js';
import { sshAgentSigner } from '../../src/issue/ssh-agent.js';
import { didKeyOf } from '../../src/protocol/did-key.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { ended } from '../support/child.js';
import { needs } from '../support/programs.js';
import { createWorkplace, type Workplace } from './drs.js';

const KEY_TYPE = 'ssh-ed25519';

/** A `string` of RFC 4251 §5: its length in four bytes, then the bytes. */
function stringOf(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

let work: Workplace;
beforeAll(async () => {
  work = await createWorkplace();
});

describe('a real ssh-agent', needs('ssh-agent'), () => {
  let env: Record<string, string>;
  const ssh = (command: string, ...args: string[]) => {
    const options = {
      cwd: work.directory,
      env: { PATH: process.env['PATH'], ...env },
      encoding: 'utf8',
    } as const;
    const { status, stdout, stderr } = spawnSync(command, args, options);
    if (status !== 0) throw new Error(`${command} ended with ${status}: ${stderr}`);
    return stdout;
  };
  /** The DID of a public key in the format of OpenSSH. */
  const didOf = (file: string) =>
    didKeyOf(Buffer.from(readFileSync(work.path(file), 'utf8').split(' ')[1] ?? '', 'base64').subarray(-32));

  beforeAll(() => {
    env = { SSH_AUTH_SOCK: work.path('agent.sock') };
    const [, pid] =
      /SSH_AGENT_PID=(\d+)/.exec(ssh('ssh-agent', '-s', '-a', env['SSH_AUTH_SOCK'] ?? '')) ?? [];
    env['SSH_AGENT_PID'] = pid ?? '';
    for (const [type, name] of [
      ['ed25519', 'alice@example.org'],
      ['ed25519', 'bot'],
      ['ecdsa', 'other'],
    ] as const) {
      ssh('ssh-keygen', '-q', '-t', type, '-N', '', '-C', name, '-f', name);
      ssh('ssh-add', '-q', name);
    }
  });
  afterAll(() => ssh('ssh-agent', '-k'));

  it('signs delegations and calls of the command, that a verifier accepts', async () => {
    const [alice, bot] = [didOf('alice@example.org.pub'), didOf('bot.pub')];
    const drs = async (...args: string[]) => {
      const { code, stderr } = await work.drs(args, { env });
      expect({ code, stderr }).toMatchObject({ code: 0 });
    };
    await drs(
      'issue',
      '--agent',
      'alice@example.org',
      '--to',
      bot,
      '--tool',
      'search',
      '--yes',
      '-o',
      'root.jwt',
    );
    await drs(
      'delegate',
      '--agent',
      bot,
      '--chain',
      'root.jwt',
      '--to',
      alice,
      '--max-cost',
      '1',
      '-o',
      'sub.jwt',
    );
    const call = [
      '--tool-server',
      'https://tools.example',
      '--args',
      '{"tool":"search","estimated_cost_usd":1}',
    ];
    await drs('invoke', '--agent', alice, '--chain', 'sub.jwt', ...call, '-o', 'bundle.json');
    const verifier = createVerifier({ workerThreads: 0, trustedRoots: [alice] });
    const verdict = await verifier.verify(JSON.parse(await work.read('bundle.json')), {
      body: { tool: 'search', estimated_cost_usd: 1 },
    });
    await verifier.close();
    expect(verdict).toMatchObject({ valid: true, binding: 'match' });
  });

  it.each([
    [['--agent'], 'expected one Ed25519 key in the ssh-agent, found did:key:'],
    [['--agent', 'other'], 'expected the key "other" in the ssh-agent, found did:key:'],
    [[], 'there is no key to sign with'],
    [['--agent', 'bot', '--key', 'bot.key'], 'there are two keys to sign with'],
  ])('is not guessed at: %j', async (who, message) => {
    const { code, stderr } = await work.drs(
      ['issue', '--to', didOf('bot.pub'), '--tool', 'a', '--yes', ...who],
      { env },
    );
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) as string });
  });

  it('signs for a host that was told so, until it refuses: then nothing is sent', async () => {
    const [alice, bot] = [didOf('alice@example.org.pub'), didOf('bot.pub')];
    const issued = await work.drs(
      ['issue', '--agent', alice, '--to', bot, '--tool', 'search', '--yes', '-o', 'for-bot.jwt'],
      { env },
    );
    expect(issued.code).toBe(0);
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search', arguments: {} } };
    const host = async (...who: string[]) => {
      const chain = ['--chain', 'for-bot.jwt', '--tool-server', 'https://tools.example', '--', 'cat'];
      const { code, stdout, stderr } = await work.drs(['host', 'cursor', ...who, ...chain], { env });
      return code === 0 ? stdout : stderr;
    };
    expect(await host('--agent', 'nobody')).toContain('expected the key "nobody" in the ssh-agent');
    expect(await host('--agent', alice)).toContain('for-bot.jwt');
    expect(await host('--agent', 'bot', '--agent-socket', 'nowhere')).toMatch(/at nowhere.*ENOENT/);
    expect(await host('--key', 'bot', '--agent-socket', 'x')).toContain('--agent-socket is for --agent');
    // A host hands on neither its folder nor SSH_AUTH_SOCK.
    const { mcpServers } = JSON.parse(await host('--agent', 'bot')) as {
      mcpServers: { drs: { command: string; args: string[] } };
    };
    const { command, args } = mcpServers.drs;
    const child = spawn(command, args, { cwd: '/', env: { PATH: process.env['PATH'] } });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const sent = async () => {
      child.stdin.write(`${JSON.stringify(call)}\n`);
      return JSON.parse(String((await lines.next()).value)) as {
        params?: { _meta?: Record<string, string> };
        error?: { message: string };
      };
    };
    const bundle = decodeBundle((await sent()).params?._meta?.['X-DRS-Bundle'] ?? '');
    const verifier = createVerifier({ workerThreads: 0, trustedRoots: [alice] });
    const verdict = await verifier.verify(bundle, { body: { tool: 'search' } });
    await verifier.close();
    expect(verdict).toMatchObject({ valid: true, binding: 'match' });
    ssh('ssh-add', '-q', '-d', 'bot.pub');
    expect((await sent()).error?.message).toMatch(
      /^DRS: INVALID_KEY: not sent, since it was not signed: .* refused/,
    );
    ssh('ssh-add', '-q', 'bot');
    expect((await sent()).params?._meta).toHaveProperty('X-DRS-Bundle');
    child.stdin.end();
    expect(await ended(child)).toEqual([0, null]);
  });

  it('that is locked has no key', async () => {
    const lock = (flag: string) =>
      spawnSync('ssh-add', [flag], {
        env: {
          ...env,
          PATH: process.env['PATH'],
          SSH_ASKPASS: work.path('askpass'),
          SSH_ASKPASS_REQUIRE: 'force',
        },
      }).status;
    await work.write('askpass', '#!/bin/sh\necho secret\n');
    spawnSync('chmod', ['+x', work.path('askpass')]);
    const signer = await sshAgentSigner({ key: 'bot', socket: env['SSH_AUTH_SOCK'] ?? '' });
    expect(lock('-x')).toBe(0);
    await expect(sshAgentSigner({ socket: env['SSH_AUTH_SOCK'] ?? '' })).rejects.toThrow(
      'expected one Ed25519 key in the ssh-agent, found none',
    );
    await expect(signer.sign(Buffer.from('x'))).rejects.toThrow('it refused');
    expect(lock('-X')).toBe(0);
    expect(await signer.sign(Buffer.from('x'))).toHaveLength(64);
  });
});

describe('what answers in the place of an agent', () => {
  const blob = Buffer.concat([stringOf(KEY_TYPE), stringOf(Buffer.alloc(32, 1))]);
  const identities = (count: number, ...parts: Buffer[]) =>
    stringOf(Buffer.concat([Buffer.from([12, 0, 0, 0, count]), ...parts]));
  const comment = stringOf('a');
  const good = identities(1, stringOf(blob), comment);

  /** A signer whose agent answers the first question with the first of these bytes, and so on. */
  async function signerOf(...answers: Buffer[]) {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => {
        const answer = answers.shift() ?? Buffer.alloc(0);
        if (answer.length === 0) socket.destroy();
        else socket.write(answer);
      });
    });
    const path = work.path(`agent-${Math.random().toString(36).slice(2)}.sock`);
    await once(server.listen(path), 'listening');
    try {
      return await signClaims({ any: 'claims' }, await sshAgentSigner({ socket: path }));
    } finally {
      server.close();
    }
  }

  it.each([
    ['nothing', Buffer.alloc(0), 'it closed the connection'],
    ['an empty message', Buffer.alloc(4), '0 bytes, expected 1 to 262144'],
    [
      'a message without end',
      Buffer.from([0xff, 0xff, 0xff, 0xff, 12]),
      '4294967295 bytes, expected 1 to 262144',
    ],
    ['two messages', Buffer.concat([good, good]), 'longer than it says'],
    ['a failure', stringOf(Buffer.of(5)), 'it refused'],
    ['another answer', stringOf(Buffer.of(6)), 'has the number 6, expected 12'],
    ['fewer keys than it says', identities(2, stringOf(blob), comment), 'expected two for each of 2 keys'],
    ['a field that is cut', identities(1, stringOf(blob), comment.subarray(0, -1)), 'ends too early'],
    [
      'more keys than it says',
      identities(0, stringOf(blob), comment),
      'has 2 fields, expected two for each of 0',
    ],
    [
      'a key that is too short',
      identities(1, stringOf(Buffer.concat([stringOf(KEY_TYPE), stringOf(Buffer.alloc(31))])), comment),
      'an Ed25519 public key has 32 bytes; this one has 31',
    ],
  ])('is refused if it answers %s', async (_, answer, message) => {
    await expect(signerOf(answer)).rejects.toMatchObject({
      code: 'INVALID_KEY',
      message: expect.stringContaining(message) as string,
    });
  });

  it('has one key where it lists it twice', async () => {
    const twice = identities(2, stringOf(blob), comment, stringOf(blob), stringOf('b'));
    await expect(signerOf(twice, stringOf(Buffer.of(5)))).rejects.toThrow('it refused');
    const other = Buffer.concat([stringOf(KEY_TYPE), stringOf(Buffer.alloc(32, 2))]);
    const two = identities(2, stringOf(blob), comment, stringOf(other), comment);
    await expect(signerOf(two)).rejects.toThrow('expected one Ed25519 key');
  });

  it.each([
    ['of another type', Buffer.concat([stringOf('ssh-rsa'), stringOf(Buffer.alloc(64))]), 'does not verify'],
    ['none', stringOf(KEY_TYPE), 'gave 0 bytes'],
    ['too short', Buffer.concat([stringOf(KEY_TYPE), stringOf(Buffer.alloc(63))]), '63 bytes'],
    [
      'with more behind it',
      Buffer.concat([stringOf(KEY_TYPE), stringOf(Buffer.alloc(64)), Buffer.of(0)]),
      'ends too early',
    ],
  ])('is refused if its signature is %s', async (_, signature, message) => {
    const answer = stringOf(Buffer.concat([Buffer.of(14), stringOf(signature)]));
    await expect(signerOf(good, answer)).rejects.toThrow(message);
  });

  it('is named if it is not there', async () => {
    await expect(sshAgentSigner({ socket: work.path('nowhere') })).rejects.toThrow('ENOENT');
  });
});
