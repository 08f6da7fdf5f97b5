import { execFile, execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** One line of a Dockerfile, such as `RUN npm ci`. */
interface Instruction {
  readonly name: string;
  readonly rest: string;
}

/** What a container of the image is told. */
export interface Image {
  /** The folder that stands for the root of the last stage. */
  readonly root: string;
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
  /** ENTRYPOINT and CMD. */
  readonly command: readonly [string, ...string[]];
  readonly healthcheck: readonly [string, ...string[]];
  readonly labels: Readonly<Record<string, string>>;
  readonly user: string;
  readonly bases: readonly string[];
}

/** The RUN commands that are not run as they stand, since there is no container, and what is done in their place. */
const REPLACED: readonly [RegExp, (root: string, folder: string) => void][] = [
  // The packages that are installed here; what the lockfile names has been checked when they were installed.
  [/^npm ci( --[\w-]+)*$/, (_, folder) => linkTree(path.join(ROOT, 'node_modules'), folder)],
  // The user exists only in the image.
  [
    /^install -d -o node -g node -m 0750 \S+$/,
    (root) => mkdirSync(path.join(root, 'var/lib/drs'), { recursive: true }),
  ],
];

/** Copies a folder into another by hard links, which takes a second for all packages. */
function linkTree(from: string, into: string): void {
  try {
    execFileSync('cp', ['-al', from, into], { stdio: 'ignore' });
  } catch {
    // On another file system.
    execFileSync('cp', ['-a', from, into]);
  }
  // npm writes its record in place, which would change that of the packages here.
  const copy = path.join(into, path.basename(from));
  for (const name of readdirSync(copy).filter(
    (entry) => entry.startsWith('.') && statSync(path.join(copy, entry)).isFile(),
  )) {
    rmSync(path.join(copy, name));
    cpSync(path.join(from, name), path.join(copy, name));
  }
}

function instructionsOf(dockerfile: string): Instruction[] {
  return dockerfile
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .join('\n')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .map((line) => {
      const [, name = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
      return { name, rest };
    });
}

/** Whether a `.dockerignore` keeps a file out: of the patterns that match it or a folder of it, the last decides. */
function isIgnored(file: string, dockerignore: string): boolean {
  let ignored = false;
  for (const line of dockerignore.split('\n').map((text) => text.trim())) {
    if (line === '' || line.startsWith('#')) continue;
    const pattern = line
      .replace(/^!/, '')
      .replace(/[.+^$()|[\]{}\\]/g, '\\$&')
      .replace(
        /\*\*\/|\*\*|\*|\?/g,
        (found) => ({ '**/': '(?:.*/)?', '**': '.*', '*': '[^/]*', '?': '[^/]' })[found] ?? found,
      );
    if (new RegExp(`^${pattern}(?:/.*)?$`).test(file)) ignored = !line.startsWith('!');
  }
  return ignored;
}

function filesBelow(folder: string, name: string): string[] {
  if (!existsSync(path.join(folder, name))) return [];
  if (statSync(path.join(folder, name)).isFile()) return [name];
  return readdirSync(path.join(folder, name), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
}

const setting = (text: string): [string, string][] =>
  text.split(/\s+/).map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]);

/**
 * Does what a build of an image does, in folders: each stage gets what its COPY lines copy and nothing else, and its RUN
 * commands run there. Only those of {@link REPLACED} are replaced.
 *
 * @param folder an empty folder
 * @param buildArguments the values of `--build-arg`
 * @throws Error if a COPY finds nothing, a RUN fails, or an instruction is not known here
 */
export async function buildImage(
  folder: string,
  dockerfile: string,
  dockerignore: string,
  buildArguments: Readonly<Record<string, string>> = {},
): Promise<Image> {
  const stages = new Map<string, string>();
  const bases: string[] = [];
  const given: Record<string, string> = {};
  let root = '';
  let workdir = '/';
  let user = 'root';
  let env: Record<string, string> = {};
  let argument: Record<string, string> = {};
  let labels: Record<string, string> = {};
  const filled = (text: string) =>
    text.replace(/\$\{?(\w+)\}?/g, (_, name: string) => argument[name] ?? env[name] ?? '');
  const here = () => path.join(root, workdir);

  function copy(rest: string): void {
    const words = rest.split(/\s+/);
    const stage = words[0]?.startsWith('--from=') ? words.shift()?.slice('--from='.length) : undefined;
    const target = words.pop() ?? '';
    const into = path.resolve('/', workdir, target);
    for (const source of words) {
      if (stage === undefined) {
        const name = path.posix.normalize(source);
        const files = filesBelow(ROOT, name).filter((file) => !isIgnored(file, dockerignore));
        if (files.length === 0) throw new Error(`COPY ${rest}: ${source} is not in the context`);
        const isFile = statSync(path.join(ROOT, name)).isFile();
        for (const file of files) {
          const inside = isFile
            ? target.endsWith('/')
              ? path.basename(file)
              : ''
            : path.relative(name, file);
          cpSync(path.join(ROOT, file), path.join(root, into, inside));
        }
        continue;
      }
      const from = path.join(stages.get(stage) ?? '', source);
      if (!stages.has(stage) || !existsSync(from))
        throw new Error(`COPY ${rest}: ${source} is not in the stage ${stage}`);
      if (path.basename(source) === 'node_modules') linkTree(from, path.dirname(path.join(root, into)));
      else if (statSync(from).isFile() && target.endsWith('/'))
        cpSync(from, path.join(root, into, path.basename(source)));
      else cpSync(from, path.join(root, into), { recursive: true });
    }
  }

  async function run(command: string): Promise<void> {
    const replaced = REPLACED.find(([pattern]) => pattern.test(command));
    if (replaced !== undefined) {
      replaced[1](root, here());
      return;
    }
    // Nothing may come from the network: it would hide that a file is missing.
    const npm = { HOME: folder, npm_config_offline: 'true', npm_config_update_notifier: 'false' };
    await promisify(execFile)('sh', ['-c', command], {
      cwd: here(),
      env: { PATH: process.env['PATH'] ?? '', ...npm, ...argument, ...env },
    });
  }

  for (const { name, rest } of instructionsOf(dockerfile)) {
    switch (name) {
      case 'FROM': {
        const [base = '', , stage = ''] = rest.split(/\s+/);
        bases.push(base);
        [workdir, user, env, argument, labels] = ['/', 'root', {}, {}, {}];
        root = path.join(folder, `stage-${bases.length}`);
        mkdirSync(root);
        stages.set(stage, root);
        break;
      }
      case 'WORKDIR':
        workdir = path.resolve(workdir, rest);
        mkdirSync(here(), { recursive: true });
        break;
      case 'COPY':
        copy(rest);
        break;
      case 'RUN':
        await run(rest);
        break;
      case 'ENV':
        for (const [key, value] of setting(rest)) env[key] = filled(value);
        break;
      case 'ARG':
        for (const [key, value] of setting(rest)) argument[key] = buildArguments[key] ?? value;
        break;
      case 'LABEL':
        for (const [key, value] of setting(rest)) labels[key] = filled(value);
        break;
      case 'USER':
        user = rest;
        break;
      case 'HEALTHCHECK':
        given['HEALTHCHECK'] = rest.slice(rest.indexOf('CMD ') + 4);
        break;
      case 'ENTRYPOINT':
      case 'CMD':
        given[name] = rest;
        break;
      case 'EXPOSE':
      case 'VOLUME':
        break;
      default:
        throw new Error(`${name} ${rest}: this build does not know the instruction`);
    }
  }
  const list = (name: string) => JSON.parse(given[name] ?? '[]') as string[];
  return {
    ...{ root, workdir, env, labels, user, bases },
    command: [...list('ENTRYPOINT'), ...list('CMD')] as [string, ...string[]],
    healthcheck: list('HEALTHCHECK') as [string, ...string[]],
  };
}
