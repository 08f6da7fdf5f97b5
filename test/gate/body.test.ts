import { describe, expect, it } from 'vitest';
import { signedArgumentsOf } from '../../src/gate/a2a.js';
import { bodyOfBytes, bodyOfValue, unwrap, wholeBodyOfBytes } from '../../src/gate/carriers.js';
import { ANY_ROUTE, openHttp } from '../../src/gate/http.js';
import { readHeaders, type RequestBody } from '../../src/gate/request.js';

describe('the bytes of a body', () => {
  const read = (contentType: string | null, contentEncoding: string | null = null, bytes = '{}') =>
    bodyOfBytes(
      Buffer.from(bytes, 'latin1'),
      readHeaders({ 'content-type': contentType, 'content-encoding': contentEncoding }),
    );

  it('are text, or say why they are not looked at', () => {
    expect(read(null)).toEqual({ kind: 'text', text: '{}' });
    expect(read(null, null, '\xff')).toEqual({ kind: 'unusable', reason: 'the body is not UTF-8' });
    expect(read(null, 'gzip')).toEqual({
      kind: 'unusable',
      reason: 'the body is encoded (Content-Encoding: gzip), expected plain JSON',
    });
    expect(read('text/plain')).toEqual({
      kind: 'unusable',
      reason: 'the body is text/plain, expected application/json with no parameter but charset=utf-8',
    });
    expect(read('x'.repeat(200))).toMatchObject({
      reason: `the body is ${'x'.repeat(200)}, expected application/json with no parameter but charset=utf-8`,
    });
    expect(read('x'.repeat(201))).toMatchObject({
      reason: `the body is ${'x'.repeat(200)}…, expected application/json with no parameter but charset=utf-8`,
    });
  });

  it.each([
    ' application/json ',
    'application/json ;\tcharset=utf-8',
    'application/json; charset="UTF-8"',
    'Application/JSON;Charset=utf8',
    'application/a.b-c_1+json',
  ])('are read as %j', (type) => {
    expect(read(type).kind).toBe('text');
  });
  it.each([
    'xapplication/json',
    'application/jsonx',
    'application/+json',
    'application/a+b+json',
    ...['a=b', 'a', '', 'charset*0=utf-7', 'charset*=utf-7', "charset*=utf-8''utf-7", 'charset*0*=utf-7'].map(
      (parameter) => `application/json;${parameter}`,
    ),
    ...['charset = utf-8', 'charset="utf-8', 'charset=utf-8"', "charset='utf-8'", 'charset="\\utf-8"'].map(
      (parameter) => `application/json; ${parameter}`,
    ),
    'application/json; charset=utf-8; charset=utf-8',
    ...['application/json; charset=utf-8;', 'application/json; charset=\u00a0utf-8'],
    ...['application/json\u00a0', 'application/json; charset=utf-8\n', 'application/json; charset'],
    ...['application/json; charset=', 'application/json; charset=xutf-8'],
    ...['application/json; charset=utf-8x', 'application/json; charset=utf--8'],
    ...['application/json; a=b; charset=latin1', 'application/json,'],
  ])('are not read as %j', (type) => {
    expect(read(type).kind).toBe('unusable');
  });
  it('are not read if a header comes twice, even as it should be, or empty', () => {
    const reasonOf = (headers: object) => bodyOfBytes(Buffer.from('{}'), readHeaders({ ...headers }));
    expect(reasonOf({ 'content-type': ['application/json', 'application/json'] })).toMatchObject({
      reason:
        'the body is application/json, application/json, expected application/json with no parameter but charset=utf-8',
    });
    expect(reasonOf({ 'content-type': ['', 'application/json'] }).kind).toBe('unusable');
    expect(reasonOf({ 'content-encoding': ['identity', 'gzip'] })).toMatchObject({
      reason: 'the body is encoded (Content-Encoding: identity, gzip), expected plain JSON',
    });
    expect(reasonOf({ 'content-encoding': ['', 'identity'] }).kind).toBe('unusable');
  });
  it('are no body if there are none, and it can be read', () => {
    expect(wholeBodyOfBytes(Buffer.from(''), readHeaders({}))).toEqual({ kind: 'none' });
    expect(wholeBodyOfBytes(Buffer.from(' '), readHeaders({}))).toEqual({ kind: 'text', text: ' ' });
    const form = readHeaders({ 'content-type': 'text/plain' });
    expect(wholeBodyOfBytes(Buffer.from(''), form)).toMatchObject({ kind: 'unusable' });
  });
  it('are read if their encoding is none, however that is written, and in no other', () => {
    for (const encoding of [null, '', 'identity', ' IDENTITY '])
      expect([encoding, read(null, encoding).kind]).toEqual([encoding, 'text']);
    for (const encoding of [
      'deflate',
      'zstd',
      'br',
      'compress',
      'x-gzip',
      'GZIP',
      'gzip, identity',
      'unknown',
    ])
      expect([encoding, read(null, encoding).kind]).toEqual([encoding, 'unusable']);
  });
});

