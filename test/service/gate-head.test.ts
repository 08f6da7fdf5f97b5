import { describe, expect, it } from 'vitest';
import { GateHead } from '../../src/service/http/gate-head.js';

type Headers = readonly (readonly [name: string, value: string])[];

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
