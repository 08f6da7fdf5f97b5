import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { hasEnded } from '../support/child.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const PARTS = [
  ...['dist', 'src', 'web', 'scripts', 'docs/openapi.yaml'],
  ...['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'],
];

/** Of dist/, declarations and maps are most files, and nothing reads them. */
const isRead = (file: string) => !/\/dist\/.*\.(?:map|d\.ts)$/.test(file);

let folder: string;
let running: ChildProcess | null = null;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-dev-'));
  for (const part of PARTS)
    cpSync(path.join(root, part), path.join(folder, part), { recursive: true, filter: isRead });
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'), 'dir');
});
afterEach(async () => {
  if (running !== null && !hasEnded(running)) {
    running.kill();
    await once(running, 'close');
  }
  rmSync(folder, { recursive: true, force: true });
});

it('npm run dev starts the service again with what has changed, and ends all it started', async () => {
  const child = spawn(process.execPath, ['scripts/dev.mjs'], {
    cwd: folder,
    // A compiler that collects no garbage takes a third less.
    env: { PATH: process.env['PATH'], PORT: '0', GOGC: 'off' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  running = child;
  // It closes only when the service, which has the same output, has ended as well.
  const closed = once(child, 'close') as Promise<[number | null]>;
  const told: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'this is new') told.push(line);
    if (!line.includes('"msg":"listening"')) continue;
    told.push('listening');
    if (told.includes('this is new')) child.kill('SIGINT');
    else appendFileSync(path.join(folder, 'src/service/main.ts'), "\nconsole.log('this is new');\n");
  }
  expect((await closed)[0]).toBe(0);
  expect(told).toEqual(['listening', 'this is new', 'listening']);
});
