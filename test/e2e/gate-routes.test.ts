import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleFor, CALLS, ROUTES, type Call } from '../gate/route-calls.js';
import { eventually } from '../support/eventually.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { hasProcess, startService, type RunningService } from '../support/service.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-routes-'));
const file = path.join(folder, 'routes.json');
let service: RunningService;
let unset: RunningService;
let client: ReturnType<typeof clientOf>;
beforeAll(async () => {
  writeFileSync(file, JSON.stringify(ROUTES));
  service = await startService({ GATE_ROUTES: file, GRPC_PORT: '0', WORKER_THREADS: '0' });
  unset = await startServiceHere({ GATE_ROUTES: '' });
  client = clientOf(AUTHORIZATION, grpcPortOf(service));
});
afterAll(async () => {
  client.close();
  await Promise.all([service.stop(), unset.stop()]);
  rmSync(folder, { recursive: true });
});

const codeIn = (body: unknown) => (body as { error: { code: string } }).error.code;

type Door = (call: Call) => Promise<string>;
const DOORS: Readonly<Record<string, Door>> = {
  '/gate/http': async ({ method, path: asked, body, args, cmd }) => {
    const headers = { 'X-DRS-Bundle': bundleFor(args, cmd), 'Content-Type': 'application/json' };
    const response = await fetch(`${service.url}/gate/http${asked}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.status === 200 ? 'allow' : codeIn(await response.json());
  },
  '/gate/http with headers of the proxy': async ({ method, path: asked, body, args, cmd }) => {
    const headers = {
      'X-DRS-Bundle': bundleFor(args, cmd),
      'Content-Type': 'application/json',
      'X-Forwarded-Method': method,
      'X-Forwarded-Uri': asked,
    };
    const response = await fetch(`${service.url}/gate/http`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.status === 200 ? 'allow' : codeIn(await response.json());
  },
  '/v1/gate': async ({ method, path: asked, body, args, cmd }) => {
    const headers = { 'X-DRS-Bundle': bundleFor(args, cmd) };
    const response = await service.post('/v1/gate', { protocol: 'http', method, path: asked, headers, body });
    const said = (await response.json()) as { allow: boolean; response: unknown };
    return said.allow ? 'allow' : codeIn(said.response);
  },
  gRPC: async ({ method, path: asked, body, args, cmd }) => {
    const said = (await callOnce(client, 'Check', {
      attributes: {
        request: {
          http: {
            method,
            path: asked,
            headers: { 'x-drs-bundle': bundleFor(args, cmd) },
            raw_body: Buffer.from(body === undefined ? '' : JSON.stringify(body)),
            size: -1,
          },
        },
        context_extensions: { drs_protocol: 'http' },
      },
    })) as { denied_response?: { body: string } };
    return said.denied_response === undefined ? 'allow' : codeIn(JSON.parse(said.denied_response.body));
  },
};

describe.each(Object.keys(DOORS))('%s', (door) => {
  it.each(CALLS)('$name: $code', async ({ code, ...call }) => {
    expect(await (DOORS[door] as Door)(call)).toBe(code);
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
      return response.status === 200 ? 'allow' : codeIn(await response.json());
    };
    expect(await ask('', {})).toBe('UNKNOWN_ROUTE');
    expect(await ask('/tools/read_file', { 'X-Original-Uri': '/any' })).toBe('UNKNOWN_ROUTE');
    expect(await ask('', { 'X-Forwarded-Uri': '/tools/read_file' })).toBe('allow');
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
        (DOORS['/v1/gate'] as Door)({ method: 'POST', path: '/new', body: {}, args: { tool: 'new' } });
      expect(await ask()).toBe('UNKNOWN_ROUTE');
      const added = { method: 'POST', path: '/new', tool: 'new' };
      await reload(
        JSON.stringify({ routes: [...ROUTES.routes, added] }),
        'SIGHUP: the table of routes was reloaded',
      );
      expect(await ask()).toBe('allow');
      await reload('{"routes":[1]}', 'the table of routes could not be reloaded: the old one stays');
      expect(await ask()).toBe('allow');
      await reload(JSON.stringify(ROUTES), 'SIGHUP: the table of routes was reloaded');
      expect(await ask()).toBe('UNKNOWN_ROUTE');
    },
  );
});
