import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createVerifier } from '../../src/engine/create-verifier.js';
import { openRouted } from '../../src/gate/http.js';
import { RouteTable } from '../../src/gate/index.js';
import { headersOf, type RequestBody } from '../../src/gate/request.js';
import { createMemoryReplayStore, drsFetch } from '../../src/middleware/index.js';
import { encode, liveCall, liveChain, OPEN } from '../middleware/call.js';
import { eventually } from '../support/eventually.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { hasProcess, startService, type RunningService } from '../support/service.js';

const ROUTES = {
  routes: [
    { method: 'POST', path: '/tools/read_file', tool: 'read_file' },
    { method: 'DELETE', path: '/tools/{tool_name}', tool: 'delete_file', query: ['recursive'], body: 'none' },
    { method: 'GET', path: '/files/latest', tool: 'read_file', command: '/files/read' },
    { method: 'GET', path: '/files/{name}', tool: 'read_file', query: ['revision', 'lines'] },
    { method: 'POST', path: '/any', tool: 'any' },
  ],
};
const table = RouteTable.parse(JSON.stringify(ROUTES));
const codeOf = (method: string, asked: string | null) => {
  const found = table.find(method, asked);
  return 'code' in found ? found.code : { tool: found.tool, ...found.parameters };
};

describe('a table of routes', () => {
  it.each([
    ['POST', '/tools/read_file', { tool: 'read_file' }],
    ['POST', '/tools/read_file?', { tool: 'read_file' }],
    ['GET', '/files/latest', { tool: 'read_file' }],
    ['GET', '/files/a.txt', { tool: 'read_file', name: 'a.txt' }],
    ['GET', '/files/a%20b+c', { tool: 'read_file', name: 'a b+c' }],
    ['GET', `/files/${'a'.repeat(65_529)}`, { tool: 'read_file', name: 'a'.repeat(65_529) }],
    ['GET', '/files/%C3%A9', { tool: 'read_file', name: 'é' }],
    ['GET', '/files/__proto__', { tool: 'read_file', name: '__proto__' }],
    [
      'GET',
      '/files/a?lines=1%262&revision=a+b',
      { tool: 'read_file', name: 'a', lines: '1&2', revision: 'a b' },
    ],
    ['GET', '/files/a?lines=', { tool: 'read_file', name: 'a', lines: '' }],
    ['DELETE', '/tools/x?recursive=true', { tool: 'delete_file', tool_name: 'x', recursive: 'true' }],
  ])('serves %s %.80s', (method, asked, expected) => expect(codeOf(method, asked)).toEqual(expected));

  it.each([
    ['POST', null],
    ['POST', ''],
    ['POST', '/'],
    ['PUT', '/tools/read_file'],
    ['post', '/tools/read_file'],
    ['POST or GET', '/tools/read_file'],
    ['POST', '/tools/read_file/'],
    ['POST', '//tools/read_file'],
    ['POST', '/tools//read_file'],
    ['POST', '/Tools/read_file'],
    ['POST', '/tools/%72ead_file'],
    ['POST', '/x/../tools/read_file'],
    ['POST', 'http://tools.example/tools/read_file'],
    ['POST', '/tools/read_file#x'],
    ['POST', '/tools/read_file;v=1'],
    ['POST', '*'],
    ['GET', '/files/'],
    ['GET', '/files/a/b'],
    ['GET', '/files/a%2Fb'],
    ['GET', '/files/a%5cb'],
    ['GET', '/files/a%00b'],
    ['GET', '/files/a%7f'],
    ['GET', '/files/..'],
    ['GET', '/files/%2e%2E'],
    ['GET', '/files/a;b'],
    ['GET', '/files/a\\b'],
    ['GET', '/files/a%'],
    ['GET', '/files/a%ff'],
    ['GET', '/files/é'],
    ['GET', `/files/${'a'.repeat(65_536)}`],
  ])('has no route for %s %.80s', (method, asked) => expect(codeOf(method, asked)).toBe('UNKNOWN_ROUTE'));

  it.each([
    '/files/a?x=1',
    '/files/a?lines',
    '/files/a?lines=1&lines=2',
    '/files/a?lines=1&&revision=2',
    '/files/a?lines[]=1',
    '/files/a?%6Cines=1',
    '/files/a?lines=1;revision=2',
    '/files/a?lines=%ff',
    '/files/a?lines=%',
    '/files/a?name=b',
    '/files/latest?lines=1',
  ])('takes no other query: %s', (asked) => expect(codeOf('GET', asked)).toBe('INVALID_PARAMS'));

  it.each([
    ['[]', 'it is not {"routes": […]}'],
    ['{"routes":[],"route":[]}', 'it is not {"routes": […]}'],
    ['{"routes":[],"routes":[]}', 'not strict JSON'],
    ['{"routes":[1]}', 'routes[0]: it is not an object'],
    [
      '{"routes":[{"method":"POST","path":"/a","tool":"x","tools":1}]}',
      'routes[0]: "tools" is none of method',
    ],
    ['{"routes":[{"method":"post","path":"/a","tool":"x"}]}', 'routes[0]: expected method'],
    ['{"routes":[{"method":"POST","path":"/a"}]}', 'routes[0]: expected tool'],
    ['{"routes":[{"method":"POST","path":"/a","tool":""}]}', 'routes[0]: expected tool'],
    ['{"routes":[{"method":"POST","path":"a","tool":"x"}]}', 'routes[0]: expected path'],
    ['{"routes":[{"method":"POST","path":"/a?b","tool":"x"}]}', 'routes[0]: expected path'],
    ['{"routes":[{"method":"POST","path":"/a/../b","tool":"x"}]}', 'routes[0]: expected path'],
    ['{"routes":[{"method":"POST","path":"/{a b}","tool":"x"}]}', 'routes[0]: expected path'],
    ['{"routes":[{"method":"POST","path":"/{a}/{a}","tool":"x"}]}', 'different names'],
    ['{"routes":[{"method":"POST","path":"/{a}","query":["a"],"tool":"x"}]}', 'different names'],
    ['{"routes":[{"method":"POST","path":"/{tool}","tool":"x"}]}', 'no parameter named tool'],
    ['{"routes":[{"method":"POST","path":"/a","tool":"x","query":["a[]"]}]}', 'expected query'],
    ['{"routes":[{"method":"POST","path":"/a","tool":"x","query":"a"}]}', 'expected query'],
    ['{"routes":[{"method":"POST","path":"/a","tool":"x","command":"a"}]}', 'expected command'],
    ['{"routes":[{"method":"POST","path":"/a","tool":"x","body":"xml"}]}', 'expected body'],
    [
      '{"routes":[{"method":"GET","path":"/{a}","tool":"x"},{"method":"GET","path":"/b","tool":"y"}]}',
      'routes[1]: no request reaches it, since /{a} stands before it',
    ],
    [`{"routes":[${Array(1001).fill('1').join()}]}`, '1001 routes, expected at most 1000'],
  ])('is refused with its problems: %.80s', (text, problem) =>
    expect(() => RouteTable.parse(text)).toThrow(problem),
  );

  it('may have a path for each method, and literal segments before parameters', () => {
    const both = '{"method":"GET","path":"/b","tool":"y"},{"method":"GET","path":"/{a}","tool":"x"}';
    expect(
      RouteTable.parse(`{"routes":[${both},{"method":"PUT","path":"/b","tool":"z"}]}`).find('PUT', '/b'),
    ).toEqual({ tool: 'z', command: null, parameters: {}, hasBody: true });
  });
});

