import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

// bash says so on standard error where a locale is not installed.
const PLAIN = { ...process.env, LC_ALL: 'C' };

// No runner of GitHub is here: this checks that the files say what they must, and that what they name exists.

interface Step {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}
interface Job {
  readonly uses?: string;
  readonly needs?: unknown;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly 'timeout-minutes'?: number;
  readonly strategy?: { readonly matrix: { readonly include: readonly { node: number; image: string }[] } };
  readonly steps?: readonly Step[];
}
interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}
const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const load = (file: string) => parse(read(`.github/workflows/${file}`)) as Workflow;
const { scripts, engines } = JSON.parse(read('package.json')) as {
  scripts: Record<string, string>;
  engines: { node: string };
};

const workflows = readdirSync(path.join(root, '.github/workflows'));
/** Files that a step makes. */
const MADE = new Set(['sbom.cdx.json']);

/** What a text names and the repository does not have: scripts of npm, and files. */
function findMissing(text: string): string[] {
  const named = [...text.matchAll(/\bnpm run (?:--silent )?([\w:-]+)/g)].map(([, script = '']) => script);
  const files = [
    ...text.matchAll(/(?<![\w./-])((?:\.ci|bench|deploy|docs|scripts|src|test)\/[\w./-]*\w)/g),
    ...text.matchAll(/(?<![\w./-])([A-Za-z][\w.-]*\.(?:md|json|mjs|ts))\b/g),
  ].map(([, file = '']) => file);
  return [
    ...named.filter((script) => !(script in scripts)),
    ...files.filter((file) => !MADE.has(file) && !existsSync(path.join(root, file))),
  ];
}

it('finds what is missing', () => {
  expect(findMissing('npm run nothing && node scripts/none.mjs NONE.md # npm run lint, LICENSE')).toEqual([
    'nothing',
    'scripts/none.mjs',
    'NONE.md',
  ]);
});

describe.each(workflows)('.github/workflows/%s', (file) => {
  const { permissions, jobs } = load(file);
  const steps = Object.values(jobs).flatMap((job) => job.steps ?? []);

  it('names only scripts and files that exist', () => {
    expect(findMissing(read(`.github/workflows/${file}`))).toEqual([]);
  });

  it('may read the code, and no more where a job does not say so', () => {
    expect(permissions).toEqual({ contents: 'read' });
  });

  it('pins each action by a commit, beside its version', () => {
    for (const { uses } of [...steps, ...Object.values(jobs)]) {
      if (uses === undefined) continue;
      if (uses.startsWith('./')) expect(existsSync(path.join(root, uses)), uses).toBe(true);
      else expect(uses).toMatch(/^actions\/(?:checkout|setup-node)@[\da-f]{40}$/);
    }
    for (const line of read(`.github/workflows/${file}`).split('\n'))
      if (line.includes('uses: actions/')) expect(line).toMatch(/@[\da-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it('leaves no token behind for later steps', () => {
    for (const { uses, with: inputs } of steps)
      if (uses?.startsWith('actions/checkout@'))
        expect(inputs).toMatchObject({ 'persist-credentials': false });
  });

  it('puts no text of others into a shell, and every script is one that bash can read', () => {
    for (const { run } of steps) {
      if (run === undefined) continue;
      expect(run).not.toContain('${{');
      expect(spawnSync('bash', ['-n', '-c', run], { env: PLAIN, encoding: 'utf8' }).stderr).toBe('');
    }
  });

  it('ends a job that hangs', () => {
    for (const { uses, 'timeout-minutes': minutes } of Object.values(jobs))
      if (uses === undefined) expect(minutes).toBeLessThanOrEqual(60);
  });
});

describe('ci.yml', () => {
  const { on, jobs } = load('ci.yml');

  it('calls the gate for each change, on the oldest Node and on that of the image', () => {
    expect(Object.keys(on).sort()).toEqual(['pull_request', 'push', 'workflow_call']);
    const { strategy, steps = [] } = jobs['gate'] ?? {};
    const matrix = strategy?.matrix.include ?? [];
    expect(matrix.map(({ node }) => node)).toEqual([20, 24]);
    const others = load('versions.yml').jobs['suite']?.strategy?.matrix.include ?? [];
    const all = [...matrix, ...others].sort((left, right) => left.node - right.node);
    const promised = engines.node.split(' || ').map((range) => Number(/\d+/.exec(range)?.[0]));
    expect(promised).toEqual(all.map(({ node }) => node));
    for (const { node, image } of all) expect(image).toMatch(new RegExp(`^node:${node}-`));
    // Developers, the image and the release have the same one.
    const [, ofImage] = /^FROM node:(\d+)-/m.exec(read('deploy/Dockerfile')) ?? [];
    const ofRelease = load('release.yml').jobs['npm']?.steps?.flatMap(
      ({ with: inputs }) => inputs?.['node-version'] ?? [],
    );
    expect([ofImage, ofRelease]).toEqual([read('.nvmrc').trim(), [Number(ofImage)]]);
    expect(steps.map(({ run }) => run)).toContain('bash .ci/run');
    expect(statSync(path.join(root, '.ci/run')).mode & 0o100).toBe(0o100);
  });
});

describe('release.yml', () => {
  const { on, jobs } = load('release.yml');

  it('runs for a tag, after the gate, and each job may do one thing', () => {
    expect(on).toEqual({ push: { tags: ['v*'] } });
    expect(jobs['gate']?.uses).toBe('./.github/workflows/ci.yml');
    expect(jobs['versions']?.uses).toBe('./.github/workflows/versions.yml');
    for (const job of ['npm', 'image']) expect(jobs[job]?.needs).toEqual(['gate', 'versions']);
    const allowed = Object.entries(jobs).map(([name, { permissions = {} }]) => [
      name,
      Object.keys(permissions).filter((permission) => permissions[permission] === 'write'),
    ]);
    expect(Object.fromEntries(allowed)).toEqual({
      gate: [],
      version: [],
      versions: [],
      npm: ['id-token'],
      image: ['packages'],
      notes: ['contents'],
    });
  });

  it('only for a tag that names the version, with a section of the changelog', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-release-'));
    const [script = ''] = (jobs['version']?.steps ?? []).flatMap(({ run }) => run ?? []);
    const check = (tag: string) =>
      spawnSync('bash', ['-e', '-c', script], {
        cwd: folder,
        env: { ...PLAIN, GITHUB_REF_NAME: tag },
        encoding: 'utf8',
      });
    try {
      writeFileSync(path.join(folder, 'package.json'), '{"version":"1.2.0"}');
      writeFileSync(path.join(folder, 'CHANGELOG.md'), '# Changelog\n\n## [Unreleased]\n');
      expect(check('v1.3.0')).toMatchObject({
        status: 1,
        stderr: expect.stringContaining('v1.2.0') as string,
      });
      expect(check('v1.2.0')).toMatchObject({
        status: 1,
        stderr: expect.stringContaining('## [1.2.0]') as string,
      });
      writeFileSync(path.join(folder, 'CHANGELOG.md'), '# Changelog\n\n## [1.2.0] - 2026-12-01\n');
      expect(check('v1.2.0')).toMatchObject({ status: 0, stderr: '' });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
