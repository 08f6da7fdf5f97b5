import { describe, expect, it } from 'vitest';
import { newRequestId, readRequestId, traceIdOf } from '../../src/service/http/request-ids.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

it('makes no request id twice', () => {
  const ids = Array.from({ length: 1000 }, () => newRequestId());
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(readRequestId(id)).toBe(id);
});

it.each(['', 'a b', 'é', 'a"b', 'a\\b', 'a\nb', '\u001b[2J', '{"a":1}', 'x'.repeat(129), null])(
  'takes over no request id that is %j',
  (id) => expect(readRequestId(id)).toBeNull(),
);

describe('the trace of a request', () => {
  it('is read as W3C Trace Context has it', () => {
    expect(traceIdOf(`00-${TRACE}-${PARENT}-01`)).toBe(TRACE);
    // A later version may have more.
    expect(traceIdOf(`cc-${TRACE}-${PARENT}-01-more`)).toBe(TRACE);
  });

  it.each([
    null,
    '',
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `ff-${TRACE}-${PARENT}-01`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${TRACE.slice(1)}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-01x`,
    `cc-${TRACE}-${PARENT}-01-\u001b[2J`,
    `cc-${TRACE}-${PARENT}-01-${'x'.repeat(200)}`,
  ])('is none where the header is %j', (header) => expect(traceIdOf(header)).toBeNull());
});
