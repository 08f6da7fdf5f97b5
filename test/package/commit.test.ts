import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { devNull, tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { commitOf } from '../../scripts/commit.mjs';
import { needs } from '../support/programs.js';

describe('the commit of a build', needs('git'), () => {
  let folder: string;
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], {
      cwd: folder,
      env: { ...process.env, GIT_CONFIG_GLOBAL: devNull },
      encoding: 'utf8',
    }).trim();
  const write = (text: string) => writeFileSync(path.join(folder, 'file'), text);

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-commit-'));
    git('init', '--quiet');
    write('first');
    git('add', 'file');
    git('commit', '--quiet', '--message', 'first');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('is what Git says in a clone, and whether a file was changed', () => {
    const commit = git('rev-parse', 'HEAD');
    git('tag', '--annotate', 'v9', '--message', 'a tag is not the commit');
    expect(commitOf(folder, undefined)).toBe(commit);
    expect(commitOf(folder, ' ')).toBe(commit);
    write('second');
    expect(commitOf(folder, undefined)).toBe(`${commit}-dirty`);
  });

  it('is what DRS_COMMIT says where it is set', () => {
    const given = 'c0ffee'.padEnd(40, '0');
    expect(commitOf(folder, given)).toBe(given);
    expect(commitOf(tmpdir(), given)).toBe(given);
    for (const wrong of ['main', 'c0ffee', `${given} `.repeat(2), `${given}\nx`])
      expect(() => commitOf(folder, wrong), wrong).toThrow('expected a commit: 7 to 64 hexadecimal digits');
  });

  it('is not known without a clone, also inside the clone of another project', () => {
    const inside = path.join(folder, 'node_modules', 'drs-verify');
    mkdirSync(inside, { recursive: true });
    expect(commitOf(inside, undefined)).toBeNull();
    rmSync(path.join(folder, '.git'), { recursive: true });
    // A clone that Git refuses to read.
    writeFileSync(path.join(folder, '.git'), 'gitdir: /nowhere');
    expect(commitOf(folder, undefined)).toBeNull();
  });
});
