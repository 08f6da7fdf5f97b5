import { describe, expect, it } from 'vitest';
import { readHeaders } from '../../src/gate/request.js';
import { callTargetOf, isPartial } from '../../src/service/http/proxied.js';

describe('what a proxy says of a request', () => {
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
  ] as const)('with %j and %j, the target of the caller is %j', (known, headers, target) => {
    expect(callTargetOf(readHeaders(headers), known)).toBe(target);
  });

  it.each([
    [[], false],
    [['false'], false],
    [[' False '], false],
    [['true'], true],
    [[''], true],
    [['false', 'true'], true],
  ])('is whether the body is whole: %j', (values, expected) => {
    expect(isPartial(readHeaders({ 'x-envoy-auth-partial-body': values }))).toBe(expected);
  });
});
