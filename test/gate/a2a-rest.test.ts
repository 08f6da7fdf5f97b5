import { afterAll, describe, expect, it } from 'vitest';
import { restArguments, targetOf, type RestCall } from '../../src/gate/a2a-rest.js';
import { restBundle } from './attacks.js';
import { newGate, verifier } from './decide.js';

afterAll(() => verifier.close());

/** The table of the specification, with the signed arguments. */
type Row = readonly [verb: string, path: string, method: string, args?: object];
const VERBS: readonly Row[] = [
  ['POST', '/message:send', 'SendMessage'],
  ['POST', '/message:stream', 'SendStreamingMessage'],
  ['GET', '/tasks', 'ListTasks'],
  ['GET', '/tasks/7', 'GetTask', { id: '7' }],
  ['POST', '/tasks/7:cancel', 'CancelTask', { id: '7' }],
  ['GET', '/tasks/7:subscribe', 'SubscribeToTask', { id: '7' }],
  ['POST', '/tasks/7:subscribe', 'SubscribeToTask', { id: '7' }],
  ['POST', '/tasks/7/pushNotificationConfigs', 'CreateTaskPushNotificationConfig', { taskId: '7' }],
  ['GET', '/tasks/7/pushNotificationConfigs', 'ListTaskPushNotificationConfigs', { taskId: '7' }],
  ['GET', '/tasks/7/pushNotificationConfigs/8', 'GetTaskPushNotificationConfig', { taskId: '7', id: '8' }],
  [
    'DELETE',
    '/tasks/7/pushNotificationConfigs/8',
    'DeleteTaskPushNotificationConfig',
    { taskId: '7', id: '8' },
  ],
  ['GET', '/extendedAgentCard', 'GetExtendedAgentCard'],
];
const PREFIXES = ['', '/rest', '/v1', '/agents/a%20b/tenant-7', '/did:key:z6Mk'];

const rest = (verb: string, path: string): RestCall => {
  const target = targetOf(verb, path);
  if (target.kind !== 'rest') throw new Error(`${verb} ${path} is ${target.kind}`);
  return target;
};
const argsOf = (verb: string, path: string, body?: unknown) => restArguments(rest(verb, path), body);

describe.each(VERBS.map((row) => ({ title: `${row[0]} ${row[1]}`, row })))('$title', ({ row }) => {
  const [verb, path, method, args = {}] = row;

  it.each(PREFIXES)('is a call below "%s"', (prefix) => {
    const before = prefix === '' ? {} : { path: prefix };
    expect(argsOf(verb, prefix + path)).toEqual({ args: { tool: method, ...args, ...before } });
  });

  it.each(['GET', 'POST', 'DELETE', 'PUT', 'PATCH', 'HEAD', 'get'].filter((other) => other !== verb))(
    'is never a message, nor public, with %s',
    (other) => {
      expect(['rest', 'none']).toContain(targetOf(other, path).kind);
    },
  );

  it('is allowed where it is signed', async () => {
    const own = { ...args, path: '/rest', n: 1 };
    const headers = { 'X-DRS-Bundle': restBundle(method, own) };
    const asked = { method: verb, path: `/rest${path}`, headers, body: '{"n":1}' };
    expect(await newGate()('a2a', asked)).toMatchObject({
      decision: 'allow',
      context: { command: `/a2a/${method}`, tool: method, binding: 'match' },
    });
  });
});

describe('the arguments of a call', () => {
  it('are those of 0.3, under the names of 1.0', () => {
    expect(argsOf('GET', '/rest/v1/card')).toEqual({
      args: { tool: 'GetExtendedAgentCard', path: '/rest' },
    });
    expect(argsOf('POST', '/v1/message:send', { request: {} })).toEqual({
      args: { tool: 'SendMessage', path: '/v1', request: {} },
    });
  });

  it('are decoded in path and query', () => {
    expect(argsOf('GET', '/tasks/a%20b%C3%BC?pageToken=a+b%2B%3D&x=&y=1=2')).toEqual({
      args: { tool: 'GetTask', id: 'a bü', pageToken: 'a b+=', x: '', y: '1=2' },
    });
    expect(argsOf('GET', '/tasks?')).toEqual({ args: { tool: 'ListTasks' } });
  });

  it('may be in the body too, if they are the same', () => {
    expect(argsOf('POST', '/tasks/7:cancel?tenant=a', { id: '7', tenant: 'a', metadata: {} })).toEqual({
      args: { tool: 'CancelTask', id: '7', tenant: 'a', metadata: {} },
    });
    expect(argsOf('POST', '/tasks/7:cancel', { id: 7 })).toMatchObject({
      code: 'RESERVED_ARGUMENT',
      reason: '"id" comes with two values',
    });
  });

  it('are no more where there is no body, or null', () => {
    for (const body of [undefined, null, {}])
      expect(argsOf('POST', '/tasks/7:cancel', body)).toEqual({ args: { tool: 'CancelTask', id: '7' } });
  });

  it('keep a member named __proto__', () => {
    const body: unknown = JSON.parse('{"__proto__":{"id":"8"}}');
    const { args } = argsOf('POST', '/message:send', body) as { args: object };
    expect(Object.keys(args)).toEqual(['__proto__', 'tool']);
    expect(Object.getPrototypeOf(args)).toBe(Object.prototype);
  });

  it.each(['text', 7, true, []])('are not made of %j', (body) => {
    expect(argsOf('POST', '/message:send', body)).toMatchObject({ code: 'INVALID_PARAMS' });
  });

  it.each(['a', '=1', 'a=1&', 'a=1&a=1', 'a%20b=1', 'a[]=1', 'a=%ff', 'a=%', 'a=1;b=2', 'a.b=1'])(
    'are not made of the query %s',
    (query) => {
      expect(argsOf('GET', `/tasks?${query}`)).toMatchObject({ code: 'INVALID_PARAMS' });
    },
  );
});

