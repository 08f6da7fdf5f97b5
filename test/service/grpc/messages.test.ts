import { expect, it } from 'vitest';
import { CHECK } from '../../../src/service/grpc/check.js';
import { toStruct, writeMessage } from '../../../src/service/grpc/messages.js';

it('takes the query of a question from one place', () => {
  const ask = (path: string, query: string) => {
    const http = { method: 'GET', path, query };
    const bytes = writeMessage('CheckRequest', { attributes: { request: { http } } });
    return CHECK.read(bytes, 'http', 1000).request.path;
  };
  expect(ask('/a?b=1', '')).toBe('/a?b=1');
  expect(ask('/a', 'b=1')).toBe('/a?b=1');
  for (const path of ['/a?', '/a?b=1', '/a?c'])
    expect(() => ask(path, 'b=1')).toThrow('a query in path and in query');
});

it('writes each type of JSON as its value of a Struct, and nothing for a member that is undefined', () => {
  const object = { a: 'x', b: 1.5, c: false, d: null, e: [1, [true]], f: { g: 'y' }, h: undefined };
  expect(toStruct(object)).toEqual({
    fields: [
      { key: 'a', value: { stringValue: 'x' } },
      { key: 'b', value: { numberValue: 1.5 } },
      { key: 'c', value: { boolValue: false } },
      { key: 'd', value: { nullValue: 0 } },
      {
        key: 'e',
        value: {
          listValue: {
            values: [{ numberValue: 1 }, { listValue: { values: [{ boolValue: true }] } }],
          },
        },
      },
      { key: 'f', value: { structValue: { fields: [{ key: 'g', value: { stringValue: 'y' } }] } } },
    ],
  });
});

it.each([
  ['objects', (inner: unknown) => ({ x: inner })],
  ['arrays', (inner: unknown) => [inner]],
])('leaves out members that are nested more than 16 deep: %s', (_, wrap) => {
  const nested = (levels: number) => {
    let value: unknown = 'x';
    for (let level = 0; level < levels; level++) value = wrap(value);
    return value;
  };
  const keysOf = (object: object) => toStruct(object).fields.map(({ key }) => key);
  expect(keysOf({ a: nested(16), b: nested(17), c: 'x', d: { e: nested(16) } })).toEqual(['a', 'c']);
});
