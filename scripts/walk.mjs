// Lists the files of dist that a request passes on the main thread: `npm run build && node scripts/walk.mjs`. The service runs in
// this process, set up by the environment as always. A file counts if a function of it is called (V8's coverage) in each of five
// requests after twenty like them, so that neither the start nor a timer counts.
import { once } from 'node:events';
import { request } from 'node:http';
import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import * as issue from '../dist/issue/index.js';
import { readConfiguration } from '../dist/service/configuration/configuration.js';
import { startService } from '../dist/service/service.js';

const configuration = readConfiguration({ PORT: '0', SERVER_IDENTITY: 'any', ...process.env });
const service = await startService(configuration, pino({ level: 'silent' }));
const dist = new URL('../dist/', import.meta.url).href;
const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true });

const [human, agent] = [issue.generateKey(), issue.generateKey()];
const consent = issue.createConsent({ text: 'Search for me.', locale: 'en', method: 'explicit-ui-click' });
const policy = { allowed_tools: ['search'], max_cost_usd: 5 };
const receipts = [
  await issue.issueRootDelegation({
    key: human,
    audience: agent.did,
    command: '/mcp/tools/call',
    policy,
    consent,
  }),
];
const search = { query: 'weather', estimated_cost_usd: 0.02 };
const params = { name: 'search', arguments: search };
const mcpCall = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
const bundle = async () => {
  const call = { key: agent, chain: receipts, toolServer: agent.did, args: { tool: 'search', ...search } };
  return issue.createBundle({ receipts, invocation: await issue.issueInvocation(call) });
};
/** @param {{ ranges: { count: number }[] }} counted */
const isCalled = ({ ranges: [whole] }) => whole !== undefined && whole.count > 0;

/** Sends a request. @type {(path: string, body: string, headers: Record<string, string>) => Promise<Set<string>>} */
async function passedBy(path, body, headers) {
  await session.post('Profiler.takePreciseCoverage');
  const all = { 'Content-Type': 'application/json', ...headers };
  const sent = request({ port: service.port, method: 'POST', path, headers: all }).end(body);
  const [answer] = /** @type {[import('node:http').IncomingMessage]} */ (await once(sent, 'response'));
  if (answer.resume().statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}, not 200`);
  await sleep(20);
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const files = result.filter(({ url, functions }) => url.startsWith(dist) && functions.some(isCalled));
  return new Set(files.map(({ url }) => url.slice(dist.length)));
}
const requests = {
  '/verify': async () => passedBy('/verify', JSON.stringify(await bundle()), {}),
  '/gate/mcp': async () =>
    passedBy('/gate/mcp', mcpCall, { 'X-DRS-Bundle': issue.encodeBundle(await bundle()) }),
};
for (const [path, send] of Object.entries(requests)) {
  for (let at = 0; at < 20; at++) await send();
  const [first, ...others] = [await send(), await send(), await send(), await send(), await send()];
  const files = [...first].filter((file) => others.every((take) => take.has(file)));
  console.log(`${path}: ${files.length} files\n  ${files.sort().join('\n  ')}`);
}
await service.close(true);
