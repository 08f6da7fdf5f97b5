import { describe, expect, it } from 'vitest';
import { isParameterName, readQuery, splitPath } from '../../src/gate/path.js';

describe('a path', () => {
  it.each<[string, readonly string[], string | null]>([
    ['/', [''], null],
    ['/a/b', ['a', 'b'], null],
    ['/a/', ['a', ''], null],
    ['/a?', ['a'], ''],
    ['/a?b=/c?d', ['a'], 'b=/c?d'],
    ['/%41%2d', ['%41%2d'], null],
    ['/%C3%A9', ['%C3%A9'], null],
    [`/${'a'.repeat(65_535)}`, ['a'.repeat(65_535)], null],
  ])('is cut: %.80s', (path, segments, query) => {
    expect(splitPath(path)).toEqual({ segments, query });
  });
  it.each([
    ...['', '?', '?a=1', 'a', '/a#b', '/a/..?b=1', '/..%3B', '/%252e', '/a%3Fb=1', '/a%23b', '/a%3f'],
    ...['/a%3b/c', '/%ff', '/a/%ff/b'],
    `/${'a'.repeat(65_536)}`,
  ])('is refused: %.80s', (path) => {
    expect(splitPath(path)).toBeNull();
  });
});

describe('a query', () => {
  const known = new Set(['a', 'b']);

  it.each<[string, object]>([
    ['', {}],
    ['a=1', { a: '1' }],
    ['b=&a=%26=+', { a: '&= ', b: '' }],
    ["a=-._~!$'()*,=:@/?%3b%00", { a: "-._~!$'()*,=:@/?;\0" }],
  ])('is read: %s', (query, parameters) => {
    expect({ ...(readQuery(query, known) as object) }).toEqual(parameters);
    expect({ ...(readQuery(query, null) as object) }).toEqual(parameters);
  });
  it('may have parameters that objects have', () => {
    const names = ['toString', '__proto__', 'constructor'];
    const read = readQuery(names.map((name) => `${name}=1`).join('&'), null);
    expect(Object.entries(read)).toEqual(names.map((name) => [name, '1']));
  });

  it('may have 256 parameters, or as many as are known', () => {
    const names = Array.from({ length: 1000 }, (_, at) => `q${at}`);
    const asked = (count: number) =>
      names
        .slice(0, count)
        .map((name) => `${name}=1`)
        .join('&');
    expect(Object.keys(readQuery(asked(256), null))).toEqual(names.slice(0, 256));
    expect(Object.keys(readQuery(asked(1000), new Set(names)))).toEqual(names);
  });

  const WRONG: readonly [query: string, known: ReadonlySet<string> | null, message: string][] = [
    ['c=1', known, 'the query has "c", which is no argument here; expected a, b'],
    ['c', known, 'the query has "c", which is no argument here; expected a, b'],
    ['a[]=1', known, 'the query has "a[]", which is no argument here; expected a, b'],
    ['=1', known, 'the query has "", which is no argument here; expected a, b'],
    ['a=1', new Set(), 'the query has "a", which is no argument here; expected no query'],
    ['a[]=1', null, 'the query has "a[]", expected names of letters, digits, "_" and "-"'],
    ['=1', null, 'the query has "", expected names of letters, digits, "_" and "-"'],
    ['a=1&', null, 'the query has "", expected names of letters, digits, "_" and "-"'],
    [
      '%'.repeat(101),
      null,
      `the query has "${'%'.repeat(100)}", expected names of letters, digits, "_" and "-"`,
    ],
    ['a=1&b', known, 'the query has "b" without a value, expected b=…'],
    ['ab', null, 'the query has "ab" without a value, expected ab=…'],
    ['a=1&a=1', known, 'the query has "a" more than once, expected it once'],
    ['a=1;b=2', known, 'the value of "a" is not percent-encoded UTF-8'],
    ...[' ', '#', '\\', '\t', '\0', 'é', '"', '|', '[', '{', '<', '^', '`', '\x7f'].map(
      (raw) => [`a=1${raw}`, null, 'the value of "a" is not percent-encoded UTF-8'] as [string, null, string],
    ),
    ['a=%ff', null, 'the value of "a" is not percent-encoded UTF-8'],
    [
      Array.from({ length: 257 }, (_, at) => `q${at}=`).join('&'),
      null,
      'the query has more than 256 parameters',
    ],
    ['a=%3', null, 'the value of "a" is not percent-encoded UTF-8'],
  ];
  it.each(WRONG)('is refused: %.80s', (query, names, message) => {
    expect(readQuery(query, names)).toBe(message);
  });
});

it('names of parameters are those that every framework takes as they are', () => {
  for (const name of ['a', '_', 'Page-Token_2', 'a'.repeat(64)]) expect(isParameterName(name)).toBe(true);
  for (const name of ['', '1', '-a', 'a.b', 'a[]', 'é', 'a\n', 'a'.repeat(65)])
    expect(isParameterName(name)).toBe(false);
});
