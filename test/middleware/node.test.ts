import { spawnSync } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { request, type RequestListener } from 'node:http';
import { fileURLToPath } from 'node:url';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import express from 'express';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import {
  BUNDLE_HEADER_ROOM,
  createMemoryReplayStore,
  drsContext,
  drsFetch,
  drsMiddleware,
  findDrsContext,
  type NodeMiddlewareOptions,
  type Outcome,
  type Refusal,
  type RefusedCall,
  type ToolCallEvent,
} from '../../src/middleware/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { encode, liveCall, liveChain, OPEN_ROUTE } from './call.js';
import { listen, send, type TestServer } from './http.js';
import { eventually } from '../support/eventually.js';
import { unusedPort } from '../support/ports.mjs';

const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const servers: TestServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});
const start = async (listener: RequestListener, options: object = {}) => {
  const server = await listen(listener, options);
  servers.push(server);
  return server;
};

const chain = liveChain();
const principal = chain.parties[0]?.did as string;
const args = { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 };
const good = JSON.stringify(args);
const header = (bundle: object = liveCall(chain, args)) => ['X-DRS-Bundle', encode(bundle)] as const;

/** A server whose handler tells what it found. */
const serve = (options: Partial<NodeMiddlewareOptions> = {}) => {
  const drs = drsMiddleware({ verifier, ...OPEN_ROUTE, ...options } as NodeMiddlewareOptions);
  return start((req, res) => {
    drs(req, res, (error) => {
      if (error !== undefined) {
        res.statusCode = 500;
        res.end((error as Error).message);
        return;
      }
      const chunks: Buffer[] = [];
      // Events of the request do not run in the context of the handler.
      const inside = findDrsContext();
      req.on('data', (chunk: Buffer) => chunks.push(chunk));
      req.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        res.end(JSON.stringify({ body, context: findDrsContext(req), inside }));
      });
    });
  });
};

