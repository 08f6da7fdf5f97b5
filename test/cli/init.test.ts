import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { differenceOf } from '../../src/cli/init/difference.js';
import { isSigned, programOf, signedEntry } from '../../src/cli/init/entry.js';
import { changeEntry, findEntry } from '../../src/cli/init/host-file.js';
import { encryptKey, readKeyFile } from '../../src/cli/key-file.js';
import { generateKey } from '../../src/issue/index.js';
import { sodium } from '../../src/signatures/sodium.js';
import type { JsonObject } from '../../src/protocol/json.js';
import { createChain, MAIN, type Workplace } from './drs.js';

const HOST = `{
    // What my host starts.
    "theme": "dark",
    "mcpServers": {
        "files": { "command": "npx", "args": ["-y", "server", "/data"], "env": {"A": "b"}, "disabled": false },
        "web": {
            "type": "http",
            "url": "https://tools.example/mcp", // the web
            "headers": { "Authorization": "Bearer secret", "X-Team": "7" }
        },
    }
}
`;
const by = {
  program: ['node', '/drs.mjs'],
  signer: ['--key', '/bot.key'],
  chain: ['/a.jwt', '/b.jwt'],
  toolServer: 'did:key:z',
} as const;
const CHAINS = ['--chain', '/a.jwt', '--chain', '/b.jwt'];
const SIGN = ['/drs.mjs', 'sign', '--key', '/bot.key', ...CHAINS, '--tool-server', 'did:key:z'];

describe('an entry of a host', () => {
  it('with a command runs through sign', () => {
    const change = signedEntry('x', { command: 'npx', args: ['-y', 's'] }, by);
    expect(change).toEqual({ command: 'node', args: [...SIGN, 'npx', '-y', 's'] });
  });

  it('with a URL runs through sign, and keeps its headers where no other user of the machine sees them', () => {
    const entry = {
      type: 'http',
      url: 'https://t.example/mcp',
      headers: { Authorization: 'Bearer s' },
      timeout: 5,
    };
    expect(signedEntry('x', entry, by)).toEqual({
      ...{ type: 'stdio', url: undefined, headers: undefined, command: 'node' },
      args: [
        ...[...SIGN, '--to', 'https://t.example/mcp'],
        ...['--header-env', 'Authorization: DRS_HEADER_1'],
      ],
      env: { DRS_HEADER_1: 'Bearer s' },
    });
  });

  it.each<[string, JsonObject]>([
    ['runs through drs-verify already', { command: 'npx', args: ['drs-verify', 'sign', '--key', 'a'] }],
    ['runs through drs-verify already', { command: 'npx', args: ['drs-verify', 'sign', '--agent', 'a'] }],
    ['neither a command nor a url', {}],
    ['neither a command nor a url, or both', { command: 'a', url: 'https://a.example' }],
    ['args that is not an array of strings', { command: 'a', args: [1] }],
    ['env that is not an object of strings', { command: 'a', env: { a: 1 } }],
    ['headers that is not an object of strings', { url: 'https://a.example', headers: ['a'] }],
    ['the type "sse"', { url: 'https://a.example', type: 'sse' }],
    ['the type "http"', { command: 'a', type: 'http' }],
    ['a member oauth', { url: 'https://a.example', oauth: {} }],
  ])('is refused by name: %s', (message, entry) => {
    expect(() => signedEntry('x', entry, by)).toThrow(message);
  });

  it('is changed, and all else of the file stays', () => {
    const text = changeEntry(HOST, 'files', { command: 'node', args: ['a'] });
    expect(
      text.replace(
        /"command": "node", "args": \[\s*"a"\s*\]/,
        '"command": "npx", "args": ["-y", "server", "/data"]',
      ),
    ).toBe(HOST);
    expect(isSigned({ command: 'drs-verify', args: ['sign', '--key', 'a'] })).toBe(true);
    expect(isSigned({ command: 'git', args: ['sign', '--key', 'a'] })).toBe(false);
  });

  it.each([
    ['has no object mcpServers; it has servers', '{"servers":{}}', 'a'],
    ['has the servers "a", "b"', '{"mcpServers":{"a":{},"b":{}}}', undefined],
    ['has no server "c"', '{"mcpServers":{"a":{}}}', 'c'],
    ['more than one server "a"', '{"mcpServers":{"a":{},"a":{}}}', 'a'],
    ['that is not an object', '{"mcpServers":{"a":1}}', undefined],
    ['has the member "mcpServers" more', '{"mcpServers":{"a":{}},"mcpServers":{"b":{}}}', undefined],
    ['has the member "command" more', '{"mcpServers":{"a":{"command":"x","command":"y"}}}', 'a'],
    ['is not JSON', '{"mcpServers":', 'a'],
  ])('is looked for: %s', (message, text, name) => {
    expect(() => findEntry({ file: 'f', text }, name)).toThrow(message);
  });

  it('names npx, where the files of npx run', () => {
    expect(programOf(['/node', '/home/a/.npm/_npx/1/node_modules/.bin/drs-verify'])[0]).toBe('npx');
    expect(programOf(['/node', '/lib/drs.mjs'])).toEqual(['/node', '/lib/drs.mjs']);
  });
});

