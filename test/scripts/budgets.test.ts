import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { needs } from '../support/programs.js';

describe('the budgets', needs('git'), () => {
  let folder: string;
  const write = (file: string, text: string) => {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    writeFileSync(path.join(folder, file), text);
  };
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-budgets-'));
    execFileSync('git', ['init', '--quiet'], { cwd: folder });
    write('.gitignore', 'node_modules\n');
    write('CHANGELOG.md', 'not counted');
    write('README.md', 'three words here');
    write('src/a/one.ts', '1\n2\n');
    write('src/a/b/two.ts', '3\n');
    write('src/a/node_modules/x/three.ts', '4\n');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const check = (...rows: string[]) => {
    write('scripts/budgets.txt', ['# room lines', ...rows, ''].join('\n'));
    const { status, stderr } = spawnSync(process.execPath, ['scripts/budgets.mjs', folder], {
      encoding: 'utf8',
    });
    return [status, stderr];
  };

  it('are kept where no room is larger', () => {
    expect(check('src/a 3', 'src/a/b 1', 'words 3')).toEqual([0, '']);
  });

  it('are broken by one line more, or one word: room, found, budget', () => {
    expect(check('src/a 2', 'src/a/b 1', 'words 2')).toEqual([1, 'src/a: 3, budget 2\nwords: 3, budget 2\n']);
  });

  it.each(['src/a', 'src/a 2 3', 'src/a 3 until 7', 'src/none 2'])(
    'are no budgets with the row %s',
    (row) => {
      expect(check(row)).toEqual([1, expect.stringContaining('scripts/budgets.txt: ')]);
    },
  );
});