describe('the body of a verified call', () => {
  it.each([
    ['in pieces', good.match(/.{1,7}/gs) ?? []],
    ['larger than the buffers on the way', [JSON.stringify({ text: 'é'.repeat(450_000) })]],
  ])('reaches the handler intact: %s', async (_, pieces) => {
    const { url } = await serve({ bindingMode: 'off' });
    const body = pieces.join('');
    expect(await send(url, [header()], pieces)).toMatchObject({ status: 200, body: { body } });
  });

  it('reaches a handler that iterates over it, and one that pipes it', async () => {
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE });
    const { url } = await start((req, res) => {
      drs(req, res, () => {
        if (req.url === '/pipe') req.pipe(res);
        else {
          void (async () => {
            for await (const chunk of req) res.write(chunk);
            res.end();
          })();
        }
      });
    });
    expect(await send(`${url}/pipe`, [header()], good)).toMatchObject({ status: 200, body: args });
    expect(await send(`${url}/iterate`, [header()], [good])).toMatchObject({ status: 200, body: args });
  });

  it('is read by a second middleware behind the first, unless somebody has taken a part of it', async () => {
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE });
    let takesSome = false;
    const { url } = await start((req, res) =>
      drs(req, res, () => {
        if (takesSome) req.read(1);
        drs(req, res, () => {
          req.setEncoding('utf8').on('data', (text: string) => res.write(text));
          req.on('end', () => res.end());
        });
      }),
    );
    expect(await send(url, [header()], good)).toMatchObject({
      status: 200,
      body: JSON.parse(good) as object,
    });
    takesSome = true;
    expect((await send(url, [header()], good)).status).toBe(503);
  });

  it('is refused as soon as there is too much of it', async () => {
    const { url } = await serve({ maxBodyBytes: 100 });
    for (const body of ['x'.repeat(101), ['x'.repeat(60), 'x'.repeat(60)]]) {
      expect(await send(url, [header()], body)).toMatchObject({
        status: 413,
        headers: { connection: 'close' },
        body: {
          error: { code: 'BODY_TOO_LARGE', message: expect.stringContaining('100 bytes') as string },
        },
      });
    }
  });

  it('that something has read before is an error, and not a pass', async () => {
    const app = express();
    let runs = 0;
    const onError = vi.fn();
    app.post('/', express.json(), drsMiddleware({ verifier, ...OPEN_ROUTE, onError }), () => runs++);
    const { url } = await start(app);
    const answer = await send(url, [header(), ['Content-Type', 'application/json']], good);
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'VERIFIER_UNAVAILABLE' } } });
    expect(String(onError.mock.calls)).toContain('in front of every body parser');
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE, onError });
    const asText = await start((req, res) => drs(req.setEncoding('utf8'), res, () => runs++));
    expect((await send(asText.url, [header()], good)).status).toBe(503);
    expect(String(onError.mock.calls[1])).toContain('or is no stream of bytes');
    expect(runs).toBe(0);
    const handler = drsFetch({ verifier, ...OPEN_ROUTE }, () => Response.json(null));
    const used = new Request(url, { method: 'POST', body: good, headers: [[...header()]] });
    await used.text();
    await expect(handler(used)).rejects.toThrow('hand the request in unread');
  });

  it('that a parser has read before is compared as the bytes that it kept (NestJS)', async () => {
    const app = express();
    const keep = {
      verify: (req: object, _: unknown, rawBody: Buffer) => void Object.assign(req, { rawBody }),
    };
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE, maxBodyBytes: 20_000 });
    app.post('/', express.json({ ...keep, type: () => true, limit: '1mb' }), drs, (req, res) => {
      res.json({ body: req.body as unknown, agent: drsContext(req).agent });
    });
    const { url } = await start(app);
    const json = ['Content-Type', 'application/json'] as const;
    const seen = { status: 200, body: { body: args, agent: chain.parties.at(-1)?.did } };
    const elsewhere = express();
    const keepElsewhere = (req: object, _: unknown, bytes: Buffer) =>
      void Object.assign(req, {
        rawBody: runInNewContext('Uint8Array.from(list)', { list: [...bytes] }) as unknown,
      });
    elsewhere.post('/', express.json({ verify: keepElsewhere }), drs, (_, res) => void res.json({}));
    const other = await start(elsewhere);
    expect((await send(other.url, [header(), ['Content-Type', 'application/json']], good)).status).toBe(200);
    expect(await send(url, [header(), json], good)).toMatchObject(seen);
    const codeOf = async (headers: [string, string][], body: string | Buffer) =>
      (await send(url, [header(), ...headers], body)).body;
    const refused = (code: string) => ({ error: { code } });
    expect(await codeOf([[...json]], good.replace('tea', 'gold'))).toMatchObject(refused('BINDING_MISMATCH'));
    // What the parser made of it says nothing of a member that came twice, or of what was compressed.
    const twice = good.replace('{', '{"query":"gold",');
    expect(await codeOf([[...json]], twice)).toMatchObject(refused('BINDING_MISMATCH'));
    const packed = [[...json], ['Content-Encoding', 'gzip']] as [string, string][];
    expect(await codeOf(packed, gzipSync(good))).toMatchObject(refused('BINDING_MISMATCH'));
    expect(await codeOf([[...json]], good.padEnd(20_001))).toMatchObject(refused('BODY_TOO_LARGE'));
    const envelope = `{"bundle":"${header()[1]}","body":${good}}`;
    expect(await send(url, [['Content-Type', 'application/drs-call+json']], envelope)).toMatchObject(seen);
  });

  it('is not awaited for ever where the client goes away', async () => {
    let gone: (() => void) | undefined;
    const left = new Promise<void>((resolve) => (gone = resolve));
    let runs = 0;
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE });
    const { url } = await start((req, res) => {
      res.on('close', () => gone?.());
      drs(req, res, () => runs++);
    });
    const req = request(url, {
      method: 'POST',
      headers: { 'X-DRS-Bundle': header()[1], 'Content-Length': '100' },
    });
    req.on('error', () => undefined);
    req.write('{');
    await once(req, 'socket').then(([socket]) => once(socket as NodeJS.EventEmitter, 'connect'));
    req.destroy();
    await left;
    expect(runs).toBe(0);
  });
});

