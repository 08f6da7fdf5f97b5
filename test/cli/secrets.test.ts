import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readHeaders } from '../../src/cli/commands/sign.js';
import { encryptKey, readKeyFile } from '../../src/cli/key-file.js';
import { generateKey } from '../../src/issue/index.js';
import { destinationOf } from '../../src/relay/http-target.js';
import { sodium } from '../../src/signatures/sodium.js';

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
    // Whoever issues, delegates or invokes asks for nothing.
    for (const options of [{}, { isPrivate: true } as const])
      for (const mode of [0o604, 0o620, 0o644])
        await expect(readKeyFile(write('b', jwk, mode), options)).rejects.toThrow('expected 0600');
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
      {
        encrypted,
        key: Buffer.from(bytes.map((byte, at) => (at === 60 ? byte ^ 1 : byte))).toString('base64url'),
      },
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

it('names what is wrong in --to and --header, without showing a secret', () => {
  const secret = 'hunter2';
  process.env['DRS_TEST_SECRET'] = `${secret}\n`;
  for (const wrong of [
    () => destinationOf(`https://a:${secret}@b.example`, 'mcp'),
    () => destinationOf('ftp://a.example', 'mcp'),
    () => readHeaders([`Host: ${secret}`], []),
    () => readHeaders([secret], []),
    () => readHeaders([`A: ${secret}`, `a: ${secret}`], []),
    () => readHeaders([], ['A: DRS_TEST_SECRET']),
    () => readHeaders([], ['A: DRS_TEST_UNSET']),
  ]) {
    expect(wrong).toThrow(/^--(?:to|header)/);
    expect(wrong).not.toThrow(secret);
  }
  delete process.env['DRS_TEST_SECRET'];
  expect(readHeaders(['Authorization: Bearer x'], [])).toEqual({ authorization: 'Bearer x' });
});