it('shows the lines that differ, and what is around them', () => {
  expect(differenceOf('1\n2\n3\n4\n5\n6\n7', '1\n2\n3\n4\n\u001b!\n6\n7')).toEqual([
    '  2',
    '  3',
    '  4',
    '- 5',
    '+ \\u{1b}!',
    '  6',
    '  7',
  ]);
});

describe('drs-verify init', () => {
  let work: Workplace;
  const files = () => readdirSync(work.directory).filter((name) => name.startsWith('mcp.json'));
  beforeAll(async () => {
    work = await createChain();
    await work.write('mcp.json', HOST);
    chmodSync(work.path('mcp.json'), 0o640);
    symlinkSync('mcp.json', work.path('link.json'));
  });

  it('asks, changes an entry, keeps a copy, and takes it back', async () => {
    const init = ['init', 'link.json', '--server', 'web', '--key', 'helper.key', '--chain', 'helper.jwt'];
    const asked = await work.drs(init);
    expect(asked).toMatchObject({
      code: 2,
      stdout: expect.stringContaining('-             "url"') as unknown,
    });
    expect(asked.stderr).toContain('add --yes');
    expect(files()).toEqual(['mcp.json']);

    await work.done(...init, '--yes');
    const text = await work.read('mcp.json');
    expect(text).toContain(`"${MAIN}"`);
    expect(text).toContain('// What my host starts.');
    expect(files()).toEqual(['mcp.json', 'mcp.json.before-sign-web']);
    for (const file of files()) expect(statSync(work.path(file)).mode & 0o777).toBe(0o640);
    expect(await work.drs([...init, '--yes'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('runs through drs-verify already') as unknown,
    });

    // What else has changed since stays.
    await work.write('mcp.json', text.replace('dark', 'light'));
    await work.done('init', 'mcp.json', '--server', 'web', '--undo', '--yes');
    expect(await work.read('mcp.json')).toBe(HOST.replace('dark', 'light'));
    expect(files()).toEqual(['mcp.json']);
  });

  it.each(['/dev/null', '/dev/zero'])('takes no chain from what is not a file: %s', async (chain) => {
    const { code, stderr } = await work.drs([
      ...['init', 'mcp.json', '--server', 'web', '--key', 'helper.key', '--chain', chain],
    ]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(`${chain} is not a file, expected a chain`) as string,
    ]);
  });

  it('names the command that takes it back as a shell reads it', async () => {
    await work.write('odd.json', JSON.stringify({ mcpServers: { "Bob's files": { command: 'cat' } } }));
    const { stderr } = await work.done(
      ...['init', 'odd.json', '--key', 'helper.key', '--chain', 'helper.jwt', '--yes'],
    );
    expect(stderr).toContain(String.raw`--server 'Bob'\''s files' --undo`);
  });

  it.each([
    ['files', 'stdio:files'],
    ['web', 'https://tools.example/mcp'],
  ])('names the server for which calls are signed: %s', async (server, name) => {
    const { stdout, stderr } = await work.drs([
      ...['init', 'mcp.json', '--server', server, '--key', 'helper.key', '--chain', 'helper.jwt', '--yes'],
    ]);
    expect(stdout.replace(/\n\+ +/g, ' ')).toContain(`"--tool-server", "${name}"`);
    expect(stderr).toContain(`signed for the tool server ${name}: what verifies them must`);
    await work.done('init', 'mcp.json', '--server', server, '--undo', '--yes');
  });
});

