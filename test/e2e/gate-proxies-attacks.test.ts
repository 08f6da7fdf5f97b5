import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CONTEXT_HEADERS } from '../../src/gate/context.js';
import { rpcCodeOf } from '../gate/attacks.js';
import type { Program } from '../support/programs.js';
import { connectRaw } from '../support/raw-http.js';
import { startService, type RunningService } from '../support/service.js';
import { needsOf, openGuard, RECIPE, startRecipe, type Recipe } from './gate-proxies.js';
import { ATTACKS, outcomeFor, type Attack, type Name } from './gate-proxies-attacks.js';

/** A request that got to the tool server. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: readonly string[];
  readonly body: Buffer;
}

let gate: RunningService;
let server: Server;
let seen: Seen[] = [];
/** A tool server with the limits that node:http has by itself; it would switch protocols. */
beforeAll(async () => {
  gate = await startService({
    MAX_BODY_BYTES: '1048576',
    WORKER_THREADS: '0',
  });
  server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('error', () => undefined);
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { method = '', url = '', headers, rawTrailers: trailers } = req;
      seen.push({ method, url, headers, trailers, body: Buffer.concat(chunks) });
      res.end('ran');
    });
  }).on('upgrade', ({ method = '', url = '', headers }, socket) => {
    seen.push({ method, url, headers, trailers: [], body: Buffer.from('upgraded') });
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterAll(async () => {
  server.close();
  server.closeAllConnections();
  await gate.stop();
});

const RECIPES = Object.entries(RECIPE) as [Name, Recipe][];

/** What is the proxy's to take off. */
const TAKEN_OFF = [
  ...['x-drs-bundle', 'upgrade', 'http2-settings', 'te', 'keep-alive', 'proxy-connection', 'trailer'],
  ...['x-http-method-override', 'x-http-method', 'x-method-override', 'x-original-method'],
  ...['x-forwarded-method', 'x-original-uri', 'x-original-url', 'x-forwarded-uri', 'x-rewrite-url'],
];
const CONTEXT = CONTEXT_HEADERS.map((name) => name.toLowerCase());

const statusesIn = (answer: string) =>
  [...answer.matchAll(/HTTP\/1\.[01] (\d{3})/g)]
    .map(([, status]) => Number(status))
    .filter((status) => status !== 100);

async function send(proxy: Program, { bytes, leaves }: Attack): Promise<string> {
  const { socket, closed } = await connectRaw(Number(new URL(proxy.url).port));
  socket.write(bytes());
  if (leaves === true) socket.end();
  return closed;
}

for (const [name, recipe] of RECIPES)
  describe(`through ${name}`, needsOf(recipe), () => {
    let proxy: Program;
    let guard: { readonly port: number; readonly stop: () => Promise<void> } | null = null;
    beforeAll(async () => {
      const tools = (server.address() as AddressInfo).port;
      if (recipe.isOfGuard === true) guard = await openGuard(tools, { MAX_BODY_BYTES: '1048576' });
      proxy = await startRecipe(recipe, (guard ?? gate).port, tools);
    });
    afterAll(async () => {
      await proxy.stop();
      await guard?.stop();
    });

    it.each(ATTACKS.filter(({ by }) => by?.includes(name) ?? true))('$name', async (attack) => {
      seen = [];
      const outcome = outcomeFor(attack, name);
      const answer = await send(proxy, attack);
      const [status, ...later] = statusesIn(answer);
      expect(answer).not.toContain('HTTP/1.1 101');
      if ('status' in outcome) {
        expect([answer, seen]).toEqual([answer, []]);
        if (attack.leaves !== true || status !== undefined) expect([outcome.status].flat()).toContain(status);
        if (outcome.code !== undefined)
          expect(answer).toMatch(
            new RegExp(`"code":${rpcCodeOf(outcome.code)},"message":"DRS: ${outcome.code}`),
          );
        return;
      }
      expect([status, answer]).toEqual([200, answer]);
      const { then = [] } = attack;
      if (then.length > 0) expect(later.filter((one) => then.includes(one))).toHaveLength(1);
      expect(seen).toHaveLength(1);
      const [{ method, url, headers, trailers, body }] = seen as [Seen];
      expect([method, url, body.toString('latin1')]).toEqual([
        outcome.method,
        '/mcp',
        Buffer.from(outcome.body).toString('latin1'),
      ]);
      expect(trailers).toEqual([]);
      const names = Object.keys(headers).filter((one) => headers[one] !== '');
      expect(names.filter((one) => TAKEN_OFF.includes(one) || !/^[a-z0-9-]+$/.test(one))).toEqual([]);
      expect(headers['connection'] ?? 'keep-alive').toMatch(/^(?:keep-alive|close)$/i);
      const said = Object.fromEntries(
        names.filter((one) => CONTEXT.includes(one)).map((one) => [one, headers[one]]),
      );
      expect(said).toEqual(
        outcome.tool === undefined
          ? {}
          : {
              'x-drs-root-principal': expect.stringMatching(/^did:key:z6Mk/) as string,
              'x-drs-agent': expect.stringMatching(/^did:key:z6Mk/) as string,
              'x-drs-root-type': 'human',
              'x-drs-chain-depth': '2',
              'x-drs-command': '/mcp/tools/call',
              'x-drs-tool': outcome.tool,
              'x-drs-invocation': expect.stringMatching(/^inv:/) as string,
              'x-drs-binding': 'match',
            },
      );
    });
  });

/** What the proxies ask. */
describe('the question of', () => {
  const asked: { readonly url: string; readonly headers: IncomingHttpHeaders }[] = [];
  let witness: Server;
  beforeAll(async () => {
    witness = createServer(({ url = '', headers }, res) => {
      asked.push({ url, headers });
      res.writeHead(200, { 'X-DRS-Agent': 'did:key:z6Mk' }).end();
    });
    await once(witness.listen(0, '127.0.0.1'), 'listening');
  });
  afterAll(() => {
    witness.close();
    witness.closeAllConnections();
  });

  for (const [name, recipe] of RECIPES.filter(([, { isOfGuard }]) => isOfGuard !== true))
    it(
      `${name} has the path of the caller, whatever headers say, and nothing of its connection`,
      needsOf(recipe),
      async () => {
        const [to, tools] = [witness, server].map((one) => (one.address() as AddressInfo).port) as [
          number,
          number,
        ];
        const proxy = await startRecipe(recipe, to, tools);
        try {
          const before = asked.length;
          const lies = ['X-Original-URI', 'X-Original-URL', 'X-Forwarded-Uri']
            .concat('X-Original-Method', 'X-Forwarded-Method')
            .map((name) => `${name}: /admin`);
          const bytes = ['Connection: Upgrade, TE, close', 'Upgrade: h2c', 'TE: trailers', 'Accept: a/b']
            .concat(lies)
            .join('\r\n');
          const { socket, closed } = await connectRaw(Number(new URL(proxy.url).port));
          socket.write(`POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n${bytes}\r\n\r\n{}`);
          expect(await closed).toMatch(/^HTTP\/1\.1 200 /);
          const [{ url, headers }, ...more] = asked.slice(before) as [(typeof asked)[0]];
          expect(more).toEqual([]);
          expect(url).toBe('/gate/mcp');
          const given = (...names: string[]) => names.flatMap((name) => headers[name] ?? []);
          expect(given('x-original-uri', 'x-original-url', 'x-forwarded-uri')).toEqual(['/mcp']);
          expect(given('x-original-method', 'x-forwarded-method')).toEqual(['POST']);
          expect(given('upgrade', 'te', 'trailer', 'http2-settings')).toEqual([]);
          expect(headers['connection'] ?? 'close').toMatch(/^(?:keep-alive|close)$/i);
          expect(headers['accept']).toBe('a/b');
        } finally {
          await proxy.stop();
        }
      },
    );
});

const FAULTS = [
  {
    name: 'nginx',
    script: 'drs.js',
    line: 'r.variables.drs_method = r.method;',
    fault: 'throw new Error("a fault");',
  },
  {
    name: 'haproxy',
    script: 'drs.lua',
    line: 'local client = core.httpclient()',
    fault: 'error("a fault")',
  },
] as const;
for (const { name, script, line, fault } of FAULTS)
  it(`a fault in ${script} lets nothing pass`, needsOf(RECIPE[name]), async () => {
    const recipe: Recipe = RECIPE[name];
    let isPlanted = false;
    const faulty: Recipe = {
      ...recipe,
      adapt: (text, folder, file) => {
        const adapted = recipe.adapt?.(text, folder, file) ?? text;
        if (file !== script) return adapted;
        isPlanted = adapted.includes(line);
        return adapted.replace(line, fault);
      },
    };
    seen = [];
    const proxy = await startRecipe(faulty, gate.port, (server.address() as AddressInfo).port);
    try {
      const call = ATTACKS[0] as Attack;
      const [status] = statusesIn(await send(proxy, call));
      expect([isPlanted, seen]).toEqual([true, []]);
      expect([500, 503]).toContain(status);
    } finally {
      await proxy.stop();
    }
  });

it('has more than 30 attacks, each with a name of its own', () => {
  expect(ATTACKS.length).toBeGreaterThan(30);
  expect(new Set(ATTACKS.map(({ name }) => name)).size).toBe(ATTACKS.length);
});
