import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';
import {
  a2aBundle,
  a2aCall,
  ATTACKS,
  headersOfNewest,
  httpCall,
  mcpBundle,
  mcpRequest,
  newest,
  requestBundle,
  restBundle,
  rpcCodeOf,
  toolCall,
  type Attack,
  type Transport,
} from './attacks.js';
import { verifier } from './decide.js';
import { attemptOf, requests } from './requests.js';
import { askGrpc, askMiddleware, askProxy, askPure, askV1, untimed, type Ask } from './transports.js';

const TRANSPORTS: readonly Transport[] = ['pure', 'middleware', 'v1', 'proxy', 'grpc'];
const { MUTATION_RUN, MUTATED_FOLDER } = process.env;
/** In a mutation run: those that run the folder in which faults are planted. */
const tried = TRANSPORTS.filter(
  (way) => MUTATION_RUN === undefined || (way === 'pure') === (MUTATED_FOLDER === 'gate'),
);
let service: RunningService | undefined;
const clients: { close(): void }[] = [];
let middleware: { ask: Ask; close: () => Promise<void> } | undefined;
const ways = new Map<Transport, Ask>();

beforeAll(async () => {
  ways.set('pure', askPure());
  if (tried.length === 1) return;
  [service, middleware] = await Promise.all([startService({ GRPC_PORT: '0' }), askMiddleware()]);
  ways.set('middleware', middleware.ask);
  ways.set('v1', askV1(service));
  ways.set('proxy', askProxy(service));
  const envoy = askGrpc(service);
  clients.push(envoy);
  ways.set('grpc', envoy.ask);
});
afterAll(async () => {
  for (const client of clients) client.close();
  await Promise.all([service?.stop(), middleware?.close(), verifier.close()]);
});

/** The middleware for MCP is inside the SDKs, and has a table of its own. */
const carries = (transport: Transport, { protocol, by = TRANSPORTS }: Attack) =>
  by.includes(transport) && !(transport === 'middleware' && protocol === 'mcp');

const readBundle = () => requestBundle('resources/read', { resource_uri: 'file:///a/b' });

it('there are enough attacks, each with a name of its own, and each is tried somewhere', () => {
  expect(ATTACKS.length).toBeGreaterThan(120);
  const names = ATTACKS.map(({ protocol, name }) => `${protocol}: ${name}`);
  expect(new Set(names).size).toBe(names.length);
  expect(ATTACKS.filter((attack) => !TRANSPORTS.some((way) => carries(way, attack)))).toEqual([]);
});

