import { afterAll, describe, expect, it } from 'vitest';
import { decide } from '../../src/gate/decide.js';
import { openRequest } from '../../src/gate/open.js';
import { readHeaders } from '../../src/gate/request.js';
import { RouteTable } from '../../src/gate/routes.js';
import { openRouted } from '../../src/gate/http.js';
import type { RequestBody } from '../../src/gate/request.js';
import { createMemoryReplayStore, drsFetch } from '../../src/middleware/index.js';
import { now, OPEN } from '../middleware/call.js';
import { judge, RULES, verifier } from './decide.js';
import { bundleFor, CALLS, ROUTES } from './route-calls.js';

afterAll(() => verifier.close());

// Made anew in each test: a fault in reading a table then shows in what it serves.
const newTable = () => RouteTable.parse(JSON.stringify(ROUTES));
const codeOf = (method: string, asked: string | null) => {
  const found = newTable().find(method, asked);
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
    ['GET', '/files/..%3B'],
    ['GET', '/files/%252e%252e'],
    ['GET', '/files/a%3Frevision=3'],
    ['GET', '/files/a%23b'],
    ['GET', '/files/%2e%2E'],
    ['GET', '/files/a;b'],
    ['GET', '/files/a\\b'],
    ['GET', '/files/a%'],
    ['GET', '/files/a%ff'],
    ['GET', '/files/é'],
    ['GET', `/files/${'a'.repeat(65_536)}`],
  ])('has no route for %s %.80s', (method, asked) => expect(codeOf(method, asked)).toBe('UNKNOWN_ROUTE'));

  it.each([
    ...['/files/a?x=1', '/files/a?lines', '/files/a?lines=1&lines=2', '/files/a?lines=1&&revision=2'],
    ...['/files/a?lines[]=1', '/files/a?lines=1#x', '/files/a?lines=1\\', '/files/a?lines=1 '],
    ...['/files/a?%6Cines=1', '/files/a?lines=1;revision=2', '/files/a?lines=%ff', '/files/a?lines=%'],
    ...['/files/a?name=b', '/files/latest?lines=1'],
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
    ['{"routes":[{"method":["POST"],"path":"/a","tool":"x"}]}', 'routes[0]: expected method'],
    ['{"routes":[{"method":"POST","path":"/a"}]}', 'routes[0]: expected tool'],
    ['{"routes":[{"method":"POST","tool":"x"}]}', 'routes[0]: expected path'],
    ['{"routes":[{"method":"POST","path":"/{ab","tool":"x"}]}', 'routes[0]: expected path'],
    ['{"routes":[{"method":"POST","path":"/ab}","tool":"x"}]}', 'routes[0]: expected path'],
    ['{"routes":[{"method":"POST","path":"/a/{a b}","tool":"x"}]}', 'routes[0]: expected path'],
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
    ['{"routes":[{"method":"POST","path":"/a","tool":"x","query":[["a"]]}]}', 'expected query'],
    ['{"routes":[{"method":"POST","path":"/a","tool":"x","query":["a","a"]}]}', 'different names'],
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

  it('names every problem of every route, each on a line', () => {
    const text = '{"routes":[{"method":"POST","path":"/a","tools":1},1]}';
    expect(() => RouteTable.parse(text)).toThrow(
      [
        'routes[0]: "tools" is none of method, path, tool, command, query, body, approve',
        'routes[0]: expected tool: its name, or "any"',
        'routes[1]: it is not an object',
      ].join('\n'),
    );
  });

  it('says of a request without a route what is missing', () => {
    const messageOf = (asked: string | null) => {
      const found = newTable().find('POST', asked);
      return 'code' in found ? found.message : null;
    };
    expect(messageOf(null)).toBe('the path of the request is not known: have the proxy send it, in one form');
    expect(messageOf('/tools/..')).toBe('servers could read different paths from the path of this request');
    expect(messageOf('/none')).toBe('no route has the method and path of this request');
  });

  it('may have a path for each method, and literal segments before parameters', () => {
    const both = '{"method":"GET","path":"/b","tool":"y"},{"method":"GET","path":"/{a}","tool":"x"}';
    expect(
      RouteTable.parse(`{"routes":[${both},{"method":"PUT","path":"/b","tool":"z"}]}`).find('PUT', '/b'),
    ).toEqual({ tool: 'z', command: null, parameters: {}, body: 'json' });
  });

  const tableOf = (...paths: string[]) =>
    RouteTable.parse(JSON.stringify({ routes: paths.map((path) => ({ method: 'GET', path, tool: path })) }));

  it.each([
    [['/b', '/b/c'], '/b/c'],
    [['/b/c', '/b'], '/b'],
    [['/a/b', '/a/c'], '/a/c'],
    [['/a/b', '/c/b'], '/c/b'],
    [['/{a}', '/'], '/'],
    [['/a', '/{a}'], '/b'],
    [['/a/{b}', '/{a}/b'], '/c/b'],
    [['/tool'], '/tool'],
    [['/a/a'], '/a/a'],
  ])('may have %j', (paths, asked) => {
    expect(tableOf(...paths).find('GET', asked)).toMatchObject({ tool: paths.at(-1) });
  });
  it.each([
    ['/a', '/a'],
    ['/{a}', '/{b}'],
    ['/{a}/b', '/a/b'],
    ['/a/{b}', '/a/b'],
    ['/a/{b}', '/a/{c}'],
  ])('may not have %s before %s, which no request reaches', (...paths) => {
    expect(() => tableOf(...paths)).toThrow(`routes[1]: no request reaches it, since ${paths[0]}`);
  });

  it('may have as many routes as the limit', () => {
    expect(() => tableOf(...Array.from({ length: 1000 }, (_, at) => `/${at}`))).not.toThrow();
  });

  it.each([
    ['GET', undefined, 'none'],
    ['HEAD', undefined, 'none'],
    ['DELETE', undefined, 'json'],
    ['POST', undefined, 'json'],
    ['GET', 'json', 'json'],
    ['POST', 'none', 'none'],
    ['POST', 'envelope', 'envelope'],
  ])('says what the handler of %s with the body %s reads: %s', (method, given, body) => {
    const read = RouteTable.parse(
      JSON.stringify({ routes: [{ method, path: '/a', tool: 'any', body: given }] }),
    );
    expect(read.find(method, '/a')).toEqual({ tool: null, command: null, parameters: {}, body });
  });
});

describe('a request by its route', () => {
  const open = (asked: string, body: RequestBody, carried: object = { 'X-DRS-Bundle': 'e30' }) => {
    const headers = readHeaders({ ...carried });
    const opened = openRouted({ method: 'POST', target: asked, headers, body }, newTable());
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

describe('a gate with these routes', () => {
  it.each(CALLS)('$name: $code', async ({ code, method, path, body, args, cmd }) => {
    const headers = readHeaders({ 'X-DRS-Bundle': bundleFor(args, cmd) });
    const text = body === undefined ? '' : JSON.stringify(body);
    const asked = { method, target: path, headers, body: { kind: 'text', text } } as const;
    const opened = openRequest('http', asked, { routes: newTable() });
    if (opened.kind === 'pass') throw new Error('it passes');
    const decided =
      opened.kind === 'deny'
        ? opened
        : await decide(opened, await judge(opened), { now, rules: RULES, use: null });
    expect(decided.kind === 'deny' ? decided.failure.code : decided.kind).toBe(code);
  });
});

const codeIn = (body: unknown) => (body as { error: { code: string } }).error.code;

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
