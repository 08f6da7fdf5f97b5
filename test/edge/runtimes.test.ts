import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { invoke, makeChain } from '../support/chain.js';
import { launchBrowser, PATIENCE } from '../support/browser.js';
import { Project } from '../support/project.js';
import { needs, startProgram } from '../support/programs.js';
import { sodium } from '../../src/signatures/sodium.js';
import { startService, type RunningService } from '../support/service.js';
import { readVectors } from '../support/vectors.js';
import { snippets } from '../docs/snippets.js';
import { bundle, gzippedKb } from './bundle.js';
import { runGateVectors, type GateVector } from './gate-vectors.js';

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const CALLS = pathOf('calls.mjs');
const VECTORS = pathOf('vectors.mjs');
/** What passes bytes to libsodium in the inspector, in the place of `libsodium-wrappers`. */
const SODIUM_OF_PAGE = pathOf('../../web/inspect/sodium.ts');
/** The gate as the inspector has it. `drs-verify/pure` has none: a gate answers for a tool, and is beside it. */
const GATE_IN_PAGE = `import { runGateVectors } from ${JSON.stringify(pathOf('gate-vectors.ts'))};
import { loadSodium } from ${JSON.stringify(SODIUM_OF_PAGE)};
export const runGate = async (vectors) => runGateVectors(await loadSodium(), vectors);`;

/** The published signatures and the questions to a verifier, as a module. */
function vectorsModule(): string {
  const { profiles, vectors } = JSON.parse(readFileSync(pathOf('../conformance/vectors.json'), 'utf8')) as {
    profiles: object;
    vectors: { kind: string }[];
  };
  const signatures = [...readVectors('ed25519'), ...readVectors('ed25519-edge')];
  const questions = vectors.filter(({ kind }) => kind === 'verify');
  gate = vectors.filter(({ kind }) => kind === 'gate') as object[] as GateVector[];
  all = { verdicts: questions.length, signatures: signatures.length, differences: [] };
  // Not as a literal: `__proto__` means something else there.
  const text = JSON.stringify({ profiles, vectors: questions, signatures });
  return `export default JSON.parse(${JSON.stringify(text)});`;
}
/** What each runtime finds of them. */
let gate: GateVector[];
let all: { verdicts: number; signatures: number; differences: string[] };

/** The origin of a page. Browsers have WebCrypto only where nobody can change a page on its way: TLS, or localhost. */
const PAGE = 'http://page.localhost';

/** A file that docs/inspector.md gives for a worker. */
function documented(name: string): string {
  const found = snippets.find(({ document, file }) => document === 'docs/inspector.md' && file === name);
  if (found === undefined) throw new Error(`docs/inspector.md has no ${name}`);
  return found.code;
}

/** What each runtime answers. */
const EXPECTED = {
  matching: [true, 'match'],
  changed: [true, 'mismatch'],
  redirected: 'not_a_verdict',
  escalation: 'POLICY_ESCALATION',
  notMine: 'INVOKER_MISMATCH',
  otherKey: 'INVALID_KEY',
  memoryKey: 'INVALID_KEY',
  served: { isAlice: true, got: { tool: 'search', query: 'tea 🫖' } },
  refused: 'POLICY_VIOLATION',
  unsigned: [401, 'MISSING_BUNDLE'],
};

/** A program of a package that has one for each platform. */
function programOf(scope: string, start: string, file: string): string {
  const folder = fileURLToPath(new URL(`../../node_modules/${scope}`, import.meta.url));
  const name = readdirSync(folder).find((entry) => entry.startsWith(start)) ?? '';
  return path.join(folder, name, file);
}

let service: RunningService;
let project: Project;
let redirecting: string;
const redirects = createServer((req, res) => {
  res.writeHead(307, { Location: `${service.url}${req.url}` }).end();
});
beforeAll(async () => {
  project = Project.create();
  service = await startService({ ALLOWED_ORIGINS: PAGE });
  await once(redirects.listen(0, '127.0.0.1'), 'listening');
  redirecting = `http://127.0.0.1:${(redirects.address() as AddressInfo).port}`;
  project.write('calls.mjs', readFileSync(CALLS, 'utf8'));
  project.write(
    'main.mjs',
    `import sodium from 'libsodium-wrappers';
import { runCalls } from './calls.mjs';
import { runVectors } from './vectors.mjs';
import vectors from './all-vectors.mjs';
await sodium.ready;
const calls = await runCalls('${service.url}', '${redirecting}');
console.log(JSON.stringify({ ...calls, vectors: await runVectors(sodium, vectors) }));`,
  );
  project.write('vectors.mjs', readFileSync(VECTORS, 'utf8'));
  project.write('all-vectors.mjs', vectorsModule());
  project.install('libsodium-wrappers');
});
afterAll(async () => {
  redirects.close();
  await service.stop();
  project.remove();
});

