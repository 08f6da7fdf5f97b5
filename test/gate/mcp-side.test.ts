import { describe, expect, it } from 'vitest';
import type { GateContext } from '../../src/gate/context.js';
import { forwardMcp } from '../../src/gate/mcp-forward.js';
import { idInUse, TaskOwners } from '../../src/gate/task-owners.js';

/** What a gate does to messages on either side of its decision: sends them on, and remembers what answers have started. */

const CONTEXT = 'xyz.okeyamy.drs/context';
const JWT = 'xyz.okeyamy.drs/context_jwt';
const context = { agent: 'did:key:z6Mk' } as GateContext;

describe('a message that is sent on', () => {
  const message = (params: string) => `{"jsonrpc":"2.0", "id":1,"method":"x"${params}}`;

  it.each([
    ['no params', message('')],
    ['params that are no object', message(',"params":[{"_meta":{"X-DRS-Bundle":"e30"}}]')],
    ['a _meta that is none', message(',"params":{"_meta":["X-DRS-Bundle"],"a":1}')],
    ['nothing reserved in its _meta', message(',"params":{"_meta":{"progressToken":1}}')],
    ['a reserved name elsewhere', message(',"params":{"arguments":{"X-DRS-Bundle":"e30"}}')],
    ['a large number', message(',"params":{"n":9007199254740993,"m":1.0}')],
    ['an escaped name', message(',"params":{"\\u0061":1}')],
    ['the same text twice, as value and as name', message(',"params":{"a":"a","b":{"a":1}}')],
    ['no object', '[{"params":{"_meta":{"X-DRS-Bundle":"e30"}}}]'],
    ['nothing', 'null'],
  ])('stays as it is with %s', (_, text) => {
    expect(forwardMcp(text, null)).toBe(text);
  });

  it.each([
    'X-DRS-Bundle',
    'x-drs-bundle',
    'xyz.okeyamy.drs/bundle',
    CONTEXT,
    JWT,
    'XYZ.OKEYAMY.DRS/context',
    // The Kelvin sign is a k to who compares without regard to case.
    'xyz.o\u212aeyamy.drs/context',
    // The long s is an s to who takes upper case.
    'xyz.okeyamy.dr\u017f/context',
  ])('has no %s that a caller has put there', (name) => {
    for (const meta of ['_meta', '_META', '_Meta']) {
      const params = { a: 1, [meta]: { [name]: 'forged', progressToken: 1 } };
      expect(JSON.parse(forwardMcp(message(`,"params":${JSON.stringify(params)}`), null) ?? '')).toEqual({
        ...{ jsonrpc: '2.0', id: 1, method: 'x' },
        params: { a: 1, [meta]: { progressToken: 1 } },
      });
    }
  });

  it.each([
    ['of the envelope', message(',"id":2'), '{"jsonrpc":"2.0","id":2,"method":"x"}'],
    [
      'of params',
      message(',"params":{"a":1,"a":2}'),
      '{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":2}}',
    ],
    [
      'deep inside',
      message(`,"params":${'{"a":'.repeat(99)}{"b":1,"\\u0062":2}${'}'.repeat(99)}`),
      `{"jsonrpc":"2.0","id":1,"method":"x","params":${'{"a":'.repeat(99)}{"b":2}${'}'.repeat(99)}}`,
    ],
  ])('has no name twice %s: it is written as it was read', (_, text, written) => {
    expect(forwardMcp(text, null)).toBe(written);
  });

  it('tells of an allowed call who may make it, beside what else is in its _meta', () => {
    const sent = (params: object, token: string | null) =>
      JSON.parse(
        forwardMcp(message(`,"params":${JSON.stringify(params)}`), { context, token }) ?? '',
      ) as object;
    const given = {
      name: 'search',
      _meta: { 'X-DRS-Bundle': 'e30', [CONTEXT]: { agent: 'me' }, [JWT]: 'a', p: 1 },
    };
    const told = { p: 1, [CONTEXT]: context };
    expect(sent(given, null)).toEqual({
      ...{ jsonrpc: '2.0', id: 1, method: 'x' },
      params: { name: 'search', _meta: told },
    });
    expect(sent(given, 'token')).toMatchObject({ params: { _meta: { ...told, [JWT]: 'token' } } });
    expect(sent({ _meta: null }, null)).toMatchObject({ params: { _meta: { [CONTEXT]: context } } });
    expect(sent({}, null)).toMatchObject({ params: { _meta: { [CONTEXT]: context } } });
  });

  it('tells what a gate on trial would have denied', () => {
    expect(JSON.parse(forwardMcp(message(',"params":{}'), { observed: 'EXPIRED' }) ?? '')).toHaveProperty(
      'params',
      {
        _meta: { 'xyz.okeyamy.drs/observed': 'EXPIRED' },
      },
    );
  });

  it('tells nothing where there is no place for it', () => {
    for (const text of [message(''), message(',"params":[]'), message(',"params":null')])
      expect(forwardMcp(text, { context, token: 'token' })).toBe(text);
  });
});

