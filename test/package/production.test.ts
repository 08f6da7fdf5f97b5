import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ended } from '../support/child.js';
import { eventually } from '../support/eventually.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

describe('node scripts/drs.mjs serve after npm ci --omit=dev', () => {
  let folder: string;
  const at = (...parts: string[]) => path.join(folder, ...parts);

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-production-'));
    // Most files of a clone are read neither by set-up nor by the service.
    for (const part of ['src', 'web']) symlinkSync(path.join(root, part), at(part), 'dir');
    for (const part of ['dist', 'scripts', 'docs/openapi.yaml', 'package.json', 'package-lock.json'])
      cpSync(path.join(root, part), at(part), {
        recursive: true,
        filter: (file) => !/\.(?:map|d\.ts)$/.test(file),
      });
    for (const part of ['tsconfig.json', 'tsconfig.build.json']) cpSync(path.join(root, part), at(part));
    mkdirSync(at('node_modules'));
    writeFileSync(at('node_modules', '.package-lock.json'), '{}');
    const { dependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    for (const name of Object.keys(dependencies)) {
      mkdirSync(path.dirname(at('node_modules', name)), { recursive: true });
      symlinkSync(path.join(root, 'node_modules', name), at('node_modules', name), 'dir');
    }
    // If npm tried to fetch anything, the test would fail.
    mkdirSync(at('bin'));
    writeFileSync(at('bin', 'npm'), '#!/bin/sh\necho npm was called "$@" >&2\nexit 7\n', { mode: 0o755 });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Runs the service until it listens, then sends SIGTERM to the process that was started; or until it ends. */
  async function start(): Promise<{ listens: boolean; code: number | null; err: string }> {
    const env = { PATH: `${at('bin')}:${process.env['PATH']}`, PORT: '0' };
    const child = spawn(process.execPath, ['scripts/drs.mjs', 'serve'], { cwd: folder, env });
    const exit = once(child, 'exit') as Promise<[number | null]>;
    let err = '';
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    let listens = false;
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.includes('"msg":"listening"')) continue;
      listens = true;
      child.kill();
    }
    const [code] = await exit;
    return { listens, code, err };
  }

  /** Runs another command, which is set up in the same way, and takes half the time. */
  const version = () =>
    promisify(execFile)(process.execPath, ['scripts/drs.mjs', '--version'], {
      cwd: folder,
      env: { PATH: `${at('bin')}:${process.env['PATH']}` },
    });
  const PRINTED = { stdout: expect.stringMatching(/^\d+\.\d+\.\d+ /) as string, stderr: '' };

  it('is what npm start runs, after the set-up', () => {
    const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    expect(scripts['start']).toBe('node scripts/setup.mjs && node scripts/drs.mjs serve');
  });

  it('starts, and fetches nothing', async () => {
    expect(await start()).toEqual({ listens: true, code: 0, err: '' });
  });

  it('starts where only the build was brought along', async () => {
    for (const part of ['src', 'docs', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'])
      rmSync(at(part), { recursive: true });
    expect(await version()).toEqual(PRINTED);
  });

  describe('or after npm ci with other flags, such as --ignore-scripts', () => {
    const noted = () => at('node_modules', '.package-lock.json');
    beforeEach(() => {
      symlinkSync(path.join(root, 'node_modules', 'typescript'), at('node_modules', 'typescript'), 'dir');
      cpSync(path.join(root, 'node_modules', '.package-lock.json'), noted());
    });

    it('installs nothing again', async () => {
      expect(await version()).toEqual(PRINTED);
    });

    it('fails where what is there is not what the lockfile says, and fetches nothing', async () => {
      writeFileSync(noted(), readFileSync(noted(), 'utf8').replace('"integrity": "sha512-', '$&A'));
      expect(await start()).toEqual({
        ...{ listens: false, code: 1 },
        err: 'set-up failed: the packages are not those of package-lock.json; run `npm run setup`\n',
      });
    });
  });

  describe('beside another one', () => {
    const calls = () => (existsSync(at('calls')) ? readFileSync(at('calls'), 'utf8').trim().split('\n') : []);
    beforeEach(() => {
      rmSync(at('node_modules'), { recursive: true });
      const script =
        '#!/bin/sh\necho "$@" >>calls\nuntil [ -e go ]; do sleep 0.05; done\nmkdir -p node_modules\n';
      writeFileSync(at('bin', 'npm'), script, { mode: 0o755 });
    });
    const setUp = () => {
      const env = { PATH: `${at('bin')}:${process.env['PATH']}`, NODE_ENV: 'production' };
      const child = spawn(process.execPath, ['scripts/setup.mjs'], { cwd: folder, env });
      const said = { text: '' };
      child.stderr.on('data', (chunk: Buffer) => (said.text += chunk.toString()));
      return { child, said };
    };

    it('waits, and does nothing twice', async () => {
      const first = setUp();
      await eventually(() => expect(calls()).toEqual([expect.stringMatching(/^ci --include=dev /)]));
      const second = setUp();
      await eventually(() => expect(second.said.text).toContain(`waiting for process ${first.child.pid}`));
      writeFileSync(at('go'), '');
      expect([await ended(first.child), await ended(second.child)]).toEqual([
        [0, null],
        [0, null],
      ]);
      expect(calls()).toHaveLength(1);
      expect(readdirSync(folder).filter((name) => name.startsWith('.drs-verify-setup'))).toEqual([]);
    });

    it('waits for what one that was killed alone has left running', async () => {
      const first = setUp();
      // It notes npm once npm runs: killed before that, it leaves npm to nobody.
      await eventually(() => expect(readFileSync(at('.drs-verify-setup'), 'utf8')).toMatch(/^\d+ \d+$/));
      first.child.kill('SIGKILL');
      await ended(first.child);
      const second = setUp();
      await eventually(() => expect(second.said.text).toContain('waiting for process '));
      expect([calls().length, second.said.text]).toEqual([
        1,
        expect.not.stringContaining(`${first.child.pid},`),
      ]);
      writeFileSync(at('go'), '');
      expect(await ended(second.child)).toEqual([0, null]);
      expect(readdirSync(folder).filter((name) => name.startsWith('.drs-verify-setup'))).toEqual([]);
    });

    it('takes the place of one that was killed', async () => {
      const { child } = setUp();
      await eventually(() => expect(calls()).toHaveLength(1));
      child.kill('SIGKILL');
      await ended(child);
      writeFileSync(at('go'), '');
      expect(await ended(setUp().child)).toEqual([0, null]);
      expect(calls()).toHaveLength(2);
    });
  });

  it.each([
    ['is missing', () => rmSync(at('dist'), { recursive: true })],
    [
      'is older than the sources',
      () => {
        rmSync(at('src'));
        cpSync(path.join(root, 'src'), at('src'), { recursive: true });
        appendFileSync(at('src', 'index.ts'), '\n');
      },
    ],
  ])('says what to do where the build %s', async (found, change) => {
    change();
    const { listens, code, err } = await start();
    expect([listens, code]).toEqual([false, 1]);
    expect(err).toContain(`dist/ ${found}`);
    expect(err).toContain('npm ci && npm run setup && node scripts/prune.mjs');
    expect(err).not.toContain('npm was called');
  });
});
