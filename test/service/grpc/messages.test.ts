import { expect, it } from 'vitest';
import { CHECK } from '../../../src/service/grpc/check.js';
import { writeMessage } from '../../../src/service/grpc/messages.js';

it('takes the query of a question from one place', () => {
  const ask = (path: string, query: string) => {
    const http = { method: 'GET', path, query };
    const bytes = writeMessage('CheckRequest', { attributes: { request: { http } } });
    return CHECK.read(bytes, 'http', 1000).request.target;
  };
  expect(ask('/a?b=1', '')).toBe('/a?b=1');
  expect(ask('/a', 'b=1')).toBe('/a?b=1');
  for (const path of ['/a?', '/a?b=1', '/a?c'])
    expect(() => ask(path, 'b=1')).toThrow('a query in path and in query');
});
