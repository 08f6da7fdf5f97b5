import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Attempt } from '../gate/attacks.js';
import { bundleFor, CALLS, ROUTES, type Call } from '../gate/route-calls.js';
import { askGrpc, askProxy, askV1, type Said } from '../gate/transports.js';
import { eventually } from '../support/eventually.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { hasProcess, metricOf, startService, type RunningService } from '../support/service.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-routes-'));
const file = path.join(folder, 'routes.json');
let service: RunningService;
let unset: RunningService;
let gateway: ReturnType<typeof askGrpc>;
beforeAll(async () => {
  writeFileSync(file, JSON.stringify(ROUTES));
  service = await startService({ GATE_ROUTES: file, GRPC_PORT: '0', WORKER_THREADS: '0' });
  unset = await startServiceHere({ GATE_ROUTES: '' });
  gateway = askGrpc(service);
});
afterAll(async () => {
  gateway.close();
  await Promise.all([service.stop(), unset.stop()]);
  rmSync(folder, { recursive: true });
});

/** What is said of a call: through `/gate/http`, `/v1/gate` and over gRPC. */
const attemptOf = ({ method, path: at, body, args, cmd }: Call): Attempt => ({
  ...{ method, at, body: body === undefined ? '' : JSON.stringify(body) },
  headers: [
    ['X-DRS-Bundle', bundleFor(args, cmd)],
    ['Content-Type', 'application/json'],
  ],
});
/** As proxies ask that send a request of their own, and name method and path of the caller's in headers. */
const askNamed = (method: string, uri: string, call: Call) => {
  const { headers = [], ...attempt } = attemptOf(call);
  const named = [...headers, [method, call.method] as const, [uri, call.path] as const];
  const asked = call.body === undefined ? { ...attempt, method: 'POST' } : attempt;
  return askProxy(service)('http', { ...asked, headers: named, path: '!/gate/http' });
};
const DOORS: Readonly<Record<string, (call: Call) => Promise<Said>>> = {
  '/gate/http': (call) => askProxy(service)('http', attemptOf(call)),
  '/gate/http with headers of nginx': (call) => askNamed('X-Original-Method', 'X-Original-Uri', call),
  '/gate/http with headers of Traefik': (call) => askNamed('X-Forwarded-Method', 'X-Forwarded-Uri', call),
  '/v1/gate': (call) => askV1(service)('http', attemptOf(call)),
  gRPC: (call) => gateway.ask('http', attemptOf(call)),
};
const outcomeAt = async (door: string, call: Call) => {
  const { decision, code } = await (DOORS[door] as (typeof DOORS)[string])(call);
  return decision === 'deny' ? code : decision;
};

describe.each(Object.keys(DOORS))('%s', (door) => {
  it.each(CALLS)('$name: $code', async ({ code, ...call }) => {
    expect(await outcomeAt(door, call)).toBe(code);
  });
});

describe('the service', () => {
  it('refuses every call over http without GATE_ROUTES, and says what to set', async () => {
    const headers = { 'X-DRS-Bundle': bundleFor({ tool: 'x' }) };
    const response = await unset.post('/v1/gate', {
      protocol: 'http',
      path: '/x',
      headers,
      body: { tool: 'x' },
    });
    expect(await response.json()).toMatchObject({
      allow: false,
      status: 403,
      response: {
        error: { code: 'UNKNOWN_ROUTE', message: expect.stringContaining('GATE_ROUTES') as string },
      },
    });
  });

  it('refuses a request whose path the proxy does not say, or says twice', async () => {
    const ask = async (asked: string, headers: Record<string, string>) => {
      const body = { path: '/a' };
      const bundle = bundleFor({ tool: 'read_file', ...body });
      const response = await service.post(`/gate/http${asked}`, body, { 'X-DRS-Bundle': bundle, ...headers });
      return response.headers.get('x-drs-code') ?? 'allow';
    };
    expect(await ask('', {})).toBe('UNKNOWN_ROUTE');
    expect(await ask('/tools/read_file', { 'X-Original-Uri': '/any' })).toBe('UNKNOWN_ROUTE');
    expect(await ask('', { 'X-Forwarded-Uri': '/tools/read_file' })).toBe('allow');
    // A header may not make of a request with a body one that has none.
    expect(await ask('/files/latest', { 'X-Forwarded-Method': 'GET' })).toBe('UNKNOWN_ROUTE');
  });

  it.runIf(hasProcess)(
    'reads the file again on SIGHUP, and keeps the old routes where it is wrong',
    async () => {
      const reload = async (text: string, message: string) => {
        const seen = service.log.length;
        writeFileSync(file, text);
        service.child.kill('SIGHUP');
        await eventually(() => expect(service.log.slice(seen).map(({ msg }) => msg)).toContainEqual(message));
      };
      const ask = () =>
        outcomeAt('/v1/gate', { method: 'POST', path: '/new', body: {}, args: { tool: 'new' } });
      expect(await ask()).toBe('UNKNOWN_ROUTE');
      const added = { method: 'POST', path: '/new', tool: 'new' };
      await reload(
        JSON.stringify({ routes: [...ROUTES.routes, added] }),
        'SIGHUP: the table of routes was reloaded',
      );
      expect(await ask()).toBe('allow');
      await reload('{"routes":[1]}', 'the table of routes could not be reloaded: the old one stays');
      expect(await ask()).toBe('allow');
      const failed = async () =>
        metricOf(await (await fetch(`${service.url}/metrics`)).text(), 'drs_reload_failed{part="routes"}');
      expect(await failed()).toBe(1);
      await reload(JSON.stringify(ROUTES), 'SIGHUP: the table of routes was reloaded');
      expect([await ask(), await failed()]).toEqual(['UNKNOWN_ROUTE', 0]);
    },
  );
});