describe('modes', () => {
  const wrong = JSON.stringify({ tool: 'fetch' });

  it('observe tells of what it would refuse, and runs its handler without a context', async () => {
    const refused: [string, RefusedCall][] = [];
    const failing = { verify: () => Promise.reject(new Error('no verdict')) };
    const options = { mode: 'observe', replayStore: createMemoryReplayStore(), maxBodyBytes: 100 } as const;
    const onRefused = ({ code }: Refusal, call: RefusedCall) => void refused.push([code, call]);
    const { url } = await serve({ ...options, onRefused });
    const once = header();
    expect(await send(url, [once], good)).toMatchObject({ body: { context: { tool: 'search' } } });
    for (const [code, headers, body] of [
      ['REPLAY_DETECTED', [once], good],
      ['BINDING_MISMATCH', [header()], wrong],
      ['MISSING_BUNDLE', [], wrong],
      ['MALFORMED_BUNDLE', [['X-DRS-Bundle', '{}']], '{'],
    ] as const) {
      const nothing = { body, context: null, inside: null };
      expect(await send(url, headers, body)).toMatchObject({ status: 200, body: nothing });
      expect(refused.pop()).toMatchObject([code, { observed: true }]);
    }
    // It cannot be read, so that nobody knows what would pass.
    expect((await send(url, [header()], 'x'.repeat(101))).status).toBe(413);
    expect(refused).toMatchObject([['BODY_TOO_LARGE', { observed: false }]]);
    const broken = await serve({ ...options, verifier: failing, onError: () => undefined });
    expect(await send(broken.url, [header()], good)).toMatchObject({ status: 200, body: { context: null } });
  });

  it('off looks at the chain alone', async () => {
    const { url } = await serve({ bindingMode: 'off' });
    const context = {
      root_principal: principal,
      chain_depth: 3,
      leaf_policy: { allowed_tools: ['search', 'fetch'] },
      agent: chain.parties[3]?.did,
      tool: 'search',
      root_type: 'human',
      consent_record: expect.objectContaining({ session_id: 'session-1' }) as unknown,
    };
    expect(await send(url, [header()], wrong)).toMatchObject({
      status: 200,
      body: { body: wrong, context, inside: context },
    });
    const reversed = liveCall({ ...chain, receipts: chain.receipts.toReversed() }, args);
    expect(await send(url, [header(reversed)], wrong)).toMatchObject({ status: 403 });
  });

  it('optional lets a request without a bundle pass, without a context, and no other', async () => {
    const { url } = await serve({ optional: true });
    expect(await send(url, [], wrong)).toMatchObject({ status: 200, body: { body: wrong, context: null } });
    expect(await send(url, [['X-DRS-Bundle', '']], wrong)).toMatchObject({ status: 400 });
    expect(await send(url, [header()], wrong)).toMatchObject({ status: 403 });
  });

  it('a command limits the invocations', async () => {
    const { url } = await serve({ command: '/tools' });
    expect(await send(url, [header()], good)).toMatchObject({
      status: 403,
      body: {
        valid: false,
        error: { code: 'COMMAND_MISMATCH', message: expect.stringContaining('"/tools"') as string },
      },
    });
  });

  it('a handler that needs a verified call says so where there is none', () => {
    expect(() => drsContext({})).toThrow('no verified call here');
    expect(() => drsContext()).toThrow('no verified call here');
  });
});

