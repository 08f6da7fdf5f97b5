// MCP's official conformance suite (@modelcontextprotocol/conformance), against a server on the SDK directly, and through `sign --listen`
// and `guard`: no check may fail through them that passes directly. `npm run conformance:mcp`; the suite needs Node 22 or newer.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createConsent, generateKey, issueRootDelegation } from '../../src/issue/index.js';
import { unusedPort } from '../../test/support/ports.mjs';
import { startServer } from './server.js';

const SUITE = '@modelcontextprotocol/conformance@0.2.0-alpha.12';
const REVISIONS = ['2025-11-25', '2026-07-28'];
const DRS = fileURLToPath(new URL('../../../scripts/drs.mjs', import.meta.url));
const TOOL_SERVER = 'https://conformance.example';

const run = promisify(execFile);
const folder = mkdtempSync(path.join(tmpdir(), 'drs-conformance-'));
const at = (name: string) => path.join(folder, name);

/** The status of each check of one run, by scenario and check. */
async function runSuite(url: string, revision: string, name: string): Promise<Map<string, string>> {
  const program = at('node_modules/@modelcontextprotocol/conformance/dist/index.js');
  const args = [program, 'server', '--url', url, '--requirements', revision, '--output-dir', at(name)];
  // It exits with 1 where a check fails, also one that is not scored.
  await run(process.execPath, args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 }).catch((error: unknown) => {
    if (typeof (error as { code?: unknown }).code !== 'number') throw error;
  });
  const checks = new Map<string, string>();
  for (const entry of readdirSync(at(name), { recursive: true, encoding: 'utf8' })) {
    if (path.basename(entry) !== 'checks.json') continue;
    const scenario = path.basename(path.dirname(entry)).replace(/^server-|-\d{4}-\d\d-\d\dT.*$/g, '');
    const found = JSON.parse(readFileSync(path.join(at(name), entry), 'utf8')) as {
      id: string;
      status: string;
    }[];
    for (const [index, { id, status }] of found.entries()) checks.set(`${scenario} ${id} ${index}`, status);
  }
  return checks;
}

/** Starts a command of ours, and waits for its port. @returns what ends it */
async function startCommand(port: number, ...args: string[]): Promise<() => void> {
  const child = spawn(process.execPath, [DRS, ...args, '--listen', `127.0.0.1:${port}`], {
    env: { PATH: process.env['PATH'], DRS_LOG_LEVEL: 'error' },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const ended = once(child, 'exit').then(() => {
    throw new Error(`${args[0]} has ended`);
  });
  const listening = async () => {
    // Any answer will do: it is there.
    while ((await fetch(`http://127.0.0.1:${port}/`).catch(() => null)) === null)
      await new Promise((resolve) => setTimeout(resolve, 50));
  };
  await Promise.race([listening(), ended]);
  ended.catch(() => undefined);
  return () => child.kill();
}

const stops: (() => void)[] = [];
try {
  await run('npm', ['install', '--prefix', folder, '--no-save', '--no-audit', '--no-fund', SUITE]);
  const server = await startServer();
  stops.push(server.close);
  const [principal, agent] = [generateKey(), generateKey()];
  writeFileSync(at('agent.key'), JSON.stringify(agent.toJwk()), { mode: 0o600 });
  const consent = createConsent({ text: 'Yes.', locale: 'en', method: 'explicit-ui-click' });
  const receipt = await issueRootDelegation({
    key: principal,
    audience: agent.did,
    command: '/mcp',
    policy: {},
    consent,
  });
  writeFileSync(at('chain.jwt'), `${receipt}\n`);
  const [guard, sign] = [await unusedPort(), await unusedPort()];
  const guardOptions = ['--trusted-root', principal.did, '--tool-server', TOOL_SERVER, '--to', server.url];
  stops.push(await startCommand(guard, 'guard', ...guardOptions));
  const signed = ['--key', at('agent.key'), '--chain', at('chain.jwt'), '--tool-server', TOOL_SERVER];
  stops.push(await startCommand(sign, 'sign', ...signed, '--to', `http://127.0.0.1:${guard}/mcp`));
  for (const revision of REVISIONS) {
    const direct = await runSuite(server.url, revision, `direct-${revision}`);
    const through = await runSuite(`http://127.0.0.1:${sign}/mcp`, revision, `through-${revision}`);
    const count = (checks: Map<string, string>, wanted: string) =>
      [...checks.values()].filter((status) => status === wanted).length;
    const passed = count(direct, 'SUCCESS');
    console.log(
      `${revision}: ${passed} checks pass directly, ${count(through, 'SUCCESS')} through sign and guard`,
    );
    // Extensions that the SDK does not have, such as tasks.
    console.log(`${revision}: ${count(direct, 'FAILURE')} fail directly, and are not compared`);
    if (passed === 0) throw new Error('the suite has run nothing');
    for (const [check, status] of direct) {
      const found = through.get(check) ?? 'missing';
      if (status === 'FAILURE' || status === found) continue;
      console.log(`BAD ${check}: ${status} directly, ${found} through them`);
      process.exitCode = 1;
    }
  }
} finally {
  for (const stop of stops.reverse()) stop();
  rmSync(folder, { recursive: true, force: true });
}
