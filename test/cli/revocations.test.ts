import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lockFile } from '../../src/files/locked-file.js';
import { ENTRY_FILE } from '../../src/revocation/store/entry-file.js';
import { RedisServer } from '../usage/redis-server.js';
import { needs } from '../support/programs.js';

const EXPORTED = `{"status_list_index":3}
{"status_list_index":7,"reason":"leaked"}
{"status_list_index":9007199254740991}
{"did":"did:key:z1","reason":"stolen"}
`;
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

describe('drs revocations', { ...needs('redis-server'), shuffle: false }, () => {
  let redis: RedisServer;
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-revocations-'));
  const file = path.join(folder, 'revoked.txt');
  const run = (...args: string[]) => {
    const env = { PATH: process.env['PATH'], REDIS_URL: redis.url };
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'revocations', ...args], {
      env,
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  };
  beforeAll(async () => {
    redis = await RedisServer.start('--appendonly', 'yes');
  });
  afterAll(async () => {
    await redis.stop();
    rmSync(folder, { recursive: true });
  });

  it('moves a file to Redis and back, once', () => {
    const text = [
      '{"status_list_index":9007199254740991}',
      '{"status_list_index":7,"reason":"leaked"}',
      '{"status_list_index":3}',
      '{"status_list_index":7}',
      ' {"did":"did:key:z1","reason":"stolen"}\n',
    ].join('\n');
    writeFileSync(file, text);
    expect(run('import', file)).toMatchObject({
      status: 0,
      stdout: 'imported: 4 of 4 entries were new to Redis\n',
    });
    expect(run('import', file).stdout).toBe('imported: 0 of 4 entries were new to Redis\n');
    expect(run('export')).toMatchObject({ status: 0, stdout: EXPORTED });
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  it('says what it cannot read or reach, and leaves no lock for a file that is not there', () => {
    const missing = path.join(folder, 'missing');
    expect(run('import', missing)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(`cannot read revocations from ${missing}: no such file`) as string,
    });
    expect(existsSync(`${missing}.lock`)).toBe(false);
    const { stderr } = spawnSync(process.execPath, [MAIN, 'revocations', 'export'], {
      env: { PATH: process.env['PATH'], REDIS_URL: 'redis://:secret@127.0.0.1:1' },
      encoding: 'utf8',
    });
    expect(stderr).toMatch(
      /: cannot connect to Redis at redis:\/\/127\.0\.0\.1:1: .*ECONNREFUSED.*; start it/,
    );
    expect(stderr).not.toContain('secret');
  });

  it('imports nothing of a file that is damaged, or that a service has open', async () => {
    const [line, other] = ['{"status_list_index":11}\n', '{"status_list_index":12}'];
    writeFileSync(file, `${line}nonsense\n${other}\n`);
    expect(run('import', file)).toMatchObject({
      stderr: expect.stringContaining(`${file}:2 is no entry`) as string,
    });
    for (const tail of [other, '{"sta']) {
      writeFileSync(file, line + tail);
      expect(run('import', file).stderr).toContain('its last line has no line feed');
    }
    writeFileSync(file, line);
    const lock = await lockFile(file, ENTRY_FILE);
    const locked = run('import', file);
    expect([locked.status, locked.stderr]).toEqual([
      2,
      expect.stringContaining(`is in use by process ${process.pid} on`),
    ]);
    await lock.close();
    expect(run('export').stdout).toBe(EXPORTED);
  });
});