describe.each(tried)('%s', (transport) => {
  const rows = ATTACKS.filter((attack) => carries(transport, attack));
  it.each(rows.map((row) => ({ title: `${row.protocol}: ${row.name}`, row })))(
    '$title',
    async ({ row: { protocol, attempt, outcome, twice, form = protocol } }) => {
      const ask = ways.get(transport) as Ask;
      const sent = attempt();
      if (twice === true) expect(await ask(protocol, sent)).toMatchObject({ decision: 'allow' });
      const said = await ask(protocol, sent);
      if (outcome === 'pass') {
        expect(said).toMatchObject({ decision: 'pass' });
        return;
      }
      const [status, code] = outcome;
      expect(said).toMatchObject({ decision: 'deny', status, code });
      if (code === '') return;
      if (form === 'http') {
        expect(said.body).toMatchObject({ error: { code } });
        expect(said.body).not.toHaveProperty('jsonrpc');
      } else {
        const { error } = said.body as { error: { message: string; data: Record<string, string> } };
        expect(said.body).toMatchObject({
          jsonrpc: '2.0',
          error: { code: rpcCodeOf(code), data: { code, status } },
        });
        // Many hosts show nothing but the message.
        expect(error.message).toBe(`DRS: ${code}: ${error.data['detail']}`);
        expect(error.data['detail']).toMatch(/\S/);
        expect(error.data['suggestion']).toMatch(/\S/);
        expect(JSON.stringify(error.data).length).toBeLessThan(2000);
      }
    },
  );

  it('allows what is signed', async () => {
    const ask = ways.get(transport) as Ask;
    const bundle = (value: string) => ({ headers: [['X-DRS-Bundle', value] as const] });
    if (transport !== 'middleware') {
      const read = { ...bundle(readBundle()), body: mcpRequest('resources/read', { uri: 'file:///a/b' }) };
      expect(await ask('mcp', read)).toMatchObject({ decision: 'allow' });
      const call = {
        headers: [['X-DRS-Bundle', mcpBundle()] as const, ...headersOfNewest()],
        body: newest(),
      };
      expect(await ask('mcp', call)).toMatchObject({ decision: 'allow' });
      expect(await ask('mcp', read)).toMatchObject({ decision: 'deny', code: 'REPLAY_DETECTED' });
    }
    expect(await ask('http', { ...bundle(mcpBundle()), body: httpCall })).toMatchObject({
      decision: 'allow',
    });
    expect(await ask('a2a', { ...bundle(a2aBundle()), body: a2aCall() })).toMatchObject({
      decision: 'allow',
    });
    const task = { method: 'GET', at: '/rest/tasks/7?historyLength=1' };
    const signed = restBundle('GetTask', { id: '7', historyLength: '1', path: '/rest' });
    expect(await ask('a2a', { ...task, ...bundle(signed) })).toMatchObject({ decision: 'allow' });
    const message = { message: { messageId: 'm1', parts: [{ text: 'hello' }] } };
    const rest = {
      ...{ at: '/message:send', body: JSON.stringify(message) },
      ...bundle(restBundle('SendMessage', message)),
    };
    expect(await ask('a2a', rest)).toMatchObject({ decision: 'allow' });
    const settings = { method: 'DELETE', at: '/a%20b/tasks/7/pushNotificationConfigs/8' };
    const ids = { taskId: '7', id: '8', path: '/a%20b' };
    expect(
      await ask('a2a', { ...settings, ...bundle(restBundle('DeleteTaskPushNotificationConfig', ids)) }),
    ).toMatchObject({ decision: 'allow' });
    if (transport === 'middleware') return;
    for (const id of [7, 0, -1, 1.5, 'seven', '', 2 ** 53 - 1]) {
      const sent = { ...bundle(mcpBundle()), body: toolCall({}, { id }) };
      expect(await ask('mcp', sent)).toMatchObject({ decision: 'allow' });
      expect(await ask('mcp', sent)).toMatchObject({ decision: 'deny', body: { id } });
    }
    if (transport !== 'pure') {
      const chunked = { ...bundle(mcpBundle()), body: toolCall(), isChunked: true } as const;
      expect(await ask('mcp', chunked)).toMatchObject({ decision: 'allow' });
    }
    const both = mcpBundle();
    const sent = { ...bundle(both), body: toolCall({ _meta: { 'xyz.okeyamy.drs/bundle': both } }) };
    expect(await ask('mcp', sent)).toMatchObject({ decision: 'allow' });
  });
});

describe.runIf(tried.length === TRANSPORTS.length)('the same request gets the same answer', () => {
  it('in this process, through /gate/* and over gRPC, whatever it is', async () => {
    const decisions = new Set<string>();
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          request: requests('http', 'a2a', 'mcp'),
          /** Who of them asks first: the other one finds the invocation used. */
          isGrpcFirst: fc.boolean(),
        }),
        async ({ request, isGrpcFirst }) => {
          const { protocol } = request;
          const attempt = attemptOf(request);
          const ask = async (way: Transport) => untimed(await (ways.get(way) as Ask)(protocol, attempt));
          const here = await ask(protocol === 'mcp' ? 'pure' : 'middleware');
          const [first, second] = isGrpcFirst ? (['grpc', 'proxy'] as const) : (['proxy', 'grpc'] as const);
          const there = await ask(first);
          decisions.add(`${here.decision} ${here.code}`);
          // The middleware knows whether there is a body; a proxy may not have sent it.
          const isEmpty = protocol === 'http' && attempt.body === '';
          expect(there).toEqual(isEmpty ? expect.objectContaining({ code: here.code }) : here);
          const again: unknown =
            here.decision === 'allow' ? expect.objectContaining({ code: 'REPLAY_DETECTED' }) : there;
          expect(await ask(second)).toEqual(again);
          expect(await ask('v1')).toEqual(again);
        },
      ),
      { numRuns: 150 },
    );
    expect(decisions.size).toBeGreaterThan(5);
    expect(decisions).toContain('allow ');
  });
});