describe('a request by its route', () => {
  const open = (asked: string, body: RequestBody, carried: object = { 'X-DRS-Bundle': 'e30' }) => {
    const headers = headersOf({ ...carried });
    const opened = openRouted({ method: 'POST', path: asked, headers, body }, table);
    return opened.kind === 'deny' ? opened.failure.code : opened.body;
  };

  it('may have any number in a body whose text is known, since the gate has read it itself', () => {
    const n = 2 ** 53;
    expect(open('/any', { kind: 'text', text: `{"n":${n}}` })).toEqual({ kind: 'value', value: { n } });
    expect(open('/any', { kind: 'value', value: { n } })).toMatchObject({ kind: 'unusable' });
  });

  it('is refused for its bundle before its query, as in middleware', () => {
    const body: RequestBody = { kind: 'value', value: {} };
    expect(open('/any?x=1', body)).toBe('INVALID_PARAMS');
    expect(open('/any?x=1', body, { 'X-DRS-Bundle': '@' })).toBe('MALFORMED_BUNDLE');
    expect(open('/any?x=1', body, {})).toBe('MISSING_BUNDLE');
  });
});

const tools = ['read_file', 'delete_file', 'rm', 'x', 'new'];
const chain = liveChain(2, { cmd: '/files', policy: { allowed_tools: tools } });
const bundleFor = (args: object, cmd = '/files/read') => encode(liveCall(chain, args, { cmd }));

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly args: object;
  readonly cmd?: string;
}

