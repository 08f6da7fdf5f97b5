// Notes in dist/service/build.json which commit a build is from: DRS_COMMIT says it where there is no clone (the image), Git
// where there is one. Uses only Node, since set-up runs before any package is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const COMMIT = /^[0-9a-f]{7,64}(-dirty)?$/;

/**
 * The commit of a folder, with "-dirty" if a file of it was changed; `null` if nothing says it.
 *
 * @param {string} root
 * @param {string | undefined} given the value of DRS_COMMIT
 * @throws Error if `given` is no commit
 */
export function commitOf(root, given) {
  const named = given?.trim() ?? '';
  if (named !== '') {
    if (COMMIT.test(named)) return named;
    throw new Error(
      `DRS_COMMIT is "${named}", expected a commit: 7 to 64 hexadecimal digits; leave it out if there is none`,
    );
  }
  // A folder inside another project's clone is not of that project's commit.
  if (!existsSync(path.join(root, '.git'))) return null;
  const args = ['describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'];
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  const found = status === 0 ? stdout.trim() : '';
  return COMMIT.test(found) ? found : null;
}

/**
 * Writes what {@link commitOf} finds, if it is not written yet. What an earlier build has noted stays if nothing says
 * more, as in a copy of a clone without its .git.
 *
 * @param {string} root
 * @throws Error if DRS_COMMIT is no commit
 */
export function noteCommit(root) {
  const file = path.join(root, 'dist', 'service', 'build.json');
  const commit = commitOf(root, process.env['DRS_COMMIT']);
  if (commit === null && existsSync(file)) return;
  const text = JSON.stringify({ commit });
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}
