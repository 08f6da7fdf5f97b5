import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noteKeyOf } from '../../src/log/checkpoint.js';
import { openLineFile } from '../../src/log/line-file.js';

const log = pino({ level: 'silent' });

describe('a file of lines', () => {
  let folder = '';
  beforeAll(async () => (folder = await mkdtemp(path.join(tmpdir(), 'drs-lines-'))));
  afterAll(() => rm(folder, { recursive: true }));

  it('appends, and writes what is left when it is closed', async () => {
    const file = path.join(folder, 'plain');
    for (const part of ['a', 'b']) {
      const lines = await openLineFile(file, log);
      for (let line = 0; line < 3000; line++) lines.write(`${part}${line}${'.'.repeat(100)}`);
      await lines.close();
      lines.write('too late');
      expect(lines.counts).toEqual({ written: 3000, dropped: 1 });
    }
    const text = await readFile(file, 'utf8');
    const expected = ['a', 'b'].flatMap((part) =>
      Array.from({ length: 3000 }, (_, line) => `${part}${line}${'.'.repeat(100)}`),
    );
    expect(text.split('\n')).toEqual([...expected, '']);
  });

  it('drops lines whole once 4 MiB wait, and counts them', async () => {
    const file = path.join(folder, 'slow');
    const lines = await openLineFile(file, log);
    // Nothing is written before this turn of the event loop ends.
    for (let line = 0; line < 8000; line++) lines.write(`${line} ${'x'.repeat(1000)}`);
    await lines.close();
    const kept = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
    expect(kept.length).toBeGreaterThan(4000);
    expect(lines.counts).toEqual({ written: kept.length, dropped: 8000 - kept.length });
    for (const [at, line] of kept.entries()) expect(line).toBe(`${at} ${'x'.repeat(1000)}`);
  });

  it('is of one process if it is sealed, and says who has it', async () => {
    const file = path.join(folder, 'sealed');
    const key = noteKeyOf('A'.repeat(43));
    const lines = await openLineFile(file, log, key);
    const another = openLineFile(file, log, key);
    await expect(another).rejects.toThrow(`sealed is in use by process ${process.pid}`);
    await expect(another).rejects.toThrow('give each instance a DECISION_LOG of its own');
    await lines.close();
    await (await openLineFile(file, log, key)).close();
  });

  it('is no named pipe, whose opening waits for a reader', async () => {
    const pipe = path.join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    await expect(openLineFile(pipe, log)).rejects.toThrow('no regular file');
  });
});
