import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { invoke, makeChain } from '../support/chain.js';
import { end, hasEnded } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { openApi } from '../support/openapi.js';
import { startOnPort } from '../support/ports.mjs';
import { compile, linkTypesOfNode, Project, type Ended } from '../support/project.js';
import { startService, type RunningService } from '../support/service.js';
import { snippets, snippetsOf, type Snippet } from './snippets.js';

const nameOf = ({ document, line }: Snippet) => `${document}:${line}`;
const named = (all: readonly Snippet[]) => all.map((snippet) => [nameOf(snippet), snippet] as const);
const ofLanguage = (...languages: string[]) =>
  snippets.filter(({ language }) => languages.includes(language));
const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

/** The languages of snippets that are compiled. They are also run, unless they are marked. */
const programs = ofLanguage('ts', 'js').filter(({ mark }) => mark?.kind !== 'excerpt');

/** The commands that are run, with the programs that continue with their values. */
const sessions = named(ofLanguage('sh').filter(({ mark }) => mark === null)).map(
  ([name, snippet]) =>
    [
      name,
      snippet,
      programs.filter(({ document, file }) => document === snippet.document && file === 'verify.ts'),
    ] as const,
);

// The packages that a reader of a section of docs/middleware.md installs.
const packagesOf = (section: string) =>
  ofLanguage('sh')
    .filter((snippet) => snippet.document === 'docs/middleware.md' && snippet.section === section)
    .flatMap(({ code }) => [...code.matchAll(/npm install (?:--save-dev )?([^&\n]+)/g)])
    .flatMap(([, names = '']) => names.trim().split(' '));
const middleware = programs.filter(({ document }) => document === 'docs/middleware.md');
const agent = middleware.find(({ file }) => file === 'agent.ts') as Snippet;
const sections = [...new Set(middleware.map(({ section }) => section))];

const others = programs.filter(
  ({ document, file }) => document !== 'docs/middleware.md' && file !== 'verify.ts',
);

// Each has a project of its own. All are compiled in one run: the types of Node and of what they install are most of it.
const folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-snippets-'));
const projects = new Map<string, Project>();
const projectOf = (name: string) => projects.get(name) as Project;
let output: string;
/** What the compiler says of a project. */
const errorsIn = (project: Project) =>
  output.split('\n').filter((line) => line.includes(path.basename(project.folder)));

function add(name: string, packages: readonly string[], files: readonly (readonly [string, string])[]): void {
  const project = Project.create('module', folder);
  project.install('@types/node', ...packages);
  for (const [file, code] of files) project.write(file, code);
  projects.set(name, project);
}

