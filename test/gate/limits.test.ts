import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import sodium from 'libsodium-wrappers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createVerifier, type ToolLine } from '../../src/index.js';
import { drsFetch } from '../../src/middleware/index.js';
import { createVerifier as createPureVerifier } from '../../src/pure/index.js';
import { encode, liveCall, liveChain, OPEN_ROUTE } from '../middleware/call.js';
import { ECHO, startGuard } from '../relay/guard-process.js';
import { LIMIT_ROWS } from '../support/limit-table.js';
import { startService, type RunningService } from '../support/service.js';
import { askGrpc, askProxy, askV1, type Ask } from './transports.js';

/** Members × stated, absent, of another type × what the operator says, at every door; `test/verify/tools.test.ts` has whose word counts. */

// Each row has a tool of its own, so that one file of the operator has all of them.
const ROWS = LIMIT_ROWS.map((row, at) => ({ ...row, tool: `tool-${at}` }));
type Row = (typeof ROWS)[number];
const LINES: ToolLine[] = ROWS.flatMap(({ tool, line }) => (line === null ? [] : [{ tool, ...line }]));
const EXPECTED = ROWS.map(({ name, by }) => `${name}: ${by === null ? 'allow' : 'POLICY_VIOLATION'}`);

/** A call of a row over a protocol: each door may see it once more. */
const COMMANDS = { http: '/calls', mcp: '/mcp/tools/call', a2a: '/a2a' } as const;
type Protocol = keyof typeof COMMANDS;
const chains = new Map<string, ReturnType<typeof liveChain>>();
const bundles = new Map<string, ReturnType<typeof liveCall>>();
function bundleOf({ policy, args, tool }: Row, protocol: Protocol) {
  const [root, own] = [JSON.stringify([protocol, policy]), `${protocol} ${tool}`];
  const chain = chains.get(root) ?? liveChain(2, { cmd: COMMANDS[protocol], policy });
  const cmd = protocol === 'a2a' ? `/a2a/${tool}` : COMMANDS[protocol];
  const bundle = bundles.get(own) ?? liveCall(chain, { tool, ...args }, { cmd });
  chains.set(root, chain);
  bundles.set(own, bundle);
  return bundle;
}

const rpc = (method: string, params: object, id: unknown = 1) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params });
const bodyOf = ({ tool, args }: Row, protocol: Protocol) => {
  if (protocol === 'http') return JSON.stringify({ tool, ...args });
  return protocol === 'mcp' ? rpc('tools/call', { name: tool, arguments: args }) : rpc(tool, args);
};

const folder = mkdtempSync(path.join(tmpdir(), 'drs-limits-'));
const file = path.join(folder, 'tools.jsonl');
const verifier = createVerifier({ workerThreads: 0, tools: LINES });
let service: RunningService;
let gateway: ReturnType<typeof askGrpc>;
beforeAll(async () => {
  writeFileSync(file, LINES.map((line) => JSON.stringify(line)).join('\n'));
  const env = { TOOLS_FILE: file, GATE_REPLAY: 'off', GATE_ROUTES: 'any', GRPC_PORT: '0' };
  service = await startService(env);
  gateway = askGrpc(service);
});
afterAll(async () => {
  gateway.close();
  await Promise.all([service.stop(), verifier.close()]);
  rmSync(folder, { recursive: true });
});

const codeOf = (verdict: { readonly error?: { readonly code: string } }) => verdict.error?.code ?? 'allow';
const judged = async (response: Response | undefined) =>
  codeOf((await response?.json()) as { error?: { code: string } });
const pure = async () => {
  await sodium.ready;
  return createPureVerifier({ sodium, tools: LINES });
};
const protect = drsFetch({ ...OPEN_ROUTE, verifier }, () => Response.json({}));

it.each<[string, (row: Row) => Promise<string>]>([
  ['the library', async (row) => codeOf(await verifier.verify(bundleOf(row, 'http')))],
  [
    'the library without native code',
    async (row) => codeOf(await (await pure()).verify(bundleOf(row, 'http'))),
  ],
  ['POST /verify', async (row) => judged(await service.post('/verify', bundleOf(row, 'http')))],
  [
    'middleware',
    async (row) => {
      const headers = { 'x-drs-bundle': encode(bundleOf(row, 'http')), 'content-type': 'application/json' };
      const request = { method: 'POST', headers, body: bodyOf(row, 'http') };
      return judged(await protect(new Request('http://x/', request)));
    },
  ],
])('every row holds for %s', async (_, ask) => {
  const found: string[] = [];
  for (const row of ROWS) found.push(`${row.name}: ${await ask(row)}`);
  expect(found).toEqual(EXPECTED);
});

it.each<[string, () => Ask]>([
  ['POST /v1/gate', () => askV1(service)],
  ['/gate/…', () => askProxy(service)],
  ['gRPC', () => gateway.ask],
])('every row holds for %s, over each protocol', async (_, door) => {
  const ask = door();
  for (const protocol of ['http', 'mcp', 'a2a'] as const) {
    const found: string[] = [];
    for (const row of ROWS) {
      const bundle = encode(bundleOf(row, protocol));
      const headers = [
        ['x-drs-bundle', bundle],
        ['content-type', 'application/json'],
      ] as const;
      const { decision, code } = await ask(protocol, { headers, body: bodyOf(row, protocol) });
      found.push(`${row.name}: ${decision === 'deny' ? code : decision}`);
    }
    expect([protocol, found]).toEqual([protocol, EXPECTED]);
  }
});

it('every row holds for drs-verify guard', async () => {
  const options = ['--trusted-root', 'any', '--tool-server', 'any', '--tools', file];
  const guard = startGuard(options, ECHO, { DRS_GATE_REPLAY: 'off' });
  for (const row of ROWS) {
    const _meta = { 'X-DRS-Bundle': encode(bundleOf(row, 'mcp')) };
    guard.say(rpc('tools/call', { name: row.tool, arguments: row.args, _meta }, row.tool));
  }
  // The server says of each call that it came, and answers it.
  const passed = EXPECTED.filter((row) => row.endsWith('allow')).length;
  const said = await guard.heard(ROWS.length + passed);
  guard.process.stdin?.end();
  await guard.ended;
  const denied = new Map(said.map(({ id, error }) => [id, error?.data.code]));
  expect(ROWS.map(({ name, tool }) => `${name}: ${denied.get(tool) ?? 'allow'}`)).toEqual(EXPECTED);
});