describe('a parsed body', () => {
  const wrapped = (depth: number) => {
    let value: unknown = 2 ** 53;
    for (let level = 0; level < depth; level++) value = [value];
    return value;
  };
  it.each<[string, unknown]>([
    ['an integer that is exact', { a: [2 ** 53 - 1, -(2 ** 53) + 1, 0.1] }],
    ['null, a text and a boolean', [null, '9007199254740993', true]],
    ['undefined', undefined],
    ['a number deeper than arguments may be', wrapped(66)],
  ])('is compared: %s', (_, value) => {
    expect(bodyOfValue(value)).toEqual({ kind: 'value', value });
  });
  it.each<[string, unknown]>([
    ['a number beyond 2^53', 2 ** 53],
    ['in an object', { a: 1, b: 2 ** 53 }],
    ['below zero, in an array', [[-(2 ** 53)], 1]],
    ['as deep as arguments may be', wrapped(65)],
  ])('is not compared: %s', (_, value) => {
    expect(bodyOfValue(value)).toMatchObject({
      kind: 'unusable',
      reason: expect.stringContaining('2^53') as string,
    });
  });
});

it('a parsed body of an HTTP request is not compared either where a number may have been rounded', () => {
  const headers = readHeaders({ 'X-DRS-Bundle': 'e30' });
  const open = (value: unknown) =>
    openHttp({ method: 'POST', target: null, headers, body: { kind: 'value', value } }, ANY_ROUTE);
  expect(open({ n: 1 })).toMatchObject({ body: { kind: 'value', value: { n: 1 } } });
  expect(open({ n: 2 ** 53 })).toMatchObject({ body: { kind: 'unusable' } });
});

describe('signed arguments', () => {
  it('are those of the call and its tool', () => {
    expect(signedArgumentsOf('search', undefined)).toEqual({ args: { tool: 'search' } });
    expect(signedArgumentsOf('search', { query: 'tea' })).toEqual({ args: { tool: 'search', query: 'tea' } });
    expect(signedArgumentsOf('search', Object.create({ tool: 'x' }))).toEqual({ args: { tool: 'search' } });
  });
  it.each([null, [], 'x', 1])('cannot be had of %j', (args) => {
    expect(signedArgumentsOf('search', args)).toMatchObject({ code: 'INVALID_PARAMS' });
  });
  it.each(['tool', 'path'])('have no member named %s', (name) => {
    expect(signedArgumentsOf('search', { [name]: undefined })).toMatchObject({ code: 'RESERVED_ARGUMENT' });
  });
});

describe('a request in an envelope', () => {
  const requestWith = (body: RequestBody, type = 'application/drs-call+json') => ({
    ...{ method: 'POST', target: '/', headers: readHeaders({ 'content-type': type }) },
    body,
  });
  const text = (envelope: string): RequestBody => ({
    kind: 'unusable',
    reason: 'it is an envelope',
    envelope,
  });

  it('is the request inside, with its bundle', () => {
    const request = requestWith(text('{"body":{"n":1},"bundle":"e30"}'));
    expect(unwrap(request)).toEqual({ ...request, carried: 'e30', body: { kind: 'value', value: { n: 1 } } });
    const plain = requestWith({ kind: 'text', text: '{}' }, 'application/json');
    expect(unwrap(plain)).toBe(plain);
  });

  const NOT_HERE = 'the envelope is not here as text (of a question to /v1/gate: body_text): ';
  const OTHER = 'the envelope is not an object of a string "bundle" and of "body", and nothing else';
  it.each<[string, RequestBody, string, RegExp]>([
    ['is too large', { kind: 'too large', reason: 'it is large' }, 'BODY_TOO_LARGE', /^it is large$/],
    ['was not read', { kind: 'unread' }, 'MALFORMED_BUNDLE', /: it was not read$/],
    [
      'is a value',
      { kind: 'value', value: { bundle: 'e30', body: {} } },
      'MALFORMED_BUNDLE',
      /: it was not read$/,
    ],
    ['is unusable', { kind: 'unusable', reason: 'it is a form' }, 'MALFORMED_BUNDLE', /: it is a form$/],
    ['is no JSON', text('{'), 'MALFORMED_BUNDLE', /^the envelope is not strict JSON: ./],
    [
      'has a bundle twice',
      text('{"bundle":"a","bundle":"a","body":1}'),
      'MALFORMED_BUNDLE',
      /^the envelope is not strict JSON: ./,
    ],
  ])('is refused if it %s', (_, body, code, message) => {
    expect(unwrap(requestWith(body))).toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
    if (body.kind === 'unread')
      expect(unwrap(requestWith(body))).toMatchObject({ message: `${NOT_HERE}it was not read` });
  });

  it.each([
    '[]',
    'null',
    '{}',
    '{"bundle":["e30"],"body":1}',
    '{"bundle":null,"body":1}',
    '{"bundle":"e30"}',
    '{"body":1}',
    '{"bundle":"e30","body":1,"x":1}',
  ])('is refused with what to send if it is %s', (envelope) => {
    expect(unwrap(requestWith(text(envelope)))).toMatchObject({
      ...{ code: 'MALFORMED_BUNDLE', status: 400, message: OTHER },
      suggestion:
        'Send application/drs-call+json as {"bundle": "<what encodeBundle() gives>", "body": <the body that was signed>}.',
    });
  });
});
