// Packs the package and installs it elsewhere, as a user would: the right files, working entry points, types, command.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-package-'));

/** @param {string} command @param {string[]} args @param {string} [cwd] */
const run = (command, args, cwd = folder) =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

/** @type {(text: string) => unknown} */
const parse = JSON.parse;

try {
  const [packed] = /** @type {{ filename: string, files: { path: string }[] }[]} */ (
    parse(run('npm', ['pack', '--json', '--silent', '--pack-destination', folder], root))
  );
  if (packed === undefined) throw new Error('npm pack packed nothing');
  const files = packed.files.map(({ path: name }) => name);
  const allowed =
    /^(dist\/(?!cli\/demo).*\.(c?js|d\.ts)|scripts\/drs\.mjs|package\.json|README\.md|LICENSE|CHANGELOG\.md)$/;
  const stray = files.filter((name) => !allowed.test(name));
  if (stray.length > 0) throw new Error(`the package holds what it should not: ${stray.join(', ')}`);
  const manifest =
    /** @type {{ version: string, imports: Record<string, string>, exports: Record<string, string | { types: string, default: string }> }} */ (
      parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
    );
  for (const target of Object.values(manifest.imports)) {
    if (!files.includes(target.replace('./', '')))
      throw new Error(`started as a thread, but not in the package: ${target}`);
  }
  const entries = Object.entries(manifest.exports);
  for (const [, entry] of entries) {
    for (const target of typeof entry === 'string' ? [entry] : [entry.types, entry.default]) {
      if (!files.includes(target.replace('./', '')))
        throw new Error(`exported, but not in the package: ${target}`);
    }
  }

  writeFileSync(path.join(folder, 'package.json'), '{"type":"module","private":true}');
  run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline', packed.filename]);
  const version = run('npx', ['drs-verify', '--version']).trim();
  if (version !== manifest.version)
    throw new Error(`drs-verify --version says ${version}, expected ${manifest.version}`);

  // The middleware entries need peers that a user of them installs; these two stand alone.
  writeFileSync(
    path.join(folder, 'use.mts'),
    `import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { createVerifier, type Verdict } from 'drs-verify';
import { createBundle, createConsent, generateKey, issueInvocation, issueRootDelegation } from 'drs-verify/issue';
const [alice, bot] = [generateKey(), generateKey()];
const root = issueRootDelegation({
  key: alice,
  audience: bot.did,
  command: '/mcp/tools/call',
  policy: { allowed_tools: ['search'] },
  consent: createConsent({ text: 'Bot may search.', locale: 'en', method: 'explicit-ui-click', sessionId: 's-1' }),
});
const invocation = issueInvocation({ key: bot, chain: [root], args: { tool: 'search' }, toolServer: 'https://tools.example' });
for (const workerThreads of [0, 1]) {
  const verifier = createVerifier({ workerThreads });
  const verdict: Verdict = await verifier.verify(createBundle({ receipts: [root], invocation }), { body: { tool: 'search' } });
  await verifier.close();
  if (!verdict.valid || verdict.binding !== 'match') throw new Error(JSON.stringify(verdict));
}

// A status list that is long enough to be read on a thread of its own.
const bits = randomBytes(600_000);
bits[0] = 0xff;
const list = JSON.stringify({
  type: ['VerifiableCredential', 'BitstringStatusListCredential'],
  issuer: 'https://issuer.example',
  credentialSubject: {
    type: 'BitstringStatusList',
    statusPurpose: 'revocation',
    encodedList: 'u' + gzipSync(bits).toString('base64url'),
  },
});
const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'application/vc' }).end(list));
await once(server.listen(0, '127.0.0.1'), 'listening');
const { port } = server.address() as AddressInfo;
const verifier = createVerifier({
  statusListBaseUrl: 'http://127.0.0.1:' + port,
  statusFetchTimeoutMs: 10_000,
  workerThreads: 0,
});
const revocable = issueRootDelegation({
  key: alice,
  audience: bot.did,
  command: '/mcp/tools/call',
  policy: { allowed_tools: ['search'] },
  consent: createConsent({ text: 'Bot may search.', locale: 'en', method: 'explicit-ui-click', sessionId: 's-1' }),
  statusListIndex: 7,
});
const call = issueInvocation({ key: bot, chain: [revocable], args: { tool: 'search' }, toolServer: 'https://tools.example' });
const revoked = await verifier.verify(createBundle({ receipts: [revocable], invocation: call }));
await verifier.close();
server.close();
if (revoked.error?.code !== 'RECEIPT_REVOKED') throw new Error(JSON.stringify(revoked));
`,
  );
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const types = path.join(root, 'node_modules', '@types');
  run(process.execPath, [
    tsc,
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2023',
    '--skipLibCheck',
    'false',
    '--typeRoots',
    types,
    '--types',
    'node',
    'use.mts',
  ]);
  run(process.execPath, ['use.mjs']);
  console.log(
    `the package works when installed elsewhere: ${files.length} files, ${entries.length} entry points`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