describe('delegations and calls by a key of WebCrypto, and all vectors by libsodium as WebAssembly', () => {
  const run = async (program: string, ...args: string[]) => {
    const { out, err } = await project.run(program, args);
    return (out.startsWith('{') ? JSON.parse(out) : out + err) as object;
  };

  it('work in Node', async () => {
    expect(await run(process.execPath, '--no-warnings', 'main.mjs')).toEqual({
      ...EXPECTED,
      memoryKey: 'done',
      vectors: all,
    });
  });

  it('work in Bun, and so does a key in memory', async () => {
    // Its install script moves the program.
    const installed = programOf('@oven', 'bun-', 'bin/bun');
    const bun = existsSync(installed) ? installed : programOf('bun', 'bin', 'bun.exe');
    expect(await run(bun, 'main.mjs')).toEqual({ ...EXPECTED, memoryKey: 'done', vectors: all });
  });

  it('work in Deno without any permission but to call the service; a key in memory needs more', async () => {
    const deno = programOf('@deno', '', 'deno');
    const hosts = [service.url, redirecting].map((url) => new URL(url).host).join();
    expect(await run(deno, 'run', '--no-prompt', `--allow-net=${hosts}`, 'main.mjs')).toEqual({
      ...EXPECTED,
      vectors: all,
    });
    expect(await run(deno, 'run', '--allow-all', 'main.mjs')).toMatchObject({ memoryKey: 'done' });
  });

  describe('bundled without a built-in of Node', () => {
    let [code, gateCode, wrappers, pure] = ['', '', '', ''];
    beforeAll(async () => {
      const vectors = path.join(project.folder, 'all-vectors.mjs');
      const entry = `export { runCalls } from ${JSON.stringify(CALLS)};
export { DrsClient } from 'drs-verify/client';
import sodium from 'libsodium-wrappers';
import { runVectors as run } from ${JSON.stringify(VECTORS)};
import vectors from ${JSON.stringify(vectors)};
export const runVectors = async () => (await sodium.ready, run(sodium, vectors));
import { loadSodium } from ${JSON.stringify(SODIUM_OF_PAGE)};
export const runInPage = async () => run(await loadSodium(), vectors);`;
      code = await bundle(entry);
      gateCode = await bundle(GATE_IN_PAGE, true);
      wrappers = await bundle(`export { default } from 'libsodium-wrappers';`);
      pure = await bundle(`export * from 'drs-verify/pure';`);
      project.write('save-wasm.js', documented('save-wasm.js'));
      await project.run(process.execPath, ['save-wasm.js']);
    });

    it('work in workerd', async () => {
      const worker = await startProgram(
        programOf('@cloudflare', 'workerd', 'bin/workerd'),
        (port, folder) => {
          writeFileSync(path.join(folder, 'calls.js'), code);
          for (const name of ['wasm.js', 'worker.js'])
            writeFileSync(path.join(folder, name), documented(name));
          writeFileSync(path.join(folder, 'sodium.js'), wrappers);
          writeFileSync(path.join(folder, 'pure.js'), pure);
          writeFileSync(
            path.join(folder, 'main.js'),
            `import { begin } from './wasm.js';
import documented from './worker.js';
import { DrsClient, runCalls, runVectors } from './calls.js';
const client = new DrsClient('${service.url}', { timeoutMs: 60_000 });
const calls = {
  '/': async () => ({ ...await runCalls('${service.url}', '${redirecting}'), vectors: await runVectors() }),
  '/shared': async () => (await client.verify({})).error.code,
};
const answer = async ({ url }) => (begin(), Response.json(await calls[new URL(url).pathname]()));
export default { fetch: (request) => (request.method === 'POST' ? documented.fetch(request) : answer(request)) };`,
          );
          copyFileSync(path.join(project.folder, 'libsodium.wasm'), path.join(folder, 'libsodium.wasm'));
          writeFileSync(
            path.join(folder, 'config.capnp'),
            `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [
    (name = "main.js", esModule = embed "main.js"),
    (name = "wasm.js", esModule = embed "wasm.js"),
    (name = "calls.js", esModule = embed "calls.js"),
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "libsodium-wrappers", esModule = embed "sodium.js"),
    (name = "drs-verify/pure", esModule = embed "pure.js"),
    (name = "libsodium.wasm", wasm = embed "libsodium.wasm"),
  ],
  compatibilityDate = "2026-01-01",
);`,
          );
          return ['serve', 'config.capnp'];
        },
      );
      try {
        const asks = invoke(makeChain(2), { tool_server: 'https://tools.example' });
        const asked = await fetch(worker.url, { method: 'POST', body: JSON.stringify(asks) });
        expect(await asked.json()).toMatchObject({ valid: true });
        const answer = await fetch(worker.url);
        const text = await answer.text();
        expect(text.startsWith('{') ? JSON.parse(text) : text).toEqual({ ...EXPECTED, vectors: all });
        // No request may wait for an exchange of another: it is cancelled when that one is answered.
        const many = Array.from({ length: 20 }, async () => (await fetch(`${worker.url}/shared`)).json());
        expect(new Set(await Promise.all(many))).toEqual(new Set(['MALFORMED_BUNDLE']));
      } finally {
        await worker.stop();
      }
    });

    it('work in Chromium', needs('chromium'), async () => {
      const browser = await launchBrowser();
      try {
        const page = await browser.newPage();
        page.setDefaultTimeout(PATIENCE);
        await page.route(`${PAGE}/**`, async (route) => {
          const { pathname } = new URL(route.request().url());
          // The service has no CORS headers: a page reaches it under its own origin, through a proxy.
          if (pathname === '/verify')
            await route.fulfill({ response: await route.fetch({ url: `${service.url}/verify` }) });
          else if (pathname === '/away/verify')
            await route.fulfill({ status: 307, headers: { location: `${PAGE}/verify` } });
          else if (pathname === '/code.js')
            await route.fulfill({ contentType: 'text/javascript', body: code });
          else if (pathname === '/gate.js')
            await route.fulfill({ contentType: 'text/javascript', body: gateCode });
          else await route.fulfill({ contentType: 'text/html', body: '' });
        });
        await page.goto(PAGE);
        const answer = await page.evaluate(
          `import('/code.js').then(async ({ runCalls, runVectors, runInPage }) => (
            { ...await runCalls(location.origin, location.origin + '/away'), vectors: await runVectors(), inPage: await runInPage() }))`,
        );
        expect(answer).toEqual({ ...EXPECTED, vectors: all, inPage: all });
        const decided = { decisions: gate.length, differences: [] };
        expect(
          await page.evaluate(`import('/gate.js').then(({ runGate }) => runGate(${JSON.stringify(gate)}))`),
        ).toEqual(decided);
        // The same code in Node, with its own platform and libsodium.
        expect(await runGateVectors(sodium, gate)).toEqual(decided);
      } finally {
        await browser.close();
      }
    });
  });
});

