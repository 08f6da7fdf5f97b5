// Counts the files of dist that a request passes on the main thread, and how often it changes file: `npm run build && node
// scripts/walk.mjs`; with --list, also which and in which order. The service runs in this process, set up by the environment as
// always. A hook has each function of dist note its file when it is entered. A request changes file where the next function that
// is entered is in another file. It is the shortest of nine warm requests, so that neither the start nor a timer counts.
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { register } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';
import ts from 'typescript';

const ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}';
const DIST = new URL('../dist/', import.meta.url).href;

/** Has each function of a module note its file. @type {import('node:module').LoadHook} */
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.startsWith(DIST) || loaded.format !== 'module') return loaded;
  // Of a module from a file, these are bytes.
  const text = Buffer.from(/** @type {Uint8Array} */ (loaded.source)).toString();
  const source = ts.createSourceFile('x.js', text, ts.ScriptTarget.Latest, false, ts.ScriptKind.JS);
  /** @type {[at: number, inserted: string][]} */
  const inserts = [];
  const note = `(globalThis.walked?.push(${JSON.stringify(url.slice(DIST.length))}))`;
  /** @param {ts.Node} node */
  const visit = (node) => {
    const body = ts.isFunctionLike(node) && 'body' in node ? node.body : undefined;
    if (body !== undefined && ts.isBlock(body)) inserts.push([body.getStart(source) + 1, `${note};`]);
    else if (body !== undefined) inserts.push([body.getFullStart(), `(${note},`], [body.getEnd(), ')']);
    ts.forEachChild(node, visit);
  };
  visit(source);
  let instrumented = text;
  for (const [at, inserted] of inserts.toSorted(([one], [other]) => other - one))
    instrumented = instrumented.slice(0, at) + inserted + instrumented.slice(at);
  return { ...loaded, source: instrumented };
}

/** Sends requests of each kind, and says what they pass. */
async function walk() {
  register(import.meta.url);
  const { pino } = await import('pino');
  const issue = await import('../dist/issue/index.js');
  const { readConfiguration } = await import('../dist/service/configuration/configuration.js');
  const { startService } = await import('../dist/service/service.js');
  const token = 'a-token-for-this-walk';
  const configuration = readConfiguration({
    PORT: '0',
    SERVER_IDENTITY: 'any',
    DRS_ADMIN_TOKEN: token,
    ...process.env,
  });
  const service = await startService(configuration, pino({ level: 'silent' }, { write: () => undefined }));

  const [human, agent] = [issue.generateKey(), issue.generateKey()];
  const consent = issue.createConsent({ text: 'Search for me.', locale: 'en', method: 'explicit-ui-click' });
  const policy = { allowed_tools: ['search'], max_cost_usd: 5 };
  const root = { key: human, audience: agent.did, command: '/mcp/tools/call', policy, consent };
  const receipts = [await Promise.resolve(issue.issueRootDelegation(root))];
  const search = { query: 'weather', estimated_cost_usd: 0.02 };
  const params = { name: 'search', arguments: search };
  const mcpCall = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  const bundle = async () => {
    const call = { key: agent, chain: receipts, toolServer: agent.did, args: { tool: 'search', ...search } };
    return issue.createBundle({ receipts, invocation: await Promise.resolve(issue.issueInvocation(call)) });
  };

  // `drs-verify sign --to … --listen …` before a tool server that says yes.
  const tools = createServer((asked, answer) => {
    asked.resume().on('end', () => answer.setHeader('Content-Type', 'application/json').end(ANSWER));
  }).listen(0, '127.0.0.1');
  await once(tools, 'listening');
  const to = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (tools.address()).port}/mcp`;
  const { destinationOf } = await import('../dist/relay/http-target.js');
  const { listenAndSign } = await import('../dist/relay/sign-http.js');
  const { mcpSigner, openDelegations } = await import('../dist/relay/sign.js');
  const signCall = await openDelegations(agent, ['chain'], () => Promise.resolve(receipts), to);
  const signing = new URL(
    await listenAndSign({
      listen: '127.0.0.1:0',
      allowHost: [],
      allowOrigin: [],
      allowAddress: [],
      destination: destinationOf(to, 'mcp', { isLocal: true }),
      protocol: 'mcp',
      signer: mcpSigner(signCall, new Set()),
      signCall,
      headers: {},
    }),
  );

  /** Sends a request, and gives the files of the functions that it has entered. @type {(path: string, body: string, headers: Record<string, string>, port?: number) => Promise<string[]>} */
  const passedBy = async (path, body, headers, port = service.port) => {
    /** @type {string[]} */
    const walked = [];
    Object.assign(globalThis, { walked });
    const all = { 'Content-Type': 'application/json', ...headers };
    const sent = request({ host: '127.0.0.1', port, method: 'POST', path, headers: all }).end(body);
    const [answer] = /** @type {[import('node:http').IncomingMessage]} */ (await once(sent, 'response'));
    if (answer.resume().statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}, not 200`);
    await sleep(20);
    Object.assign(globalThis, { walked: undefined });
    return walked;
  };
  let index = 0;
  const authorization = { Authorization: `Bearer ${token}` };
  const requests = {
    '/verify': async () => passedBy('/verify', JSON.stringify(await bundle()), {}),
    '/gate/mcp': async () =>
      passedBy('/gate/mcp', mcpCall, { 'X-DRS-Bundle': issue.encodeBundle(await bundle()) }),
    '/admin/revoke': () =>
      passedBy('/admin/revoke', JSON.stringify({ status_list_index: index++ }), authorization),
    'sign over HTTP': () => passedBy('/mcp', mcpCall, {}, Number(signing.port)),
  };
  for (const [path, send] of Object.entries(requests)) {
    for (let at = 0; at < 20; at++) await send();
    /** @type {string[][]} */
    const walks = [];
    for (let at = 0; at < 9; at++)
      walks.push((await send()).filter((file, now, all) => file !== all[now - 1]));
    const [shortest = []] = walks.toSorted((one, other) => one.length - other.length);
    const files = new Set(shortest);
    console.log(`${path}: ${files.size} files, ${Math.max(0, shortest.length - 1)} changes of file`);
    if (process.argv.includes('--list'))
      console.log(`  ${[...files].sort().join('\n  ')}\n  ${shortest.join(' > ')}`);
  }
  await service.close(true);
  // The relay ends with its process.
  process.exit();
}

if (isMainThread) await walk();