describe('a verifier that gives no verdict', () => {
  it('has every call refused, and tells the operator why', async () => {
    const onError = vi.fn();
    const { url } = await serve({
      verifier: undefined,
      verifyUrl: `http://127.0.0.1:${await unusedPort()}`,
      onError,
    } as unknown as NodeMiddlewareOptions);
    const answer = await send(url, [header()], good);
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'VERIFIER_UNAVAILABLE' } } });
    expect(JSON.stringify(answer.body)).not.toContain('127.0.0.1');
    expect(onError).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ code: 'unreachable' }));
  });

  it.each([
    ['throws', () => Promise.reject(new Error('broken'))],
    ['answers nonsense', () => Promise.resolve(undefined as never)],
    [
      'accepts what is no invocation',
      () => Promise.resolve({ valid: true, context: {}, binding: 'match' } as never),
    ],
  ])('is one that %s', async (_, verify) => {
    const { url } = await serve({ verifier: { verify }, onError: () => undefined });
    const bundle = { bundle_version: '4.0', receipts: [], invocation: 'x' };
    expect(await send(url, [header(bundle)], good)).toMatchObject({ status: 503 });
  });

  it('or none on the binding, is one that refuses', async () => {
    const verify = async (bundle: unknown) => {
      const { valid, context } = await verifier.verify(bundle);
      return { valid, context } as never;
    };
    const { url } = await serve({ verifier: { verify } });
    expect(await send(url, [header()], good)).toMatchObject({ status: 403 });
  });
});