it('the types need none of Node', async () => {
  const page = Project.create();
  page.install('libsodium-wrappers');
  page.write(
    'page.ts',
    `import { DrsClient } from 'drs-verify/client';
import { issueInvocation, webCryptoSigner } from 'drs-verify/issue';
import { createVerifier } from 'drs-verify/pure';
import sodium from 'libsodium-wrappers';
const pair = (await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify'])) as CryptoKeyPair;
const call = { key: await webCryptoSigner(pair), chain: [], args: {}, toolServer: 'https://tools.example' };
const jwt: string = await issueInvocation(call);
await sodium.ready;
const { valid } = await createVerifier({ sodium }).verify({ receipts: [], invocation: jwt });
console.log(valid, new DrsClient(location.origin));
`,
  );
  page.write('tsconfig.json', JSON.stringify({ compilerOptions: OF_A_PAGE, files: ['page.ts'] }));
  expect(await page.compile()).toBe('');
  page.remove();
});

const OF_A_PAGE = {
  module: 'esnext',
  moduleResolution: 'bundler',
  target: 'es2023',
  lib: ['es2024', 'dom', 'dom.iterable'],
  types: [],
};

/** Kilobytes, minified and gzipped. */
it.each([
  ['drs-verify/issue', '*', 23.2],
  ['drs-verify/issue', '{ issueInvocation, createBundle, encodeBundle, webCryptoSigner }', 20],
  ['drs-verify/client', '*', 5],
  ['drs-verify/pure', '*', 26.8],
])('of %s, %s is small', async (from, names, limit) => {
  expect(gzippedKb(await bundle(`export ${names} from '${from}';`))).toBeLessThanOrEqual(limit);
});