const CALLS: readonly (Call & { readonly name: string; readonly code: string })[] = [
  {
    name: 'the signed call',
    ...{ method: 'POST', path: '/tools/read_file', body: { path: '/a' }, code: 'allow' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'a body that has the tool itself',
    ...{ method: 'POST', path: '/tools/read_file', body: { tool: 'read_file', path: '/a' }, code: 'allow' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'a call that was signed for another tool, on the path of this one',
    ...{ method: 'DELETE', path: '/tools/delete?recursive=true', code: 'TOOL_MISMATCH' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'a path parameter and a query',
    ...{ method: 'DELETE', path: '/tools/x?recursive=true', code: 'allow' },
    args: { tool: 'delete_file', tool_name: 'x', recursive: 'true' },
  },
  {
    name: 'a query that is not signed',
    ...{ method: 'DELETE', path: '/tools/x?recursive=true', code: 'BINDING_MISMATCH' },
    args: { tool: 'delete_file', tool_name: 'x' },
  },
  {
    name: 'another path parameter',
    ...{ method: 'DELETE', path: '/tools/y', code: 'BINDING_MISMATCH' },
    args: { tool: 'delete_file', tool_name: 'x' },
  },
  {
    name: 'a body where the route takes none',
    ...{ method: 'DELETE', path: '/tools/x', body: { force: true }, code: 'BINDING_MISMATCH' },
    args: { tool: 'delete_file', tool_name: 'x', force: true },
  },
  {
    name: 'a body that has a member named tool of another tool',
    ...{ method: 'POST', path: '/tools/read_file', body: { tool: 'rm', path: '/a' }, code: 'TOOL_MISMATCH' },
    args: { tool: 'rm', path: '/a' },
  },
  {
    name: 'a path that no route has',
    ...{ method: 'POST', path: '/tools/delete_everything', body: { path: '/a' }, code: 'UNKNOWN_ROUTE' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'an unknown query',
    ...{ method: 'POST', path: '/tools/read_file?as=root', body: { path: '/a' }, code: 'INVALID_PARAMS' },
    args: { tool: 'read_file', path: '/a' },
  },
  {
    name: 'another command than that of the route',
    ...{ method: 'GET', path: '/files/latest', code: 'COMMAND_MISMATCH', cmd: '/files/write' },
    args: { tool: 'read_file' },
  },
  {
    name: 'a request without a body',
    ...{ method: 'GET', path: '/files/latest', code: 'allow' },
    args: { tool: 'read_file' },
  },
  {
    name: 'a route of any tool',
    ...{ method: 'POST', path: '/any', body: { tool: 'x', a: 1 }, code: 'allow' },
    args: { tool: 'x', a: 1 },
  },
];

const folder = mkdtempSync(path.join(tmpdir(), 'drs-routes-'));
const file = path.join(folder, 'routes.json');
let service: RunningService;
let unset: RunningService;
let client: ReturnType<typeof clientOf>;
const verifier = createVerifier({ workerThreads: 0 });
beforeAll(async () => {
  writeFileSync(file, JSON.stringify(ROUTES));
  service = await startService({ GATE_ROUTES: file, GRPC_PORT: '0' });
  unset = await startService({ GATE_ROUTES: '' });
  client = clientOf(AUTHORIZATION, grpcPortOf(service));
});
afterAll(async () => {
  client.close();
  await Promise.all([service.stop(), unset.stop(), verifier.close()]);
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
        'SIGHUP: the routes of the gate were reloaded',
      );
      expect(await ask()).toBe('allow');
      await reload('{"routes":[1]}', 'the routes of the gate could not be reloaded: the old ones still hold');
      expect(await ask()).toBe('allow');
      await reload(JSON.stringify(ROUTES), 'SIGHUP: the routes of the gate were reloaded');
      expect(await ask()).toBe('UNKNOWN_ROUTE');
    },
  );
});

describe('a middleware', () => {
  const ask = async (
    url: string,
    args: object,
    parameters: ((r: Request) => Record<string, string>) | null,
  ) => {
    const handler = drsFetch(
      {
        ...OPEN,
        verifier,
        replayStore: createMemoryReplayStore(),
        tool: 'read_file',
        ...(parameters === null ? {} : { parameters }),
      },
      () => new Response('ran'),
    );
    const response = await handler(new Request(url, { headers: { 'X-DRS-Bundle': bundleFor(args) } }));
    return response.status === 200 ? 'allow' : codeIn(await response.json());
  };
  const named = (request: Request) => ({ name: new URL(request.url).searchParams.get('name') ?? '' });

  it('compares the parameters that its options name', async () => {
    const args = { tool: 'read_file', name: 'a' };
    expect(await ask('http://x/files?name=a', args, named)).toBe('allow');
    expect(await ask('http://x/files?name=b', args, named)).toBe('BINDING_MISMATCH');
  });
  it('refuses a query that its options do not name', async () => {
    expect(await ask('http://x/files?name=a', { tool: 'read_file' }, null)).toBe('INVALID_PARAMS');
  });
  it('takes a request without a body for one without arguments', async () => {
    expect(await ask('http://x/files', { tool: 'read_file' }, () => ({}))).toBe('allow');
    expect(await ask('http://x/files', { tool: 'read_file', a: 1 }, () => ({}))).toBe('BINDING_MISMATCH');
  });
});