describe('a private key', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-key-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string, mode = 0o600) => {
    const file = path.join(folder, name);
    writeFileSync(file, text, { mode });
    chmodSync(file, mode);
    return file;
  };
  const key = generateKey();

  it('is read if only its owner can', async () => {
    const jwk = JSON.stringify(key.toJwk());
    await expect(readKeyFile(write('a', jwk), { isPrivate: true })).resolves.toMatchObject({ did: key.did });
    for (const mode of [0o604, 0o620, 0o644])
      await expect(readKeyFile(write('b', jwk, mode), { isPrivate: true })).rejects.toThrow('expected 0600');
  });

  it('is encrypted in the way that its file says, and in no other', async () => {
    const text = encryptKey(key, 'correct horse');
    const { encrypted, key: encoded } = JSON.parse(text) as { encrypted: string; key: string };
    expect(encrypted).toContain('argon2id13, 3 passes, 64 MiB');
    const bytes = Buffer.from(encoded, 'base64url');
    const secret = Buffer.alloc(32);
    const [salt, nonce, box] = [bytes.subarray(0, 16), bytes.subarray(16, 40), bytes.subarray(40)];
    sodium.crypto_pwhash(secret, Buffer.from('correct horse'), salt, 3, 64 << 20, 2);
    const jwk = Buffer.alloc(box.length - 16);
    expect(sodium.crypto_secretbox_open_easy(jwk, box, nonce, secret)).toBe(true);
    expect(JSON.parse(jwk.toString())).toEqual(key.toJwk());

    const passphraseFile = write('p', 'correct horse');
    for (const changed of [
      { encrypted, key: encoded, memory: 1 },
      { encrypted: encrypted.replace('64', '8'), key: encoded },
      { encrypted, key: bytes },
      { encrypted, key: bytes.fill(0, 60, 61).toString('base64url') },
      { encrypted, key: encoded.slice(0, 64) },
      { encrypted, key: '' },
      { encrypted, key: `${encoded}=` },
    ])
      await expect(
        readKeyFile(write('q', JSON.stringify(changed)), { passphraseFile }),
        JSON.stringify(changed),
      ).rejects.toThrow(/^(?:cannot decrypt .*q: |.*q is encrypted in another way)/);
  });

  it('is decrypted with a passphrase from a file or the environment, which no child gets', async () => {
    const file = write('c', encryptKey(key, 'correct horse'));
    expect(readFileSync(file, 'utf8')).not.toContain(key.toJwk().d);
    const passphraseFile = write('d', 'correct horse\n');
    await expect(readKeyFile(file, { passphraseFile })).resolves.toMatchObject({ did: key.did });
    process.env['DRS_KEY_PASSPHRASE'] = 'correct horse';
    await expect(readKeyFile(file)).resolves.toMatchObject({ did: key.did });
    expect(process.env['DRS_KEY_PASSPHRASE']).toBeUndefined();
    await expect(readKeyFile(file, { passphraseFile: write('e', 'wrong') })).rejects.toThrow(
      /cannot decrypt .*c: /,
    );
  });
});
