// Counts the files of dist that a request passes on the main thread, and how often it changes file: `npm run build && node
// scripts/walk.mjs`; with --list, also which and in which order. The service runs in this process, set up by the environment as
// always. A hook has each function of dist note its file when it is entered. A request changes file where the next function that
// is entered is in another file. It is the shortest of nine warm requests, so that neither the start nor a timer counts.
//
// The first count has every function. The second has no type guards (`value is T`) and no look-ups of headers, which nobody reads to
// follow a request; beside it, the same by rooms: the folders of dist, to two levels, such as `verify/blocks` or `service/http`.
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { register } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';
import ts from 'typescript';

const ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}';
const DIST = new URL('../dist/', import.meta.url).href;
/** Functions that look up a header, by their names. */
const LOOK_UPS = new Set(['header', 'headers', 'valuesOf', '#all']);
/** The files and the changes of file that issue 64 asks for. @type {Readonly<Record<string, string>>} */
const GOALS = { '/verify': '23 files, 53 changes', '/gate/mcp': '33 files, 90 changes' };
/** Stands before a file whose function does not count for the second count. */
const ASIDE = '?';

/** Has each function of a module note its file. @type {import('node:module').LoadHook} */
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.startsWith(DIST) || loaded.format !== 'module') return loaded;
  // Of a module from a file, these are bytes.
  const text = Buffer.from(/** @type {Uint8Array} */ (loaded.source)).toString();
  const source = ts.createSourceFile('x.js', text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const file = url.slice(DIST.length);
  const guards = typeGuardsOf(new URL(`../src/${file.replace(/js$/, 'ts')}`, import.meta.url));
  /** @type {[at: number, inserted: string][]} */
  const inserts = [];
  /** @param {ts.Node} node */
  const visit = (node) => {
    const body = ts.isFunctionLike(node) && 'body' in node ? node.body : undefined;
    const name = nameOf(node);
    const isAside = guards.has(name) || LOOK_UPS.has(name);
    const note = `(globalThis.walked?.push(${JSON.stringify(isAside ? ASIDE + file : file)}))`;
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

/** The name of a function, or of the constant or member that it is the value of; empty if there is none. @param {ts.Node} node */
function nameOf(node) {
  if (!ts.isFunctionLike(node)) return '';
  const { parent } = node;
  const isValue = ts.isVariableDeclaration(parent) || ts.isPropertyDeclaration(parent);
  return (node.name ?? (isValue ? parent.name : undefined))?.getText() ?? '';
}

/** The names of the type guards in a source. @param {URL} url */
function typeGuardsOf(url) {
  const source = ts.createSourceFile('x.ts', readFileSync(url, 'utf8'), ts.ScriptTarget.Latest, true);
  /** @type {Set<string>} */
  const names = new Set();
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (ts.isFunctionLike(node) && node.type !== undefined && ts.isTypePredicateNode(node.type))
      names.add(nameOf(node));
    ts.forEachChild(node, visit);
  };
  visit(source);
  return names;
}

/** Without those that follow their like. @param {readonly string[]} walked */
const changesOf = (walked) => walked.filter((place, at) => place !== walked[at - 1]);

/** @param {readonly string[]} walked @param {string} place */
function count(walked, place) {
  const changes = changesOf(walked);
  return `${new Set(changes).size} ${place}s, ${Math.max(0, changes.length - 1)} changes of ${place}`;
}

/** The room of a file. @param {string} file */
const roomOf = (file) => file.split('/').slice(0, -1).slice(0, 2).join('/');

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
    for (let at = 0; at < 9; at++) walks.push(await send());
    const [shortest = []] = walks.toSorted((one, other) => changesOf(one).length - changesOf(other).length);
    const all = shortest.map((file) => file.replace(ASIDE, ''));
    const main = shortest.filter((file) => !file.startsWith(ASIDE));
    const goal = GOALS[path] === undefined ? '' : ` (goal: ${GOALS[path]})`;
    console.log(`${path}: ${count(all, 'file')}${goal}`);
    console.log(`  without type guards and look-ups of headers: ${count(main, 'file')}${goal};`);
    console.log(`  by rooms: ${count(main.map(roomOf), 'room')}`);
    if (process.argv.includes('--list'))
      console.log(`  ${[...new Set(all)].sort().join('\n  ')}\n  ${changesOf(all).join(' > ')}`);
  }
  await service.close(true);
  // The relay ends with its process.
  process.exit();
}

if (isMainThread) await walk();
