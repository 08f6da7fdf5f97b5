import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  linkSync,
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
import { fileURLToPath } from 'node:url';
import { packedFiles } from '../../scripts/packed-files.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The exit code and the output of a program. */
export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Options for running a program. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** The working directory, relative to the project's folder. */
  readonly folder?: string;
}

let unpacked: string | null = null;
/** What `tsc --init` writes. */
let initialised = '';
const tsgo = path.join(root, 'node_modules', '@typescript', 'native-preview', 'bin', 'tsgo');

/** Copies what the package contains and a program can load. Returns the folder. */
function unpack(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-packed-'));
  const loaded = /^(?:package\.json|scripts\/.*|dist\/.*)$/;
  for (const file of packedFiles(root).filter((name) => loaded.test(name))) {
    mkdirSync(path.join(folder, path.dirname(file)), { recursive: true });
    copyFileSync(path.join(root, file), path.join(folder, file));
  }
  return folder;
}

/** Makes a folder with the same files, which takes less than to copy them again. */
function linkAll(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory()) linkAll(source, target);
    else linkSync(source, target);
  }
}

async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: RunOptions['env'] = {},
): Promise<Ended> {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}

/**
 * A user's project in an empty folder. It contains only this package, as it is packed, and what the user installs.
 * Their dependencies are the packages that are installed here, so that no network is needed.
 */
export class Project {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /**
   * @param type of its `package.json`
   * @param within a folder of several projects that are compiled together
   */
  static create(type: 'module' | 'commonjs' = 'module', within = tmpdir()): Project {
    const files = (unpacked ??= unpack());
    const project = new Project(mkdtempSync(path.join(within, 'drs-verify-project-')));
    project.write('package.json', JSON.stringify({ name: 'project', version: '1.0.0', private: true, type }));
    const own = project.#at('node_modules', 'drs-verify');
    linkAll(files, own);
    const { dependencies } = JSON.parse(readFileSync(path.join(own, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    project.install(...Object.keys(dependencies));
    mkdirSync(project.#at('node_modules', '.bin'));
    symlinkSync('../drs-verify/scripts/drs.mjs', project.#at('node_modules', '.bin', 'drs-verify'));
    // Replaces npx. It finds the same commands, without the second that npm takes to start.
    writeFileSync(project.#at('node_modules', '.bin', 'npx'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
    return project;
  }

  /** Works like `npm install`, but with packages that are installed here. */
  install(...names: readonly string[]): void {
    for (const name of names) {
      const link = this.#at('node_modules', name);
      if (existsSync(link)) continue;
      mkdirSync(path.dirname(link), { recursive: true });
      symlinkSync(path.join(root, 'node_modules', name), link, 'dir');
      if (name === 'typescript')
        symlinkSync('../typescript/bin/tsc', this.#at('node_modules', '.bin', 'tsc'));
    }
  }

  write(file: string, text: string): void {
    writeFileSync(this.#at(file), text);
  }

  /** Runs a program to its end. It can be a command of an installed package. */
  run(command: string, args: readonly string[], { env, folder = '' }: RunOptions = {}): Promise<Ended> {
    const PATH = `${this.#at('node_modules', '.bin')}:${process.env['PATH']}`;
    return run(command, args, this.#at(folder), { PATH, ...env });
  }

  /** Compiles the project, like {@link compile}. Resolves with the compiler's output. */
  compile(...options: string[]): Promise<string> {
    return compile(this.folder, ...options);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #at(...parts: string[]): string {
    return path.join(this.folder, ...parts);
  }
}

/** Puts the types of Node where a compilation of a folder of projects looks for them. */
export function linkTypesOfNode(folder: string): void {
  mkdirSync(path.join(folder, 'node_modules', '@types'), { recursive: true });
  const link = path.join(folder, 'node_modules', '@types', 'node');
  symlinkSync(path.join(root, 'node_modules', '@types', 'node'), link, 'dir');
}

/**
 * Compiles a project, or a folder of projects, with TypeScript 7, which `npm install typescript` installs, like
 * docs/middleware.md but more strictly. Resolves with the compiler's output.
 */
export async function compile(folder: string, ...options: string[]): Promise<string> {
  const tsconfig = path.join(folder, 'tsconfig.json');
  const init = ['--init', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
  if (!existsSync(tsconfig)) {
    if (initialised === '') {
      await run(process.execPath, [tsgo, ...init], folder);
      initialised = readFileSync(tsconfig, 'utf8');
    } else writeFileSync(tsconfig, initialised);
  }
  // The declarations of packages are checked, not those of the language. Threads would each check the same libraries:
  // more processor time, and no less waiting beside other tests.
  const checks = ['--strict', '--skipLibCheck', 'false', '--skipDefaultLibCheck'];
  const strict = ['-p', '.', ...checks, '--singleThreaded', ...options];
  // It ends before there is garbage to collect, which would be a third of its work.
  const { code, out, err } = await run(process.execPath, [tsgo, ...strict], folder, { GOGC: 'off' });
  return code === 0 ? '' : out + err;
}
