import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { Connection, toRequest } from '../../bench/load/connection.js';
import type { Underway } from '../../bench/load/open-loop-core.js';
import { isOfThisMachine, placeOf } from '../../bench/load/place.js';
import { readOptions } from '../../bench/run/options.js';
import { checkKinds, rendererOf } from '../../bench/suites/url.js';
import { makeCall, makeChain } from '../../bench/workload/chains.js';
import { invalidKinds, vectorKinds, type Kind } from '../../bench/workload/kinds.js';
import { startService, type RunningService } from '../support/service.js';

const lookup = vi.hoisted(() => vi.fn<(name: string) => string[]>());
vi.mock(import('node:dns/promises'), async (original) => ({
  ...(await original()),
  lookup: ((name: string) =>
    Promise.resolve(lookup(name).map((address) => ({ address, family: 4 })))) as never,
}));

const servers: Server[] = [];
async function listen(handler: RequestListener): Promise<number> {
  const server = createServer(handler).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

describe('an address', () => {
  const here = Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
  it.each(['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', '0.0.0.0', '::', '::1%lo', ...here])(
    '%s is of this machine',
    (address) => expect(isOfThisMachine(address)).toBe(true),
  );

  it.each(['192.0.2.1', '198.51.100.7', '2001:db8::1', '::ffff:192.0.2.1', 'fe80::1:2%eth0'])(
    '%s is not',
    (address) => expect(isOfThisMachine(address)).toBe(false),
  );
});

describe('--url', () => {
  it('goes to the address that was looked at', async () => {
    const port = await listen((_, response) => response.end());
    // The first does not answer.
    lookup.mockReturnValue(['127.0.0.2', '127.0.0.1']);
    expect(await placeOf(`http://verifier.test:${port}/check?a=1`, false)).toEqual({
      ...{ host: '127.0.0.1', port, authority: `verifier.test:${port}`, path: '/check?a=1' },
    });
  });

  it('is refused for another machine, also where only one of its addresses is', async () => {
    const port = await listen((_, response) => response.end());
    lookup.mockReturnValue(['127.0.0.1', '192.0.2.7']);
    const url = `http://verifier.test:${port}/verify`;
    await expect(placeOf(url, false)).rejects.toThrow(/leads to 192\.0\.2\.7, .* --yes-it-is-mine/);
    expect(await placeOf(url, true)).toMatchObject({ host: '127.0.0.1' });
  });

  it.each([
    ['127.0.0.1:8080/verify', 'expected http://host:port/path'],
    ['https://127.0.0.1/verify', 'expected http://host:port/path'],
    ['http://127.0.0.1:1/verify', 'nothing listens at 127.0.0.1:1 (127.0.0.1)'],
  ])('is refused as %s', async (url, problem) => {
    lookup.mockReturnValue(['127.0.0.1']);
    await expect(placeOf(url, false)).rejects.toThrow(problem);
  });

  it.each([
    [['--template', 'a'], 'for --url, which is not given'],
    [['--url', 'http://a/', '--smoke'], 'expected one'],
    [['--url', 'http://a/', '--only', 'gate'], 'expected one'],
  ])('is not read from %j', (args, problem) => {
    expect(() => readOptions(args)).toThrow(problem);
  });
});

describe('the verdicts of a service', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());
  const at = (port: number) => ({ host: '127.0.0.1', port, authority: 'localhost', path: '/verify' });
  const valid: Kind = { name: 'a valid call', body: makeCall(makeChain(4)).body, expected: 'valid' };

  it('are right where it is ours, of every kind', async () => {
    const kinds = [valid, ...invalidKinds(), ...vectorKinds()];
    expect(await checkKinds(at(service.port), kinds, null, true)).toEqual({
      ...{ wrong: [], marker: '"valid":true' },
    });
    expect(new Set(kinds.map(({ expected }) => expected)).size).toBeGreaterThan(20);
  });

  it('are named where it accepts all, or refuses for another reason, or does not answer', async () => {
    const answers = ['{"valid": true}', '{"valid":false,"error":{"code":"EMPTY_CHAIN"}}'];
    const port = await listen((_, response) => response.end(answers[0]));
    const all = await checkKinds(at(port), [valid, ...invalidKinds()], null, true);
    expect([all.wrong.length, all.marker]).toEqual([invalidKinds().length, '"valid": true']);
    expect(all.wrong[0]).toBe('a forged call: 200 {"valid": true}, expected INVALID_INVOCATION_SIGNATURE');
    answers.shift();
    const none = await checkKinds(at(port), [valid, ...invalidKinds()], null, true);
    expect(none.wrong).toHaveLength(invalidKinds().length);
    expect((await checkKinds(at(port), [valid, ...invalidKinds()], null, false)).wrong).toHaveLength(1);
    const broken = await listen((request) => request.socket.destroy());
    expect((await checkKinds(at(broken), [valid], null, true)).wrong).toEqual([
      'a valid call: 0 other side closed, expected valid',
    ]);
  });

  it('are found in the protocol of another, by a template and a marker', async () => {
    const port = await listen((request, response) => {
      void (async () => {
        const { chain, call } = JSON.parse(await text(request)) as { chain: string[]; call: string };
        const bundle = { bundle_version: '4.0', invocation: call, receipts: chain };
        const verdict = (await (await service.post('/verify', bundle)).json()) as { valid: boolean };
        response.end(verdict.valid ? 'permit' : 'forbid');
      })();
    });
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-bench-'));
    const template = path.join(folder, 'body');
    writeFileSync(template, '{ "chain": {{receipts}}, "call": {{invocation}} }');
    const render = rendererOf(template);
    const kinds = [valid, ...invalidKinds()].map((kind) => ({ ...kind, body: render(kind.body) }));
    expect(await checkKinds(at(port), kinds, 'permit', false)).toEqual({ wrong: [], marker: 'permit' });
    writeFileSync(template, '{{receipts}}');
    expect(() => rendererOf(template)).toThrow('has neither {{bundle}} nor');
    rmSync(folder, { recursive: true });
  });
});

it('reads answers in chunks, of which none comes whole', async () => {
  const body = `é${'x'.repeat(1000)}`;
  let host = '';
  const port = await listen((request, response) => {
    host = request.headers.host ?? '';
    response.setHeader('Trailer', 'X-Sum');
    response.write(body);
    response.write(body);
    response.addTrailers({ 'X-Sum': '1' });
    response.end();
  });
  const answer = await new Promise<[number, string]>((resolve, reject) => {
    const answers = {
      answered: (_: Underway, status: number, found: string) => resolve([status, found]),
      broken: (_: unknown, reason: string) => reject(new Error(reason)),
    };
    void Connection.open(port, answers, '127.0.0.1').then((connection) =>
      connection.send(toRequest('{}', '/', '', 'verifier.test'), {} as Underway),
    );
  });
  expect(answer).toEqual([200, body + body]);
  expect(host).toBe('verifier.test');
});
