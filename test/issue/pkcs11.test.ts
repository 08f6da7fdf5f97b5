import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { generateKey, issueInvocation } from '../../src/issue/index.js';
import { linkExample } from '../support/examples.js';
import { needs } from '../support/programs.js';

const MODULE = '/usr/lib/softhsm/libsofthsm2.so';
const PIN = '1234';
const example = linkExample('pkcs11-signer');
const token = needs('softhsm2-util', 'pkcs11-tool', 'pkcs11js');
describe('the example pkcs11-signer', { ...token, shuffle: false }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-hsm-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  mkdirSync(path.join(folder, 'tokens'));
  writeFileSync(path.join(folder, 'conf'), `directories.tokendir = ${folder}/tokens\n`);
  const run = (command: string, ...args: string[]) => {
    const env = { ...process.env, SOFTHSM2_CONF: path.join(folder, 'conf') };
    const token = { PKCS11_MODULE: MODULE, PKCS11_PIN: PIN };
    return spawnSync(command, args, { cwd: example, env: { ...env, ...token }, encoding: 'utf8' });
  };
  const makeKey = (type: string) => {
    const token = ['--module', MODULE, '--token-label', 'drs', '--pin', PIN];
    return run('pkcs11-tool', ...token, '--keypairgen', '--key-type', type, '--label', 'alice').status;
  };

  it('issues with a key that stays in the token what a verifier accepts', async () => {
    expect(
      run('softhsm2-util', '--init-token', '--free', '--label', 'drs', '--pin', PIN, '--so-pin', PIN),
    ).toMatchObject({ status: 0 });
    expect(makeKey('EC:edwards25519')).toBe(0);
    const bot = generateKey();
    const { stdout, stderr } = run(process.execPath, 'issue.js', bot.did);
    expect(stderr).toBe('');
    // It refuses a chain whose signature does not verify.
    const call = { key: bot, chain: [stdout.trim()], args: { tool: 'search' } };
    expect(await issueInvocation({ ...call, toolServer: 'https://tools.example' })).toMatch(/^eyJ/);
  });

  it('chooses no key by itself', () => {
    expect(makeKey('EC:edwards25519')).toBe(0);
    expect(run(process.execPath, 'issue.js', generateKey().did).stderr).toContain('or several');
  });
});
