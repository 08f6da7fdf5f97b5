import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { once } from 'node:events';
import fc from 'fast-check';
import { importJWK, jwtVerify } from 'jose';
import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateKey, issueRootDelegation } from '../../src/issue/index.js';
import { signCalls, type Delegation } from '../../src/middleware/mcp/index.js';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { mcpChain } from '../gate/decide.js';
import { attemptOf, requests, type MadeRequest } from '../gate/requests.js';
import { askPure, askThrough } from '../gate/transports.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { unusedPort } from '../support/ports.mjs';
import { type Program } from '../support/programs.js';
import { startService } from '../support/service-in-process.js';
import { needsOf, openGuard, RECIPE, startRecipe, type Recipe } from './gate-proxies.js';
import { startToolServer, type ToolServer } from './gate-tools.js';

const toolServer = 'https://tools.example';
const agent = generateKey();
const principal = generateKey();

const delegation = async (): Promise<Delegation> => ({
  key: agent,
  toolServer,
  chain: [
    await issueRootDelegation({
      key: principal,
      audience: agent.did,
      command: '/mcp/tools/call',
      policy: { allowed_tools: ['search'] },
      rootType: 'organization',
      expiresAt: Math.floor(Date.now() / 1000) + 3600,
    }),
  ],
});

let tools: ToolServer;
let silent: Server;
const stops: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  tools = await startToolServer();
  // A gate that takes requests and never answers.
  silent = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
});
afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  silent.close();
  await tools.close();
});

const SPOOFED = {
  'X-DRS-Root-Principal': 'did:key:zBoss',
  'X-DRS-Root-Name': 'boss@example.com',
  'X-DRS-Root-Type': 'human',
  'X-DRS-Session-Id': 's-boss',
  'X-DRS-Correlation-Id': 'c-boss',
  'X-DRS-Approved-By': 'Boss',
  'X-DRS-Agent': 'did:key:zBoss',
  'X-DRS-Chain-Depth': '1',
  'X-DRS-Command': '/admin',
  'X-DRS-Tool': 'delete',
  'X-DRS-Invocation': 'inv:1',
  'X-DRS-Binding': 'match',
  'X-DRS-Context': 'eyJ.eyJ.x',
  'X-DRS-Observed': 'EXPIRED',
};

/** Asks for a stream of events. */
const EVENTS = { Accept: 'text/event-stream', 'Last-Event-ID': '0' };

const post = async (url: string, body: string, headers: Record<string, string> = {}) => {
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      Origin: 'https://app.example',
      ...headers,
    },
    body,
  });
  return { status: response.status, text: await response.text() };
};
const denied = (code: string, id: unknown = 7) =>
  expect.objectContaining({
    jsonrpc: '2.0',
    id,
    error: expect.objectContaining({
      code: -32010,
      // What a proxy writes itself has no detail.
      message: expect.stringMatching(new RegExp(`^DRS: ${code}(: .|$)`)) as unknown,
    }) as unknown,
  }) as unknown;
const lastHeaders = () => tools.requests.at(-1)?.headers ?? {};

const GOOD_REQUEST: MadeRequest = {
  ...{ protocol: 'mcp', method: 'POST', bundles: [], name: undefined, type: 'application/json', body: '' },
  isGood: true,
};

/** Starts a recipe in front of the tools, and ends it with the tests. */
async function start(recipe: Recipe, gatePort: number): Promise<Program> {
  const started = await startRecipe(recipe, gatePort, tools.port);
  stops.push(() => started.stop());
  return started;
}

/** Starts a recipe in front of the tools with a gate of its own, or with a guard where it needs one. */
async function startWith(recipe: Recipe, env: Record<string, string>): Promise<Program> {
  const all = { MAX_BODY_BYTES: '1048576', WORKER_THREADS: '0', ...env };
  const gate = recipe.isOfGuard === true ? await openGuard(tools.port, all) : await startService(all);
  stops.push(() => gate.stop());
  return start(recipe, gate.port);
}

/** Starts a recipe in front of the tools and a gate, once for all tests. */
const inFront = new Map<Recipe, Promise<Program>>();
function startOnce(recipe: Recipe): Promise<Program> {
  const started = inFront.get(recipe) ?? startWith(recipe, {});
  inFront.set(recipe, started);
  return started;
}

