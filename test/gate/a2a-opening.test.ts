import { describe, expect, it } from 'vitest';
import { openA2a } from '../../src/gate/a2a.js';
import { readHeaders, type RequestBody } from '../../src/gate/request.js';

const bundle = { 'X-DRS-Bundle': 'e30' };
const open = (method: string, path: string | null, body: RequestBody, headers: object = bundle) =>
  openA2a({ method, target: path, headers: readHeaders({ ...headers }), body });
const text = (value: string) => ({ kind: 'text', text: value }) as const;
const NONE: RequestBody = { kind: 'none' };
const rpc = (members: object = {}) =>
  text(JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'SendMessage', ...members }));

describe('a request to an A2A agent', () => {
  it('over JSON-RPC is opened as its method', () => {
    expect(open('POST', '/a2a', rpc({ params: { n: 1 } }))).toEqual({
      ...{ kind: 'check', protocol: 'a2a', id: 7, form: undefined, requested: 'SendMessage' },
      ...{ bundle: {}, encoded: 'e30' },
      body: { kind: 'value', value: { tool: 'SendMessage', n: 1 } },
      expected: { command: '/a2a/SendMessage', orBelow: false, tool: null },
    });
  });

  it('over REST is opened as its method', () => {
    expect(open('POST', '/rest/tasks/7:cancel', text('{"n":1}'))).toEqual({
      ...{ kind: 'check', protocol: 'a2a', id: null, form: 'http', requested: 'CancelTask' },
      ...{ bundle: {}, encoded: 'e30' },
      body: { kind: 'value', value: { id: '7', n: 1, tool: 'CancelTask', path: '/rest' } },
      expected: { command: '/a2a/CancelTask', orBelow: false, tool: null },
    });
  });

  it.each<[string, string | null, string, string]>([
    ['GET', '/a2a', 'METHOD_NOT_ALLOWED', 'GET with this path is no call of A2A and no agent card'],
    ['PUT', '/tasks/7', 'METHOD_NOT_ALLOWED', 'PUT with this path is no call of A2A and no agent card'],
    ['POST', '//a2a', 'INVALID_PATH', 'servers could read different paths from the path of this request'],
    ['POST', '/a2a?x=1', 'INVALID_PATH', 'the path has a query, which is not signed over JSON-RPC'],
    [
      ...(['GET', '/.well-known/agent-card.json', 'METHOD_NOT_ALLOWED'] as const),
      'the request for the card has a body',
    ],
  ])('is refused: %s %s', (method, path, code, message) => {
    expect(open(method, path, rpc())).toEqual({
      ...{ kind: 'deny', protocol: 'a2a', id: null, form: undefined, requested: null },
      failure: expect.objectContaining({ code, message }) as object,
    });
  });

  it.each<[object, string, string]>([
    [{ method: undefined, result: 1 }, 'INVALID_JSONRPC', 'the message has no method'],
    [{ params: [] }, 'INVALID_PARAMS', 'params is not an object'],
    [{ params: { tool: 'x' } }, 'RESERVED_ARGUMENT', 'params has a member named "tool" or "path"'],
  ])('is refused with the message %j', (members, code, message) => {
    expect(open('POST', '/a2a', rpc(members))).toMatchObject({
      ...{ kind: 'deny', protocol: 'a2a', id: 7, failure: { code, message } },
    });
  });
});

describe('the body of a call over REST', () => {
  const compared = (path: string, body: RequestBody) => {
    const opened = open('POST', path, body);
    if (opened.kind === 'pass') throw new Error('it passes');
    expect(opened).toMatchObject({ protocol: 'a2a', id: null, form: 'http' });
    return opened.kind === 'check' ? opened.body : opened.failure;
  };
  const SEND = '/message:send';
  const CANCEL = '/tasks/7:cancel';
  const cancelled = { id: '7', tool: 'CancelTask' };

  it.each<[string, string, RequestBody, object]>([
    ['none', CANCEL, NONE, cancelled],
    ['none, where there should be one', SEND, NONE, { tool: 'SendMessage' }],
    ['an empty text, where it may be missing', CANCEL, text(''), cancelled],
    ['JSON', SEND, text('{"n":1}'), { n: 1, tool: 'SendMessage' }],
    ['JSON where it may be missing', CANCEL, text('{"n":1}'), { ...cancelled, n: 1 }],
    ['JSON with a large number', SEND, text('{"n":1e300}'), { n: 1e300, tool: 'SendMessage' }],
    ['a value', SEND, { kind: 'value', value: { n: 1 } }, { n: 1, tool: 'SendMessage' }],
  ])('is %s', (_, path, body, value) => {
    expect(compared(path, body)).toEqual({ kind: 'value', value });
  });

  it.each<[string, RequestBody, RegExp]>([
    ['an empty text', text(''), /^the body is not strict JSON: ./],
    ['a member twice', text('{"n":1,"n":1}'), /^the body is not strict JSON: ./],
    ['a form', { kind: 'unusable', reason: 'it is a form' }, /^it is a form$/],
    ['one that was not read', { kind: 'unread' }, /^the body was not read$/],
    ['a rounded number', { kind: 'value', value: { n: 2 ** 53 } }, /^a number is beyond 2\^53/],
  ])('never matches if it is %s', (_, body, reason) => {
    expect(compared(SEND, body)).toEqual({
      kind: 'unusable',
      reason: expect.stringMatching(reason) as string,
    });
  });
  it('is not looked at where one may be missing, either', () => {
    expect(compared(CANCEL, { kind: 'unread' })).toMatchObject({ kind: 'unusable' });
    expect(compared(CANCEL, { kind: 'unusable', reason: 'it is a form' })).toMatchObject({
      reason: 'it is a form',
    });
    expect(compared(CANCEL, text(' '))).toMatchObject({ kind: 'unusable' });
  });

  it.each<[string, RequestBody, string, RegExp]>([
    ['large', { kind: 'too large', reason: 'it is large' }, 'BODY_TOO_LARGE', /^it is large$/],
    [
      'full of members',
      text(`{"n":[${'[],'.repeat(300_000)}0]}`),
      'BODY_TOO_LARGE',
      /^the body: it holds more than /,
    ],
    ['an array', text('[]'), 'INVALID_PARAMS', /^the body is not a JSON object$/],
    ['with a member named tool', text('{"tool":"x"}'), 'RESERVED_ARGUMENT', /"tool"$/],
  ])('is refused if it is %s', (_, body, code, message) => {
    expect(compared(SEND, body)).toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
  });
});
