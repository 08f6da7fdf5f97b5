import { describe, expect, it } from 'vitest';
import type { HttpRequest } from '../../src/service/http/front-end.js';
import {
  GateHead,
  isForeignOrigin,
  readHead,
  type RequestHead,
} from '../../src/service/http/request-head.js';

type Headers = readonly (readonly [name: string, value: string])[];

const requestWith = (headers: Headers): HttpRequest => ({
  getCaseSensitiveMethod: () => 'GET',
  getUrl: () => '/verify',
  getQuery: () => '',
  getHeader: (name) => headers.find(([found]) => found === name)?.[1] ?? '',
  forEach: (visit) => headers.forEach(([name, value]) => visit(name, value)),
});
const headOf = (...headers: Headers): RequestHead => readHead(requestWith(headers));

describe('the head of a request', () => {
  it('has what every route needs, and nothing of the request before', () => {
    const head = headOf(
      ['content-length', '12'],
      ['origin', 'https://a.example'],
      ['sec-fetch-site', 'cross-site'],
      ['x-request-id', 'r-1'],
      ['traceparent', 'a trace'],
      ['x-forwarded-for', '192.0.2.1, 192.0.2.2'],
      ['x-forwarded-for', '192.0.2.3'],
      ['content-type', 'application/json'],
      ['content-type', 'text/plain'],
      ['content-encoding', 'gzip'],
      ['content-encoding', 'br'],
      ['x-drs-bundle', 'a bundle'],
      // As long as names that are read.
      ['content-digest', 'x'],
      ['accept-encoding', 'x'],
    );
    expect(head).toMatchObject({
      ...{ contentLength: 12, hasBody: true, framingFault: null },
      ...{ origin: 'https://a.example', fetchSite: 'cross-site', requestId: 'r-1', traceparent: 'a trace' },
      forwardedFor: '192.0.2.1, 192.0.2.2,192.0.2.3',
      ...{ contentType: 'application/json,text/plain', contentEncoding: 'gzip,br', hasBundle: true },
    });
    expect(headOf()).toMatchObject({
      ...{ contentLength: 0, hasBody: false, framingFault: null },
      ...{ origin: null, fetchSite: null, requestId: null, traceparent: null, forwardedFor: null },
      ...{ contentType: null, contentEncoding: null, hasBundle: false },
    });
  });

  it('has no request id that cannot be logged', () => {
    expect(headOf(['x-request-id', 'r 1']).requestId).toBeNull();
  });

  it.each<[headers: Headers, hasBody: boolean, fault: string | null]>([
    [[['content-length', '0']], false, null],
    [[['content-length', '1']], true, null],
    [[['transfer-encoding', 'chunked']], true, null],
    [[['transfer-encoding', 'Chunked']], true, null],
    [
      [
        ['content-length', '1'],
        ['content-length', '1'],
      ],
      true,
      'Content-Length comes more than once, expected one',
    ],
    [
      [
        ['transfer-encoding', 'chunked'],
        ['transfer-encoding', 'chunked'],
      ],
      true,
      'Transfer-Encoding comes more than once, expected "chunked"',
    ],
    [[['transfer-encoding', 'gzip']], true, 'Transfer-Encoding is "gzip", expected "chunked"'],
    [
      [['transfer-encoding', 'x'.repeat(99)]],
      true,
      `Transfer-Encoding is "${'x'.repeat(40)}", expected "chunked"`,
    ],
  ])('says whether there is a body, and where it ends: %j', (headers, hasBody, framingFault) => {
    expect(headOf(...headers)).toMatchObject({ hasBody, framingFault });
  });

  it('has the headers of a gate only where they are asked for', () => {
    const request = requestWith([
      ['x-drs-bundle', 'a bundle'],
      ['content-length', '3'],
    ]);
    expect(readHead(request).gate.headers('x-drs-bundle')).toEqual([]);
    const head = readHead(request, new GateHead());
    expect([head.contentLength, head.gate.headers('x-drs-bundle')]).toEqual([3, ['a bundle']]);
  });
});

describe('the headers that a gate reads', () => {
  const gateHeadOf = (...headers: Headers) => {
    const head = new GateHead();
    for (const [name, value] of headers) head.add(name, value);
    return head;
  };

  it('are kept in order, with repeated ones; others are not kept', () => {
    const head = gateHeadOf(
      ['x-drs-bundle', 'one'],
      ['x-other', 'x'],
      ['x-drs-bundle', 'two'],
      ['x-drs-bundle', 'three'],
      ['mcp-method', 'tools/call'],
    );
    expect((['x-drs-bundle', 'mcp-method', 'mcp-name'] as const).map((name) => head.headers(name))).toEqual([
      ['one', 'two', 'three'],
      ['tools/call'],
      [],
    ]);
    expect(head.headers('x-other' as 'mcp-name')).toEqual([]);
  });

  it.each([
    ['/a?b=1', [], '/a?b=1'],
    ['', [], null],
    ['', [['x-forwarded-uri', '/a']], '/a'],
    ['/a', [['x-original-uri', '/a']], '/a'],
    // Of a request with such a header, the gate finds that it names another path.
    ['/a', [['x-original-url', '/b']], '/a'],
    ['', [['x-original-url', '/b']], '/b'],
    // What a proxy may have left of the caller's request.
    ['/a', [['x_original_uri', '/a']], null],
    [
      '',
      [
        ['x-original-uri', '/a'],
        ['x_forwarded-uri', '/a'],
      ],
      null,
    ],
    ['', [['x_original_url', '/a']], 'x_original_url: /a'],
    [
      '',
      [
        ['x-forwarded-uri', '/a'],
        ['x-forwarded-uri', '/b'],
      ],
      null,
    ],
  ] as const)('with %j and %j, the path of the caller is %j', (known, headers, path) => {
    expect(gateHeadOf(...headers).path(known)).toBe(path);
  });

  it.each([
    [[], false],
    [['false'], false],
    [[' False '], false],
    [['true'], true],
    [[''], true],
    [['false', 'true'], true],
  ])('say whether the body is whole: %j', (values, isPartial) => {
    const headers = values.map((value) => ['x-envoy-auth-partial-body', value] as const);
    expect(gateHeadOf(...headers).isPartial).toBe(isPartial);
  });
});

describe('a web page', () => {
  const allowed = new Set(['https://ours.example']);

  it.each<[origin: string | null, site: string | null, isForeign: boolean]>([
    [null, null, false],
    ['https://ours.example', 'cross-site', false],
    ['https://other.example', 'same-origin', true],
    ['null', null, true],
    [null, 'none', false],
    [null, 'same-origin', false],
    [null, 'same-site', true],
    [null, 'cross-site', true],
  ])('of origin %s, from %s, is foreign: %s', (origin, fetchSite, isForeign) => {
    expect(isForeignOrigin({ ...headOf(), origin, fetchSite }, allowed)).toBe(isForeign);
  });
});
