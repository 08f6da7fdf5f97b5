import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');

/** What somebody reads or runs, in these folders and in the documents beside them. */
function filesOf(...folders: string[]): string[] {
  return [...folders.flatMap(filesIn), ...readdirSync(ROOT).filter((name) => name.endsWith('.md'))];
}

/** Not `readdirSync` with `recursive`, which follows links from Node 22 on: those of the examples lead back here. */
function filesIn(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const found = path.join(folder, entry.name);
    if (entry.isFile()) return [found];
    // The API reference is made from src/.
    const isLeftOut = entry.name === 'node_modules' || found === path.join('docs', 'api');
    return entry.isDirectory() && !isLeftOut ? filesIn(found) : [];
  });
}

// SIGTERM to `npm start` ends npm and leaves the service running.
it('names `npm start` for development only', () => {
  // The examples are left out: `npm start` there starts a tool server of the example.
  const named = filesOf('docs', 'deploy', 'src').flatMap((file) =>
    read(file)
      .split('\n')
      .filter((line) => /npm (run )?start\b/.test(line))
      .map((line) => `${file}: ${line.trim()}`),
  );
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((line) => !line.includes('development'))).toEqual([]);
});

describe('what a reader is told to install or to run', () => {
  const all = filesOf('docs', 'deploy', 'src', 'examples', '.github').map((file) => ({
    file,
    text: read(file),
  }));
  const found = (pattern: RegExp) =>
    all.flatMap(({ file, text }) => [...text.matchAll(pattern)].map(([, said = '']) => ({ file, said })));
  const { version, devDependencies, repository } = JSON.parse(read('package.json')) as {
    version: string;
    devDependencies: Record<string, string>;
    repository?: { url: string };
  };

  // The package itself is on no registry.
  it('is the tarball of this version, or a package that is tested here, in its version', () => {
    const installed = found(/npm install((?: +[^\s`'";&#),|]+)+)/g).flatMap(({ file, said }) =>
      said
        .trim()
        .split(/ +/)
        .map((name) => ({ file, name })),
    );
    const isKnown = (name: string) => {
      if (name.startsWith('-')) return true;
      if (name.endsWith('.tgz')) return path.basename(name) === `drs-verify-${version}.tgz`;
      const [, bare = '', pinned] = /^(@?[^@]+)(?:@(.+))?$/.exec(name) ?? [];
      return bare in devDependencies && [undefined, devDependencies[bare]].includes(pinned);
    };
    expect(installed.length).toBeGreaterThan(15);
    expect(installed.filter(({ name }) => !isKnown(name))).toEqual([]);
  });

  it('is a command that npx finds', () => {
    const run = found(/\bnpx ([\w@/.-]+(?: [\w-]+)?)/g).filter(({ said }) => !said.startsWith('ends only'));
    const commands = readdirSync(path.join(ROOT, 'src/cli/commands')).map((file) =>
      file.replace(/\.ts$/, ''),
    );
    const known = new Set(['help', '--version', ...commands].map((command) => `drs-verify ${command}`));
    expect(run.length).toBeGreaterThan(50);
    expect(
      // `-y`: a server of somebody else, that a host is to start.
      run.filter(({ said }) => !known.has(said) && !['drs-verify', 'tsc --init', 'tsc', '-y'].includes(said)),
    ).toEqual([]);
  });

  it('is to clone the repository that package.json names, as soon as it names one', () => {
    const cloned = found(/git clone (\S+)/g).filter(({ file }) => file === 'README.md');
    const url = repository?.url.replace(/^git\+/, '');
    expect(cloned.map(({ said }) => said)).toEqual(url === undefined ? [] : [url]);
  });
});