const RECIPES: readonly Recipe[] = Object.values(RECIPE);

for (const recipe of RECIPES)
  describe(`${recipe.folder} in front of an MCP server`, needsOf(recipe), () => {
    let proxy: Program;
    beforeAll(async () => {
      proxy = await startOnce(recipe);
    });

    it('passes handshakes and lists untouched, and signed calls with their context', async () => {
      for (const mode of ['legacy', 'auto'] as const) {
        const client = signCalls(
          new Client({ name: 'agent', version: '1.0.0' }, { versionNegotiation: { mode } }),
          await delegation(),
        );
        const transport = new StreamableHTTPClientTransport(new URL(`${proxy.url}/mcp`), {
          requestInit: { headers: SPOOFED },
        });
        await client.connect(transport);
        const { tools: listed } = await client.listTools();
        expect(listed.map(({ name }) => name)).toEqual(['search', 'fetch']);
        for (const name of Object.keys(SPOOFED)) expect(lastHeaders()).not.toHaveProperty(name.toLowerCase());
        const result = await client.callTool({ name: 'search', arguments: { query: 'tea' } });
        expect(result.content).toEqual([{ type: 'text', text: 'search: tea' }]);
        const call = tools.requests.findLast(({ headers }) => headers['x-drs-tool'] !== undefined);
        expect(call?.headers).toMatchObject({
          'x-drs-root-principal': principal.did,
          'x-drs-agent': agent.did,
          'x-drs-chain-depth': '1',
          'x-drs-command': '/mcp/tools/call',
          'x-drs-tool': 'search',
          'x-drs-binding': 'match',
        });
        expect(call?.headers).not.toHaveProperty('x-drs-context');
        await client.close();
      }
    });

    it('says of any request what the gate in this process says', { timeout: 60_000 }, async () => {
      const here = askPure();
      const there = askThrough(proxy.url, () => tools.requests.map(({ headers }) => headers));
      const decisions = new Set<string>();
      await fc.assert(
        fc.asyncProperty(requests('mcp'), async (made) => {
          const attempt = attemptOf(made);
          const said = await here('mcp', attempt);
          decisions.add(said.decision);
          expect(await there('mcp', attempt)).toEqual(said);
        }),
        {
          numRuns: 25,
          examples: [
            [GOOD_REQUEST],
            [{ ...GOOD_REQUEST, method: 'DELETE' }],
            [{ ...GOOD_REQUEST, method: 'DELETE', isGood: false, body: '' }],
            [{ ...GOOD_REQUEST, method: 'PUT' }],
            [{ ...GOOD_REQUEST, method: 'GET', bundles: [], isGood: false, body: '', type: undefined }],
          ],
        },
      );
      expect([...decisions].sort()).toEqual(['allow', 'deny', 'pass']);
    });

    it('carries 16 receipts and a body of 1 MB, and refuses a larger one', async () => {
      const deep = encode(liveCall(liveChain(16), { tool: 'search', query: 'deep' }));
      expect(deep.length).toBeGreaterThan(16_000);
      const sent = await post(proxy.url, toolCall({ arguments: { query: 'deep' } }), {
        'X-DRS-Bundle': deep,
      });
      expect(sent).toMatchObject({ status: 200, text: expect.stringContaining('search: deep') as string });
      expect(lastHeaders()).toMatchObject({ 'x-drs-chain-depth': '16' });
      expect(lastHeaders()).not.toHaveProperty('x-drs-bundle');

      const query = 'x'.repeat(360_000);
      const large = mcpBundle({ tool: 'search', query });
      const body = toolCall({ arguments: { query }, _meta: { 'X-DRS-Bundle': large } });
      expect(body.length).toBeGreaterThan(950_000);
      expect(body.length).toBeLessThan(1_048_576);
      expect(await post(proxy.url, body)).toMatchObject({ status: 200 });
      expect(tools.calls.at(-1)).toBe('search 360000');
      const before = tools.requests.length;
      const { status } = await post(
        proxy.url,
        body.replace('"id":7', `"id":7,"padding":"${'x'.repeat(200_000)}"`),
      ).catch(
        // The proxy may close before all is sent.
        () => ({ status: 413 }),
      );
      expect(status).toBe(413);
      expect(tools.requests).toHaveLength(before);
    });

    it('lets server-sent events through as they come', async () => {
      const response = await fetch(`${proxy.url}/mcp`, { headers: { ...EVENTS, ...SPOOFED } });
      expect(lastHeaders()).not.toHaveProperty('x-drs-agent');
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const read = async () => Buffer.from((await reader.read()).value ?? []).toString();
      expect(await read()).toBe('data: first\n\n');
      tools.release();
      expect(await read()).toBe('data: second\n\n');
    });
  });

