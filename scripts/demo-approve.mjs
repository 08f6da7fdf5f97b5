// A person's yes, as a story in the terminal: `npm run demo:approve`. Needs Chromium, whose virtual authenticators are the
// passkeys. MCP servers of two generations run behind `guard` and `sign`, and clients of both SDKs call them: none knows of it.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { chromium } from 'playwright-core';
import { unusedPort } from '../test/support/ports.mjs';

const DRS = fileURLToPath(new URL('drs.mjs', import.meta.url));
const FILES = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-filesystem/dist/index.js'));
const NEWEST = fileURLToPath(new URL('../test/relay/mcp-server.mjs', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'drs-demo-approve-'));
const at = (/** @type {string} */ name) => path.join(folder, name);
const say = (/** @type {string} */ line) => console.log(line);
/** @param {...string} args */
const drs = (...args) =>
  execFileSync(process.execPath, [DRS, ...args], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();

const origin = `http://localhost:${await unusedPort()}`;
const alice = drs('keygen', '-o', 'alice.key');
drs('keygen', '-o', 'bot.key');
const logKey = drs('keygen', '-o', 'log.key');
// prettier-ignore
drs('issue', '--key', 'alice.key', '--to', 'bot.pub', '--tool', '*', '--ask-before', 'write_file', '--ask-before', 'search', '--expires', '1h', '--yes', '-o', 'bot.jwt');
mkdirSync(at('files'));

/** @param {string} file */
function seedIn(file) {
  return /** @type {{ d: string }} */ (JSON.parse(readFileSync(at(file), 'utf8'))).d;
}

/** @param {object} more */
function writeRoots(more) {
  writeFileSync(at('roots.new'), JSON.stringify({ did: alice, name: 'alice@example.com', ...more }));
  renameSync(at('roots.new'), at('roots.jsonl'));
}
writeRoots({});

/** What an MCP host starts in place of its server. @param {...string} server */
const start = (...server) => ({
  command: process.execPath,
  // prettier-ignore
  args: [
    DRS, 'sign', '--key', 'bot.key', '--chain', 'bot.jwt', '--tool-server', 'stdio:demo', '--',
    process.execPath, DRS, 'guard', '--tool-server', 'stdio:demo', '--', process.execPath, ...server,
  ],
  cwd: folder,
  stderr: /** @type {const} */ ('ignore'),
  env: {
    PATH: process.env['PATH'] ?? '',
    DRS_TRUSTED_ROOTS_FILE: at('roots.jsonl'),
    DRS_APPROVALS_URL: origin,
    DRS_DECISION_LOG: at('decisions.jsonl'),
    DRS_DECISION_LOG_KEY: seedIn('log.key'),
    DRS_DECISION_LOG_BUNDLES: '1',
  },
});
const INFO = { name: 'demo', version: '1.0.0' };

async function openFiles() {
  const client = new OldClient(INFO);
  await client.connect(new OldTransport(start(FILES, at('files'))));
  return client;
}

/** @param {(url: string) => Promise<void>} [open] a client with it opens links by itself (elicitation) */
async function openNewest(open) {
  const client = new Client(INFO, {
    versionNegotiation: { mode: 'auto' },
    capabilities: open === undefined ? {} : { elicitation: { url: {} } },
  });
  if (open !== undefined)
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      if ('url' in params) await open(params.url);
      return { action: 'accept' };
    });
  await client.connect(new StdioClientTransport(start(NEWEST, '2.x')));
  say(`   the client and its server speak MCP ${client.getNegotiatedProtocolVersion() ?? ''}`);
  return client;
}

const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
});

/** A person with a passkey. @param {string} name @param {number} algorithm the only one that the device has */
async function openDevice(name, algorithm) {
  const context = await browser.newContext();
  await context.addInitScript(`{
    const create = CredentialsContainer.prototype.create;
    CredentialsContainer.prototype.create = function (options) {
      options.publicKey.pubKeyCredParams = options.publicKey.pubKeyCredParams.filter(({ alg }) => alg === ${algorithm});
      return create.call(this, options);
    };
  }`);
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return {
    register: async () => {
      await page.goto(`${origin}/approve/register`);
      await page.getByLabel('Your name').fill(name);
      await page.click('button:has-text("Make a passkey")');
      const line = await page.getByLabel('The line for approvers').inputValue();
      say(`   ${name}'s line for the operator: ${line}`);
      return /** @type {unknown} */ (JSON.parse(line));
    },
    /** @param {string} link @param {'Yes, this call' | 'No'} answer */
    answer: async (link, answer) => {
      await page.goto(link);
      say(`   ${name} reads: ${await page.innerText('.wish h2')}`);
      await page.click(`button:text-is("${answer}")`);
      await page.waitForSelector('h2:text-matches("^You said")');
      say(`   ${name} presses "${answer}": ${await page.innerText('.answer [role=status] p')}`);
    },
  };
}

