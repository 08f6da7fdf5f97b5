import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lockFile } from '../../src/files/file-lock.js';
import { ENTRY_FILE } from '../../src/revocation/store/entry-file.js';
import { connectRedis } from '../../src/redis/connection.js';
import { RedisServer } from '../usage/redis-server.js';
import { MAIN, startService } from './drs.js';
import { needs } from '../support/programs.js';

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
    redis = await RedisServer.startNew('--appendonly', 'yes');
  });
  afterAll(async () => {
    await redis.stop();
    rmSync(folder, { recursive: true });
  });

  /** What a service lists that has these settings. */
  const listedBy = async (settings: Record<string, string>) => {
    const token = { DRS_ADMIN_TOKEN: 'the-token-of-this-test' };
    const service = await startService({ ...token, ...settings });
    try {
      // As where `/admin` is on an address of its own.
      const env = { PATH: process.env['PATH'], ...token, DRS_ADMIN_URL: service.url };
      const list = [MAIN, 'revocations', 'list'];
      const { stdout } = await promisify(execFile)(process.execPath, list, { env });
      return stdout.split('\n').slice(0, -1).toSorted();
    } finally {
      await service.stop();
    }
  };

  it('moves a file to Redis and back, once', async () => {
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
    expect(readFileSync(file, 'utf8')).toBe(text);
    const listed = await listedBy({ REVOCATION_STORE: 'redis', REDIS_URL: redis.url });
    expect(listed).toEqual([
      '{"did":"did:key:z1","reason":"stolen"}',
      '{"status_list_index":3}',
      '{"status_list_index":7,"reason":"leaked"}',
      '{"status_list_index":9007199254740991}',
    ]);
    // The way back: the keys go, and the list is a file for a service, and for an import.
    const back = path.join(folder, 'back.txt');
    writeFileSync(back, listed.map((line) => `${line}\n`).join(''));
    const connection = await connectRedis(redis.url);
    for (let key; (key = await connection.find('{drs:revocations}:*')) !== undefined;)
      await connection.send(key, ['DEL', key]);
    expect(await connection.find('*')).toBeUndefined();
    connection.destroy();
    expect(await listedBy({ REVOCATION_STORE_PATH: back })).toEqual(listed);
    expect(run('import', back).stdout).toBe('imported: 4 of 4 entries were new to Redis\n');
  });

  it('says what it cannot read or reach, and leaves no lock for a file that is not there', () => {
    const missing = path.join(folder, 'missing');
    expect(run('import', missing)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(`cannot read revocations from ${missing}: no such file`) as string,
    });
    expect(existsSync(`${missing}.lock`)).toBe(false);
    writeFileSync(file, '');
    const { stderr } = spawnSync(process.execPath, [MAIN, 'revocations', 'import', file], {
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
    expect(run('import', file).stdout).toBe('imported: 1 of 1 entries were new to Redis\n');
  });
});