describe('in front of a gate that signs', () => {
  const signer = generateKey();
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-proxies-'));
  beforeAll(() => {
    const root = { did: mcpChain.parties[0]?.did, name: 'Zoë@example.com' };
    writeFileSync(path.join(folder, 'roots.jsonl'), JSON.stringify(root));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  for (const recipe of RECIPES)
    it(
      `${recipe.folder} hands the signed context and the name of the root on, and nothing of the kind that the caller sent`,
      needsOf(recipe),
      async () => {
        const { d, ...jwk } = signer.toJwk();
        const proxy = await startWith(recipe, { GATE_SIGNING_KEY: d, TRUSTED_ROOTS_FILE: folder });
        const bundle = mcpBundle({ tool: 'search', query: 'tea' }, { tool_server: toolServer });
        const { status } = await post(proxy.url, toolCall(), { ...SPOOFED, 'X-DRS-Bundle': bundle });
        expect(status).toBe(200);
        const key = await importJWK(jwk, 'EdDSA');
        const { payload } = await jwtVerify(String(lastHeaders()['x-drs-context']), key, {
          ...{ audience: toolServer, issuer: signer.did, typ: 'drs-context+jwt', algorithms: ['EdDSA'] },
        });
        expect(payload).toMatchObject({ verdict: 'valid', tool: 'search', root_name: 'Zoë@example.com' });
        expect(lastHeaders()['x-drs-root-name']).toBe('=?base64?Wm/Dq0BleGFtcGxlLmNvbQ==?=');
      },
    );
});

for (const recipe of RECIPES)
  it(
    `${recipe.folder} tells a gate that limits callers who calls, whatever the caller says`,
    needsOf(recipe),
    async () => {
      const proxy = await startWith(recipe, { TRUST_PROXY: '1', RATE_LIMIT_PER_IP: '3' });
      const [one, other] = ['127.0.0.2', '127.0.0.3'];
      const call = async (localAddress: string, forged: string, headers = {}) => {
        const dispatcher = new Agent({ localAddress });
        const {
          body,
          statusCode,
          headers: answered,
        } = await request(`${proxy.url}/mcp`, {
          ...{ dispatcher, method: 'POST', body: toolCall() },
          headers: {
            ...{ 'X-Forwarded-For': forged, Forwarded: `for=${forged}`, 'X-Real-IP': forged },
            ...{ 'Content-Type': 'application/json', ...headers },
          },
        });
        const text = await body.text();
        await dispatcher.close();
        return { text, statusCode, retryAfter: answered['retry-after'] };
      };
      await call(other, '192.0.2.1', { 'X-DRS-Bundle': mcpBundle() });
      expect(lastHeaders()).toMatchObject({ 'x-forwarded-for': other });
      expect(lastHeaders()).not.toHaveProperty('forwarded');
      expect(lastHeaders()).not.toHaveProperty('x-real-ip');
      const answers = await Promise.all(Array.from({ length: 30 }, (_, at) => call(one, `192.0.2.${at}`)));
      const limited = answers.filter(({ text }) => !text.includes('MISSING_BUNDLE'));
      expect(limited.length).toBeGreaterThan(0);
      for (const { statusCode, text, retryAfter } of limited) {
        expect([statusCode, Number(retryAfter)]).toEqual([429, expect.toSatisfy((secs: number) => secs > 0)]);
        expect(text).toMatch(/rate_limited/i);
      }
      expect((await call(other, one)).text).toContain('MISSING_BUNDLE');
    },
  );

for (const recipe of RECIPES)
  it(
    `${recipe.folder} lets a client sign in at a tool server that wants a token`,
    needsOf(recipe),
    async () => {
      let url = '';
      const metadata = '/.well-known/oauth-protected-resource';
      const guarded = await startToolServer(({ url: asked = '', headers, socket }, res) => {
        const issuer = `http://127.0.0.1:${socket.localPort}`;
        const answer = (body: object) =>
          !!res.setHeader('Content-Type', 'application/json').end(JSON.stringify(body));
        if (asked.startsWith(metadata))
          return answer({ resource: `${url}/mcp`, authorization_servers: [issuer] });
        if (asked === '/.well-known/oauth-authorization-server')
          return answer({
            ...{ issuer, token_endpoint: `${issuer}/token`, authorization_endpoint: `${issuer}/ask` },
            ...{ response_types_supported: ['code'], grant_types_supported: ['client_credentials'] },
          });
        if (asked === '/token') return answer({ access_token: 't0ken', token_type: 'Bearer' });
        if (headers.authorization === 'Bearer t0ken') return false;
        const challenge = `Bearer resource_metadata="${url}${metadata}/mcp"`;
        return !!res.writeHead(401, { 'WWW-Authenticate': challenge }).end('{"error":"no token"}');
      });
      stops.push(() => guarded.close());
      const gate =
        recipe.isOfGuard === true
          ? await openGuard(guarded.port, {})
          : await startService({ SERVER_IDENTITY: 'any' });
      stops.push(() => gate.stop());
      const proxy = await startRecipe(recipe, gate.port, guarded.port);
      stops.push(() => proxy.stop());
      ({ url } = proxy);

      // As they are: the status, the challenge and the body of the tool server.
      const refused = await fetch(`${url}/mcp`, { headers: EVENTS });
      expect([refused.status, refused.headers.get('www-authenticate'), await refused.text()]).toEqual([
        401,
        `Bearer resource_metadata="${url}${metadata}/mcp"`,
        '{"error":"no token"}',
      ]);
      const authProvider = new ClientCredentialsProvider({
        ...{ clientId: 'agent', clientSecret: 's3cret', expectedIssuer: `http://127.0.0.1:${guarded.port}` },
      });
      const client = signCalls(new Client({ name: 'agent', version: '1.0.0' }), await delegation());
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { authProvider }));
      const called = await client.callTool({ name: 'search', arguments: { query: 'tea' } });
      expect(called.content).toEqual([{ type: 'text', text: 'search: tea' }]);
      await client.close();
      expect((await fetch(`${url}${metadata}`, { headers: SPOOFED })).status).toBe(200);
      const asked = guarded.requests.filter((one) => one.url.startsWith(metadata));
      expect(asked.map((one) => `${one.method} ${one.url}`)).toEqual([
        `GET ${metadata}/mcp`,
        `GET ${metadata}`,
      ]);
      expect(Object.keys(asked[1]?.headers ?? {}).filter((name) => name.startsWith('x-drs-'))).toEqual([]);
      for (const [path, method] of [
        [metadata, 'POST'],
        [`${metadata}?a=b`, 'GET'],
        [`${metadata}/mcp/x`, 'GET'],
        [`${metadata}/%6dcp`, 'GET'],
      ] as const)
        expect((await fetch(url + path, { method })).status, path).toBeGreaterThanOrEqual(400);
      expect(guarded.requests.filter((one) => one.url.startsWith(metadata))).toHaveLength(2);
    },
  );

// At once: what is slow takes its time. None of these calls gets to the tools.
describe.concurrent('while the gate is dead or slow', () => {
  for (const recipe of RECIPES)
    it(`${recipe.folder} refuses calls`, { timeout: 60_000, ...needsOf(recipe) }, async () => {
      const before = tools.requests.length;
      const slow = (silent.address() as { port: number }).port;
      // A guard that does not answer may have sent the call to a tool server that takes its time.
      const ports = recipe.isOfGuard === true ? [] : [slow];
      for (const port of [await unusedPort(), ...ports]) {
        const cut = await start(recipe, port);
        const { status, text } = await post(cut.url, toolCall(), { 'X-DRS-Bundle': mcpBundle() });
        expect(status).toBeGreaterThanOrEqual(400);
        if (recipe.isOfGuard === true) continue;
        expect(status).toBe(503);
        expect(JSON.parse(text)).toEqual(denied('VERIFIER_UNAVAILABLE', null));
      }
      expect(tools.requests).toHaveLength(before);
    });
});