/** @typedef {{ callTool(call: { name: string, arguments: Record<string, unknown> }): Promise<unknown> }} AnyClient */

/**
 * @param {AnyClient} client
 * @param {string} name
 * @param {Record<string, unknown>} args
 * @returns {Promise<{ code: string, link: string }>} what its host shows
 */
async function call(client, name, args) {
  const said = await client.callTool({ name, arguments: args }).then(JSON.stringify, String);
  const [link = ''] = /http:\/\/localhost:\d+\/approve\/[\w-]{22}/.exec(said) ?? [];
  const [code = 'done'] = /APPROVAL_\w+/.exec(said) ?? [];
  say(`   the agent calls ${name} ${JSON.stringify(args)}: ${code} ${link}`);
  return { code, link };
}

/** @param {AnyClient} client @param {string} content */
const write = (client, content) => call(client, 'write_file', { path: at('files/note.txt'), content });

/** Calls until the guard has read the file of roots. @param {AnyClient} client @param {string} content */
async function whenAsked(client, content) {
  for (let left = 20; left > 0; left--) {
    const said = await write(client, content);
    if (said.link !== '') return said;
    await pause(1000);
  }
  throw new Error('the guard asks nobody');
}

/** @param {string} what @param {unknown} found @param {unknown} wanted */
function expect(what, found, wanted) {
  if (found !== wanted) throw new Error(`${what}: ${String(found)}, expected ${String(wanted)}`);
}

try {
  const [her, him] = [await openDevice('Alice', -8), await openDevice('Bob', -7)];

  say('\n1. Nobody can say yes yet: the operator asks for passkeys');
  const files = await openFiles();
  const approvers = [await her.register(), await him.register()];
  writeRoots({ approvers });

  say('\n2. A call waits for a yes. She says no');
  const first = await whenAsked(files, 'one');
  await her.answer(first.link, 'No');
  expect('after a no', (await write(files, 'one')).code, 'APPROVAL_DENIED');

  say('\n3. Another call. She says yes to exactly this one, and it goes through once');
  await her.answer((await write(files, 'two')).link, 'Yes, this call');
  expect('another call', (await write(files, 'three')).code, 'APPROVAL_REQUIRED');
  expect('after a yes', (await write(files, 'two')).code, 'done');
  expect('the file', readFileSync(at('files/note.txt'), 'utf8'), 'two');
  expect('again', (await write(files, 'two')).code, 'APPROVAL_REQUIRED');
  await files.close();

  say('\n4. A client of the newest MCP gets the link as text');
  const plain = await openNewest();
  await her.answer((await call(plain, 'search', { query: 'tea' })).link, 'Yes, this call');
  expect('after a yes', (await call(plain, 'search', { query: 'tea' })).code, 'done');
  await plain.close();

  say('\n5. One that opens links by itself asks her in the middle of its call');
  const able = await openNewest((url) => her.answer(url, 'Yes, this call'));
  expect('with elicitation', (await call(able, 'search', { query: 'coffee' })).code, 'done');
  await able.close();

  say('\n6. Four eyes: two persons are needed');
  writeRoots({ approvers, needed: 2 });
  const last = await openFiles();
  const { link } = await whenAsked(last, 'four');
  await her.answer(link, 'Yes, this call');
  expect('one yes of two', (await write(last, 'four')).code, 'APPROVAL_REQUIRED');
  await him.answer(link, 'Yes, this call');
  expect('two yeses', (await write(last, 'four')).code, 'done');
  await last.close();

  say('\n7. The log proves who said yes to what, and that nobody has changed it since');
  /** @typedef {{ bundle?: object, approval?: { statement: string, digest: string, by?: unknown[] } }} Line */
  const lines = readFileSync(at('decisions.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => /** @type {Line} */ (JSON.parse(line)));
  const used = lines.findLast(({ bundle, approval }) => bundle !== undefined && approval?.by?.length === 2);
  writeFileSync(at('call.json'), JSON.stringify(used?.bundle));
  const yeses = lines.filter(
    ({ approval }) => approval !== undefined && approval.digest === used?.approval?.statement,
  );
  expect('yeses to the last call', yeses.length, 2);
  for (const yes of yeses) {
    writeFileSync(at('yes.json'), JSON.stringify(yes));
    const [said] =
      /^approved .*/m.exec(drs('audit', 'call.json', '--approval', 'yes.json', '--roots', 'roots.jsonl')) ??
      [];
    say(`   ${said ?? 'no proof'}`);
  }
  say(`   ${drs('log', 'check', 'decisions.jsonl', '--key', logKey)}`);
  say('\nAll as it should be.');
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
