import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { devNull, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { needs } from './support/programs.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FILES = {
  // So that none in a folder above is read. One process, as in this repository: to start one takes longer than its tests.
  'vitest.config.mjs': 'export default { test: { isolate: false, maxWorkers: 1 } };',
  'test/steady.test.ts': `
    import { expect, test } from 'vitest';
    import { one } from './helper.js';
    test('passes', () => expect(one).toBe(1));`,
  'test/helper.ts': `export { one } from './deep/number.js';`,
  'test/deep/number.ts': 'export const one = 1;',
  'test/zone.test.ts': `
    import { expect, test } from 'vitest';
    test('needs UTC', () => expect(new Date(0).getHours()).toBe(0));`,
  'test/late.test.ts': `
    import { test } from 'vitest';
    test('waits', async () => {
      const rejected = Promise.reject(new Error('nobody waits for it'));
      await new Promise((resolve) => setImmediate(resolve));
      await rejected.catch(() => undefined);
    });`,
};

describe('test:stress', needs('git'), () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-stress-'));
    mkdirSync(path.join(folder, 'test/deep'), { recursive: true });
    for (const [name, text] of Object.entries(FILES)) writeFileSync(path.join(folder, name), text);
    writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
    writeFileSync(path.join(folder, '.gitignore'), 'node_modules\nreports\n');
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
    git('init', '-q', '-b', 'main');
    git('add', '.');
    git('-c', 'user.name=t', '-c', 'user.email=t@t.invalid', 'commit', '-qm', 'all');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: folder, env: { ...process.env, GIT_CONFIG_GLOBAL: devNull } });

  function stress(...args: string[]): { status: number | null; text: string } {
    // As if this run were not one of vitest.
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^(VITEST|TEST_)/.test(name)),
    );
    const script = path.join(ROOT, 'scripts/test-stress.mjs');
    const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
      ...{ cwd: folder, encoding: 'utf8' as const },
      env: { ...env, TZ: 'UTC' },
    });
    return { status, text: stdout + stderr };
  }

  test('names what failed, how often, and how to repeat it', () => {
    const { status, text } = stress('--setting', 'shuffled', '--times', '2', '--seed', '4');
    expect(status).toBe(1);
    expect(text).toContain('2 of 2 times: test/zone.test.ts > needs UTC (shuffled)');
    expect(text).toContain('2 of 2 times: test/late.test.ts (shuffled)');
    expect(text).toMatch(
      /repeat: npm run test:stress -- --setting shuffled --seed 4 --times 1 test\/zone\.test\.ts\n/,
    );
    expect(text).not.toMatch(/times: test\/steady/);
  });

  test('--changed runs what a change touches, also by what a test imports, and passes where nothing fails', () => {
    const quick = ['--changed', '--setting', 'busy', '--times', '1'];
    expect(stress(...quick)).toEqual({ status: 0, text: 'no test file differs since main\n' });
    writeFileSync(path.join(folder, 'test/deep/number.ts'), 'export const one = 0 + 1;');
    const { status, text } = stress(...quick);
    expect([status, text]).toEqual([0, expect.stringContaining('1 test files, 1 runs; 1 times each: busy')]);
    expect(text).toContain('1 runs, 1 tests passed, 0 failed');
    const log = readFileSync(path.join(folder, 'reports/stress/0-busy.log'), 'utf8');
    expect(log).toContain('test/steady.test.ts');
  });

  test('says what it had no time for', () => {
    const { status, text } = stress('--setting', 'busy', '--times', '2', '--budget', '0.001', 'zone');
    expect(status).toBe(0);
    expect(text).toMatch(
      /left out, since the 0\.001 minutes are over: 2 of 2 runs\n {2}never busy: test\/zone\.test\.ts/,
    );
  });

  test('refuses what it does not know', () => {
    expect(stress('--setting', 'quiet')).toEqual({
      status: 2,
      text: expect.stringContaining('"quiet"') as string,
    });
    expect(stress('--times', '0')).toEqual({ status: 2, text: expect.stringContaining('"0"') as string });
    expect(stress('nowhere')).toEqual({ status: 2, text: 'no test file in nowhere\n' });
  });
});