describe('the event of an executed call', () => {
  const expected = (inv_jti: string, outcome: Outcome = 'ok'): ToolCallEvent => ({
    event: 'drs:tool-call',
    root_principal: principal,
    chain_depth: 3,
    command: '/mcp/tools/call',
    tool: 'search',
    policy_result: 'pass',
    cost_usd: 0.05,
    inv_jti,
    agent: chain.parties.at(-1)?.did as string,
    at: expect.stringMatching(/^20\d\d-.*T.*Z$/) as string,
    outcome,
  });
  const call = (jti: string) => header(liveCall(chain, args, { jti }));

  it('goes to the channel, the callback and the sink, once and with these fields', async () => {
    const [published, told, lines]: [unknown[], unknown[], string[]] = [[], [], []];
    const listener = (message: unknown) => published.push(message);
    subscribe('drs:tool-call', listener);
    const { url } = await serve({
      onToolCall: (event) => told.push(event),
      eventSink: { write: (line) => lines.push(line) },
    });
    await send(url, [call('inv:one')], good);
    await send(url, [call('inv:two')], '{}');
    await eventually(() => expect(lines).toHaveLength(1));
    unsubscribe('drs:tool-call', listener);
    expect(published).toEqual([expected('inv:one')]);
    expect(told).toEqual([expected('inv:one')]);
    expect(Object.keys(told[0] as object)).toEqual(Object.keys(expected('')));
    expect(lines[0]).toMatch(/^\{.*\}\n$/);
    expect(JSON.parse(lines[0] as string)).toEqual(expected('inv:one'));
  });

  it('costs 0 where no estimate was signed, and has no tool where none was', async () => {
    const told: ToolCallEvent[] = [];
    const open = liveChain(1, { policy: {} });
    const { url } = await serve({ onToolCall: (event) => told.push(event) });
    await send(url, [header(liveCall(open, { city: 'Bern' }))], '{"city":"Bern"}');
    await eventually(() => expect(told).toMatchObject([{ cost_usd: 0, tool: '' }]));
  });

  it('costs what the operator says, who also says what a call may do', async () => {
    const told: ToolCallEvent[] = [];
    const tools = [{ tool: 'pay', cost_usd: { argument: 'amount' }, writes: true }];
    const own = createVerifier({ workerThreads: 0, tools });
    const limited = liveChain(1, { policy: { max_cost_usd: 5 } });
    const { url } = await serve({ verifier: own, onToolCall: (event) => told.push(event) });
    const pay = (call: object) => send(url, [header(liveCall(limited, call))], JSON.stringify(call));
    expect(await pay({ tool: 'pay', amount: 4, estimated_cost_usd: 1 })).toMatchObject({
      status: 200,
      body: { context: { stated_by: { estimated_cost_usd: 'tool' }, cost_usd: 4 } },
    });
    const refused = { status: 403, body: { error: { code: 'POLICY_VIOLATION' } } };
    expect(await pay({ tool: 'pay', amount: 6, estimated_cost_usd: 1 })).toMatchObject(refused);
    expect(await pay({ tool: 'pay' })).toMatchObject(refused);
    expect(await pay({ tool: 'look', amount: 1 })).toMatchObject(refused);
    await eventually(() => expect(told).toMatchObject([{ cost_usd: 4, tool: 'pay' }]));
    await own.close();
  });

  it('comes also where the caller hangs up before the answer', async () => {
    const told: ToolCallEvent[] = [];
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE, onToolCall: (event) => told.push(event) });
    const { url } = await start((incoming, res) => drs(incoming, res, () => req.destroy()));
    const req = request(url, { method: 'POST', headers: Object.fromEntries([call('inv:gone')]) });
    req.on('error', () => undefined);
    req.end(good);
    await eventually(() => expect(told).toEqual([expected('inv:gone', 'cancelled')]));
  });

  it('comes from a fetch handler too, also from one that throws', async () => {
    const told: ToolCallEvent[] = [];
    const handler = drsFetch({ verifier, ...OPEN_ROUTE, onToolCall: (event) => told.push(event) }, () => {
      throw new Error('handler');
    });
    const request = new Request('http://localhost', {
      method: 'POST',
      body: good,
      headers: [[...call('inv:fetch')], ['Content-Type', 'application/json']],
    });
    await expect(handler(request)).rejects.toThrow('handler');
    expect(told).toEqual([expected('inv:fetch', 'error')]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('subscriber');
      },
    ],
    ['rejects', () => Promise.reject(new Error('subscriber'))],
    [
      'rejects in another realm',
      runInNewContext('async () => { throw failure; }', {
        failure: new Error('subscriber'),
      }) as () => unknown,
    ],
  ])('breaks no call where its subscriber %s', async (_, onToolCall) => {
    const onError = vi.fn();
    const write = vi.fn();
    const { url } = await serve({ onToolCall, onError, eventSink: { write } });
    expect(await send(url, [header()], good)).toMatchObject({ status: 200 });
    expect(await send(url, [header()], good)).toMatchObject({ status: 200 });
    await eventually(() => expect(onError).toHaveBeenCalledTimes(2));
    expect(onError).toHaveBeenCalledWith(expect.objectContaining({ message: 'subscriber' }));
    expect(write).toHaveBeenCalledTimes(2);
  });

  it('breaks no call where a subscriber of the channel throws; Node.js reports that by itself', () => {
    const child = spawnSync(process.execPath, [fileURLToPath(new URL('events-child.mjs', import.meta.url))]);
    expect(child.stdout.toString().trim().split('\n')).toEqual([
      'second subscriber: search',
      'the call goes on',
      'uncaught: from a subscriber',
    ]);
  });
});

describe('the middleware and the client', () => {
  it('load no native code, so that they run on workers', () => {
    const script = `
      await import('drs-verify/middleware');
      await import('drs-verify/client');
      console.log(process.report.getReport().sharedObjects.filter((file) => file.endsWith('.node')).length);`;
    const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd: process.cwd() });
    expect(child.stdout.toString() + child.stderr.toString()).toBe('0\n');
  });
});

describe('a header that is larger than the server takes', () => {
  const deep = liveChain(16);

  it('is refused', async () => {
    let runs = 0;
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE });
    const { url } = await start((req, res) => drs(req, res, () => runs++));
    const headers = [[...header(liveCall(deep, args))]] as [string, string][];
    const refused = await fetch(url, { method: 'POST', body: good, headers });
    expect([refused.status, runs]).toEqual([431, 0]);
  });

  it('fits where there is room for it', async () => {
    const drs = drsMiddleware({ verifier, ...OPEN_ROUTE });
    const { url } = await start((req, res) => drs(req, res, () => res.end('{}')), {
      maxHeaderSize: BUNDLE_HEADER_ROOM,
    });
    expect(await send(url, [header(liveCall(deep, args))], good)).toMatchObject({ status: 200 });
  });
});