describe('the tasks that answers have started', () => {
  const inResult = (taskId: unknown) => ({ task: { taskId } });
  const get = (taskId: unknown, method: unknown = 'tasks/get') => ({ method, params: { taskId } });
  const owned = (...results: unknown[]) => {
    const tasks = new TaskOwners();
    for (const result of results) tasks.record(result, 'alice');
    return tasks;
  };

  it.each([
    ['in the member task', inResult('t')],
    ['in the result', { resultType: 'task', taskId: 't' }],
    ['in the result, beside a task that is none', { task: null, resultType: 'task', taskId: 't' }],
    ['in the result, beside a task without an id', { task: {}, resultType: 'task', taskId: 't' }],
  ])('are the principal’s: %s', (_, result) => {
    const tasks = owned(result);
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/update']) {
      expect(tasks.findFailure(get('t', method), 'alice')).toBeNull();
      expect(tasks.findFailure(get('t', method), 'bob')).toMatchObject({
        code: 'TASK_MISMATCH',
        message: 'the task was started for another principal',
        verdict: { valid: true },
      });
      expect(tasks.findFailure(get('t', method), null)).toMatchObject({
        code: 'TASK_MISMATCH',
        verdict: null,
      });
    }
    expect(tasks.findFailure(get('u'), 'bob')).toBeNull();
  });

  it.each([
    ['no result', null],
    ['nothing', undefined],
    ['a text', 't'],
    ['no task', { taskId: 't' }],
    ['another type of result', { resultType: 'complete', taskId: 't' }],
    ['a task that is a text', { task: 't' }],
    ['a task that is none', { task: null }],
    ['an id that is no text', inResult({ toString: () => 't' })],
    ['no id', { task: {} }],
  ])('are not there after %s', (_, result) => {
    expect(owned(result).findFailure(get('t'), 'bob')).toBeNull();
  });

  it('have ids of any length', () => {
    const [longest, longer] = ['x'.repeat(256), 'x'.repeat(257)];
    const tasks = owned(inResult(longest), inResult(longer));
    for (const id of [longest, longer]) {
      expect(tasks.findFailure(get(id), 'alice')).toBeNull();
      expect(tasks.findFailure(get(id), 'bob')).not.toBeNull();
    }
  });

  it('stay those of the first who got them', () => {
    const tasks = owned(inResult('t'));
    tasks.record(inResult('t'), 'bob');
    expect(tasks.findFailure(get('t'), 'alice')).toBeNull();
    expect(tasks.findFailure(get('t'), 'bob')).not.toBeNull();
  });

  it('are of no concern to messages that name none, or do nothing with it', () => {
    const tasks = owned(inResult('t'));
    for (const message of [
      ...[
        {},
        { method: 'tasks/get' },
        { method: 'tasks/get', params: null },
        { method: 'tasks/get', params: 't' },
      ],
      ...[
        get(['t']),
        get('t', 'tasks/list'),
        { params: { taskId: 't' } },
        { method: 'tasks/get', params: {} },
      ],
    ])
      expect(tasks.findFailure(message, 'bob')).toBeNull();
  });

  it('are 10,000 of each principal; what is forgotten is nobody’s, and takes no other’s place', () => {
    const tasks = owned();
    tasks.record(inResult('other'), 'carol');
    // An answer that started no task takes nobody's place.
    for (let at = 0; at < 10_000; at++) tasks.record(inResult(`t${at}`), 'alice');
    tasks.record(null, 'alice');
    expect(tasks.findFailure(get('t0'), 'alice')).toBeNull();
    tasks.record(inResult('one more'), 'alice');
    for (const who of ['alice', 'bob'])
      expect(tasks.findFailure(get('t0'), who)).toMatchObject({
        ...{ code: 'TASK_MISMATCH', message: 'this process no longer knows whose task it is' },
      });
    for (const id of ['t1', 't9999', 'one more']) {
      expect(tasks.findFailure(get(id), 'alice')).toBeNull();
      expect(tasks.findFailure(get(id), 'bob')).not.toBeNull();
    }
    expect(tasks.findFailure(get('other'), 'carol')).toBeNull();
    expect(tasks.findFailure(get('never known'), 'bob')).toBeNull();
  });

  it('are 100,000 of all', () => {
    const tasks = owned();
    const start = (at: number) => tasks.record(inResult(`t${at}`), `principal ${at % 20}`);
    for (let at = 0; at < 100_000; at++) start(at);
    expect(tasks.findFailure(get('t0'), 'principal 0')).toBeNull();
    start(100_001);
    expect(tasks.findFailure(get('t0'), 'principal 0')).not.toBeNull();
    expect(tasks.findFailure(get('t1'), 'principal 1')).toBeNull();
  });
});

it('an id that is in use is refused with what to do', () => {
  expect(idInUse('a"b')).toMatchObject({
    code: 'INVALID_JSONRPC',
    status: 400,
    message: 'the request id "a\\"b" is in use: the answers could not be told apart',
    suggestion: 'Give each request of a connection an id of its own.',
  });
});
