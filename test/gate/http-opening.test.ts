import { describe, expect, it } from 'vitest';
import { ENVELOPE_TYPE } from '../../src/gate/carriers.js';
import { ANY_ROUTE, openHttp, openRouted } from '../../src/gate/http.js';
import { RouteTable, type HttpRoute } from '../../src/gate/routes.js';
import { readHeaders, type RequestBody } from '../../src/gate/request.js';

const bundle = { 'X-DRS-Bundle': 'e30' };
const asked = (body: RequestBody, headers: object = bundle) => ({
  method: 'POST',
  target: '/files/a',
  headers: readHeaders({ ...headers }),
  body,
});
const text = (value: string) => ({ kind: 'text', text: value }) as const;
const ROUTE: HttpRoute = { command: '/files', tool: 'read_file', parameters: { name: 'a' }, body: 'json' };
/** What is compared with the signed arguments, or the failure. */
const compared = (body: RequestBody, route: Partial<HttpRoute> = {}) => {
  const opened = openHttp(asked(body), { ...ROUTE, ...route });
  return opened.kind === 'check' ? opened.body : opened.failure;
};

describe('a call over HTTP', () => {
  it('is opened with what its route says', () => {
    expect(openHttp(asked(text('{"n":1}')), ROUTE)).toEqual({
      ...{ kind: 'check', protocol: 'http', id: null, bundle: {}, encoded: 'e30', requested: 'read_file' },
      body: { kind: 'value', value: { tool: 'read_file', name: 'a', n: 1 } },
      expected: { command: '/files', orBelow: true, tool: 'read_file' },
    });
  });

  it.each<[string, RequestBody, Partial<HttpRoute>, object]>([
    ['no body', { kind: 'none' }, {}, { tool: 'read_file', name: 'a' }],
    ['no body, where none is read', { kind: 'none' }, { body: 'none' }, { tool: 'read_file', name: 'a' }],
    ['an empty text, where none is read', text(''), { body: 'none' }, { tool: 'read_file', name: 'a' }],
    ['a parsed body', { kind: 'value', value: { n: 1 } }, {}, { tool: 'read_file', name: 'a', n: 1 }],
    ['its own tool', text('{"tool":"rm"}'), {}, { tool: 'rm', name: 'a' }],
    ['any tool', text('{"n":1}'), { tool: null }, { name: 'a', n: 1 }],
    ['no parameters', text('{"n":1}'), { parameters: {} }, { tool: 'read_file', n: 1 }],
    ['no body, which alone is compared', { kind: 'none' }, ANY_ROUTE, {}],
    ['a parsed body, which alone is compared', { kind: 'value', value: { n: 1 } }, ANY_ROUTE, { n: 1 }],
  ])('has these arguments with %s', (_, body, route, value) => {
    expect(compared(body, route)).toEqual({ kind: 'value', value });
  });
  it('has its text, if that alone is compared', () => {
    expect(compared(text('{"n":1}'), ANY_ROUTE)).toEqual(text('{"n":1}'));
  });

  const NONE_TAKEN = 'the request has a body, and its route takes none';
  it.each<[string, RequestBody, Partial<HttpRoute>, string]>([
    ['a body', text('{}'), { body: 'none' }, NONE_TAKEN],
    ['white space', text(' '), { body: 'none' }, NONE_TAKEN],
    ['a parsed body', { kind: 'value', value: {} }, { body: 'none' }, NONE_TAKEN],
    ['an array', text('[]'), {}, 'the body is not a JSON object'],
    ['a parsed text', { kind: 'value', value: 'x' }, {}, 'the body is not a JSON object'],
    ['a form', { kind: 'unusable', reason: 'it is a form' }, {}, 'it is a form'],
    ['no JSON', text('{'), {}, 'the body is not strict JSON: '],
    ['no text', text(''), {}, 'the body is not strict JSON: '],
    ['a member twice', text('{"n":1,"n":1}'), {}, 'the body is not strict JSON: '],
    ['a rounded number', { kind: 'value', value: { n: 2 ** 53 } }, {}, 'a number is beyond 2^53'],
  ])('has no arguments that could match with %s', (_, body, route, reason) => {
    const found = compared(body, route);
    expect(found).toEqual({ kind: 'unusable', reason: expect.stringContaining(reason) as string });
    expect(found).not.toMatchObject({ reason: expect.stringMatching(/: $/) as string });
  });

  it('may not have an argument in two places', () => {
    expect(openHttp(asked(text('{"name":"a"}')), ROUTE)).toMatchObject({
      ...{ kind: 'deny', protocol: 'http', id: null, requested: 'read_file' },
      failure: {
        code: 'RESERVED_ARGUMENT',
        message: 'the body has a member named "name", which is in the path or the query',
        suggestion: 'Send each argument in one place.',
      },
    });
    expect(compared(text('{"toString":1}'))).toMatchObject({ kind: 'value' });
  });

  it('is not opened with a body that is too large', () => {
    expect(compared({ kind: 'too large', reason: 'it is large' })).toMatchObject({
      code: 'BODY_TOO_LARGE',
      message: 'it is large',
    });
  });

  it('is not opened if a header names another method', () => {
    const open = (method: string) =>
      openHttp(asked(text('{}'), { ...bundle, 'X-HTTP-Method-Override': method }), ROUTE);
    expect(open('POST')).toMatchObject({ kind: 'check' });
    expect(open('DELETE')).toMatchObject({
      kind: 'deny',
      requested: 'read_file',
      failure: { code: 'METHOD_NOT_ALLOWED', message: 'the HTTP method is POST or DELETE, expected one' },
    });
  });

  it('is refused without a bundle, or with one that cannot be decoded', () => {
    expect(openHttp(asked(text('{}'), {}), ROUTE)).toMatchObject({
      requested: 'read_file',
      failure: { code: 'MISSING_BUNDLE', status: 401, message: 'no X-DRS-Bundle header' },
    });
    expect(openHttp(asked(text('{}'), { 'Content-Type': ENVELOPE_TYPE }), ROUTE)).toMatchObject({
      failure: { message: 'no X-DRS-Bundle header, and this route takes no envelopes' },
    });
    expect(openHttp(asked(text('{}'), { 'X-DRS-Bundle': '*' }), ROUTE)).toMatchObject({
      requested: 'read_file',
      failure: { code: 'MALFORMED_BUNDLE' },
    });
  });

  it('is refused by its route before its bundle is looked for', () => {
    const none = 'this gate has no routes: the operator sets GATE_ROUTES to a file of them, or to "any"';
    const table = RouteTable.parse('{"routes":[{"method":"POST","path":"/search","tool":"search"}]}');
    for (const [routes, message] of [
      [null, none],
      [table, expect.any(String) as string],
    ] as const)
      expect(openRouted(asked(text('{}'), {}), routes)).toMatchObject({
        ...{ kind: 'deny', requested: null },
        failure: { code: 'UNKNOWN_ROUTE', message },
      });
  });
});