beforeAll(async () => {
  const filesOf = (all: readonly Snippet[]) => all.map(({ file, code }) => [file as string, code] as const);
  for (const [name, , next] of sessions) add(name, [], filesOf(next));
  for (const section of sections) {
    const files = middleware.filter((snippet) => snippet.section === section);
    const packages = section === 'Next.js' ? ['@hono/node-server', 'hono'] : packagesOf(section);
    add(section, packages, filesOf([...files, agent]));
  }
  const numbered = others.map(({ code, language }, at) => [`snippet-${at}.${language}`, code] as const);
  add('others', ['libsodium-wrappers'], numbered);
  linkTypesOfNode(folder);
  output = await compile(folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

it('they compile', () => expect(output).toBe(''));

it('finds snippets, their names and their marks', () => {
  const text = [
    '## One',
    '```sh',
    'a',
    '```',
    '<!-- not run: a reason -->',
    '```ts',
    '// b.ts',
    '```',
    '',
    '## Two',
    '```',
    '```',
  ].join('\n');
  expect(snippetsOf('x.md', `${text}\n`)).toEqual([
    { document: 'x.md', line: 2, section: 'One', language: 'sh', code: 'a\n', file: null, mark: null },
    {
      document: 'x.md',
      line: 6,
      section: 'One',
      language: 'ts',
      code: '// b.ts\n',
      file: 'b.ts',
      mark: { kind: 'not run', says: 'a reason' },
    },
    { document: 'x.md', line: 11, section: 'Two', language: '', code: '', file: null, mark: null },
  ]);
});

describe('excerpts', () => {
  it.each(named(ofLanguage('ts', 'js', 'sh', 'json').filter(({ mark }) => mark?.kind === 'excerpt')))(
    '%s stands in its file to the letter',
    (_, { code, mark }) => {
      expect(read(mark?.says as string)).toContain(code);
    },
  );
});

describe('JSON', () => {
  const ajv = new Ajv2020({ strict: false, validateSchema: false }).addSchema(openApi, 'openapi');

  it.each(named(ofLanguage('json')))('%s is JSON', (_, { code, mark }) => {
    const isOne = !/^\{.*\}\n\{/.test(code);
    // One document, or one in each line.
    const values = (isOne ? [code] : code.trimEnd().split('\n')).map((text) => JSON.parse(text) as unknown);
    if (mark?.kind !== 'schema') return;
    const check = ajv.getSchema(`openapi#/components/schemas/${mark.says}`);
    for (const value of values) expect([check?.(value), check?.errors]).toEqual([true, null]);
  });
});

describe('commands', () => {
  // The expected output of commands in snippets, besides exit code 0, and what they leave in the folder of the demonstration.
  const endings: Readonly<Record<string, (ended: Ended, made: readonly string[]) => void>> = {
    'README.md': ({ code, out }, made) => {
      // The last command is the one that is refused.
      expect(code).toBe(1);
      expect(out).toMatch(/^valid\n(?: .*\n)* {2}binding {9}match$/m);
      expect(out).toContain('\nvalid, but the body is not what was signed\n');
      expect(out).toMatch(/binding +match.*binding +mismatch/s);
      expect(made).toContain('bundle.json');
    },
    'docs/runbook.md': ({ code, out }) => {
      expect([code, out]).toEqual([
        0,
        expect.stringMatching(
          /^revoked: did (did:key:\w+)\n\{"did":"\1","at":"[^"]+","reason":"laptop stolen"\}\n$/,
        ),
      ]);
    },
    'docs/issuing.md': ({ code, out, err }, made) => {
      expect([code, err]).toEqual([0, expect.not.stringMatching(/error/i)]);
      expect(out).toContain('\nvalid\n  root principal  did:key:');
      expect(out).toContain('receipt 2');
      expect(made).toContain('alice.key');
    },
  };
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({ DRS_ADMIN_TOKEN: 'a-token-of-16-letters' });
  });
  afterAll(() => service.stop());

  it.each(sessions)('%s runs', async (name, snippet, next) => {
    const project = projectOf(name);
    // The agent whose key is stolen, in docs/runbook.md.
    const stolen = makeChain(3);
    const DID = stolen.parties[2]?.did ?? '';
    const codeNow = async () =>
      (await (await service.post('/verify', invoke(stolen))).text()).match(/"code":"(\w+)"/)?.[1];
    for (let call = 0; call < 3; call++) expect(await codeNow()).toBe(undefined);
    const env = { DRS_VERIFY_URL: service.url, DRS_ADMIN_TOKEN: 'a-token-of-16-letters', DID };
    // Any shell can run them, and each but the last succeeds.
    const ended = await project.run('sh', ['-ec', snippet.code], { env });
    expect(await codeNow()).toBe(snippet.document === 'docs/runbook.md' ? 'KEY_REVOKED' : undefined);
    const check = endings[snippet.document] ?? (({ code }: Ended) => expect(code).toBe(0));
    const demo = path.join(project.folder, 'drs-demo');
    check(ended, existsSync(demo) ? readdirSync(demo) : []);
    // The values with which the page continues.
    expect(errorsIn(project)).toEqual([]);
    for (const _ of next) {
      const verified = await project.run('node', ['../verify.js'], { folder: 'drs-demo' });
      expect(verified).toEqual({ code: 0, out: '', err: '' });
    }
  });
});

describe('docs/middleware.md', () => {
  /** Serves a route handler in the place of Next.js, which has 300 MB. */
  const SERVE_ROUTE = `
import { serve } from '@hono/node-server';
import { POST } from './route.js';
serve({ fetch: (request) => POST(request), port: Number(process.env.PORT), hostname: '127.0.0.1' });
`;

  /** Starts a server of the page; resolves with its address. */
  function start(project: Project, file: string): Promise<{ url: string; child: ChildProcess }> {
    return startOnPort(async (port) => {
      const env = { ...process.env, PORT: String(port) };
      const child = spawn(process.execPath, [file], { cwd: project.folder, env, stdio: 'ignore' });
      const url = `http://127.0.0.1:${port}`;
      await eventually(async () => {
        if (!hasEnded(child)) await fetch(url);
      });
      if (hasEnded(child)) throw new Error(`${file} ended with ${child.exitCode ?? child.signalCode}`);
      return { url, child };
    });
  }

  it('has sections to try', () => {
    expect(sections).toEqual(['Express', 'Next.js']);
    expect(packagesOf('Express')).toContain('express');
  });

  it.each(sections)('%s works in an empty project, as it is pasted', async (section) => {
    const project = projectOf(section);
    expect(errorsIn(project)).toEqual([]);
    const files = middleware.filter((snippet) => snippet.section === section);
    if (section === 'Next.js') project.write('next.js', SERVE_ROUTE);
    for (const { file, code } of files) {
      if (file !== 'route.ts' && !code.includes("process.env['PORT']")) continue;
      const { url, child } = await start(
        project,
        file === 'route.ts' ? 'next.js' : (file as string).replace('.ts', '.js'),
      );
      try {
        const env = { TOOL_URL: `${url}/weather` };
        const { out, err } = await project.run('node', ['agent.js'], { env });
        expect([out, err]).toEqual([expect.stringMatching(/^200 .*sunny in Zürich.*did:key:z6Mk/), '']);
        const body = JSON.stringify({ tool: 'weather', city: 'Zürich' });
        const headers = { 'Content-Type': 'application/json' };
        expect((await fetch(env.TOOL_URL, { method: 'POST', headers, body })).status).toBe(401);
      } finally {
        await end(child);
      }
    }
  });
});

describe('other programs', () => {
  it.each(others.map((snippet, at) => [nameOf(snippet), snippet, at] as const))(
    '%s',
    async (_, { mark }, at) => {
      const project = projectOf('others');
      expect(errorsIn(project)).toEqual([]);
      if (mark?.kind === 'not run') return;
      expect(await project.run('node', [path.join(project.folder, `snippet-${at}.js`)])).toMatchObject({
        code: 0,
      });
    },
  );
});
