import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { mkdtemp, open, readFile, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LineFile } from '../../src/service/observe/logs/line-file.js';
import { eventually } from '../support/eventually.js';

const log = pino({ level: 'silent' });
const CHILD = fileURLToPath(new URL('line-file-child.mjs', import.meta.url));

describe('a file of lines', () => {
  let folder = '';
  beforeAll(async () => (folder = await mkdtemp(path.join(tmpdir(), 'drs-lines-'))));
  afterAll(() => rm(folder, { recursive: true }));

  it('appends, and writes what is left when it is closed', async () => {
    const file = path.join(folder, 'plain');
    for (const part of ['a', 'b']) {
      const lines = await LineFile.open(file, log);
      for (let line = 0; line < 3000; line++) lines.write(`${part}${line}${'.'.repeat(100)}`);
      await lines.close();
      expect([lines.written, lines.dropped]).toEqual([3000, 0]);
    }
    const text = await readFile(file, 'utf8');
    const expected = ['a', 'b'].flatMap((part) =>
      Array.from({ length: 3000 }, (_, line) => `${part}${line}${'.'.repeat(100)}`),
    );
    expect(text.split('\n')).toEqual([...expected, '']);
  });

  it('keeps nobody waiting for a reader that is slow: it drops lines whole, and counts them', async () => {
    const fifo = path.join(folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    await expect(LineFile.open(fifo, log)).rejects.toThrow('ENXIO');
    const reader = await open(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    const lines = await LineFile.open(fifo, log);
    const count = 8000;
    for (let line = 0; line < count; line++) lines.write(`${line} ${'x'.repeat(1000)}`);
    expect(lines.dropped).toBeGreaterThan(0);
    const dropped = lines.dropped;
    const cat = spawn('cat', [fifo], { stdio: ['ignore', 'pipe', 'inherit'] });
    // Listened for from the start: it may end before its end is waited for.
    const ended = once(cat, 'close');
    let text = '';
    cat.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await eventually(() => expect(lines.written + lines.dropped).toBe(count));
    expect(lines.dropped).toBe(dropped);
    await lines.close();
    await reader.close();
    await ended;
    const received = text.split('\n').slice(0, -1);
    expect(received).toHaveLength(count - dropped);
    for (const [at, line] of received.entries()) expect(line).toBe(`${at} ${'x'.repeat(1000)}`);
  });

  it('drops and counts what a full disk does not take, and says so', async () => {
    const said: string[] = [];
    const listening = pino({}, { write: (line: string) => void said.push(line) });
    const lines = await LineFile.open('/dev/full', listening);
    lines.write('a line');
    await eventually(() => expect(lines.dropped).toBe(1));
    await lines.close();
    expect([lines.written, said.length]).toEqual([0, 1]);
    expect(said[0]).toContain('ENOSPC');
  });

  it('begins a new line after one that a full disk took in part, also if nothing of the next was taken', async () => {
    const file = path.join(folder, 'limited');
    // A limit of 1,024 bytes for files does what a full disk does: a write is cut, the next one fails.
    const shell = ['-c', 'trap "" XFSZ; ulimit -f 1; exec "$0" "$@"', process.execPath, CHILD, file];
    const child = spawn('bash', shell, { stdio: ['pipe', 'pipe', 'inherit'] });
    const counts = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const write = async (line: string) => {
      child.stdin.write(`${line}\n`);
      return (await counts.next()).value as unknown;
    };
    expect(await write('a'.repeat(1000))).toBe('1 0');
    expect(await write('b'.repeat(100))).toBe('1 1');
    expect(await write('c')).toBe('1 2');
    await truncate(file, 1010);
    expect(await write('d')).toBe('2 2');
    child.stdin.end();
    await once(child, 'close');
    expect(await readFile(file, 'utf8')).toBe(`${'a'.repeat(1000)}\n${'b'.repeat(9)}\nd\n`);
  });
});