describe('the arguments of a call are refused', () => {
  it.each(['tool', 'path'])('where a member is named %s', (name) => {
    const failure = { code: 'RESERVED_ARGUMENT', reason: `there is a member or parameter "${name}"` };
    expect(argsOf('POST', '/rest/message:send', { [name]: 'x' })).toEqual(failure);
    expect(argsOf('POST', `/rest/message:send?${name}=x`)).toEqual(failure);
  });
  it('where the body is no object', () => {
    expect(argsOf('POST', '/message:send', [])).toEqual({
      code: 'INVALID_PARAMS',
      reason: 'the body is not a JSON object',
    });
  });
});

describe('a request', () => {
  const CARD = '/.well-known/agent-card.json';
  it.each([
    ['GET', CARD, 'card'],
    ['HEAD', `/agents/7${CARD}`, 'card'],
    ['GET', '/.well-known/agent.json', 'card'],
    ['POST', CARD, 'json-rpc'],
    ['GET', `${CARD}?a=1`, 'none'],
    ['GET', `${CARD}?`, 'none'],
    ['DELETE', CARD, 'none'],
    ['DELETE or GET', CARD, 'none'],
    ['GET or DELETE', CARD, 'none'],
    ['GET', `${CARD}/`, 'none'],
    ['GET', '/.well-known/agent-card.jsonx', 'none'],
    ['GET', '/.well-known/agent-cardxjson', 'none'],
    ['GET', '/x.well-known/agent-card.json', 'none'],
    ['POST', '/', 'json-rpc'],
    ['POST', '/a2a/', 'json-rpc'],
    ['POST', '/x:y/a2a', 'json-rpc'],
    ['GET', '/a2a', 'none'],
    ['POST or GET', '/a2a', 'none'],
    ['POST', '/x:y', 'none'],
    ['POST', '/x:y/', 'none'],
    ['POST', '/x%3Ay', 'none'],
    ['GET', '/tasks/7%3Acancel', 'none'],
    ['GET', '/tasks/tasks/7', 'none'],
    ['GET', '/tasks/7/tasks', 'none'],
    ['POST', '/TASKS', 'none'],
    // Their upper or lower case is a word: LATIN SMALL LETTER LONG S, KELVIN SIGN.
    ['POST', '/ta%C5%BFks', 'none'],
    ['POST', '/tas%E2%84%AAs', 'none'],
  ])('%s %s is %s', (verb, path, kind) => {
    expect(targetOf(verb, path).kind).toBe(kind);
  });
  it.each([
    ...['', 'a2a', '//a2a', '/a//b', '/a2a//', '/a/../b', '/tasks/%ff'],
    ...['/tasks/a%23b', '/tasks/a%25b', '/tasks/a%3bb', '/tasks/a%3B', '/tasks/%3fb', '/a%3F/tasks/7'],
  ])('with the path %s is refused', (path) => {
    expect(targetOf('GET', path)).toEqual({
      kind: 'invalid',
      reason: 'servers could read different paths from the path of this request',
    });
  });
});

it('says what to configure if nobody says the path', async () => {
  const decided = await newGate()('a2a', { path: null });
  expect(decided).toMatchObject({ decision: 'deny', code: 'INVALID_PATH', response: { status: 400 } });
  expect(JSON.stringify(decided)).toContain('X-Original-Uri');
});

it('a denied call over REST has the form of http, and names its method', async () => {
  expect(await newGate()('a2a', { method: 'GET', path: '/tasks/7' })).toMatchObject({
    response: {
      status: 403,
      headers: { 'content-type': 'application/json' },
      body: {
        error: {
          code: 'MISSING_BUNDLE',
          message: 'no X-DRS-Bundle header',
          suggestion: expect.stringContaining('Sign an invocation') as string,
        },
      },
    },
  });
});

it('a path that is longer than any header is refused', () => {
  expect(targetOf('GET', `/tasks/${'a'.repeat(65_530)}`)).toMatchObject({ kind: 'invalid' });
  expect(targetOf('GET', `/tasks?a=${'a'.repeat(65_530)}`)).toMatchObject({ kind: 'invalid' });
  expect(targetOf('GET', `/tasks?a=${'a'.repeat(65_500)}`)).toMatchObject({ kind: 'rest' });
});

it('any path is read in time that grows with its length', () => {
  const paths = [
    (n: number) => '/tasks'.repeat(n),
    (n: number) => '/tasks/1:cancel'.repeat(n),
    (n: number) => `/${'a'.repeat(6 * n)}`,
    (n: number) => '/%61'.repeat(n),
    (n: number) => `/tasks?${Array.from({ length: n }, (_, at) => `a${at}=%61`).join('&')}`,
    (n: number) => `/tasks/${':'.repeat(6 * n)}`,
  ];
  for (const path of paths) {
    const text = path(20_000).slice(0, 65_000);
    const before = process.cpuUsage();
    const target = targetOf('GET', text);
    if (target.kind === 'rest') restArguments(target, undefined);
    // A quadratic reader takes several seconds.
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  }
});
