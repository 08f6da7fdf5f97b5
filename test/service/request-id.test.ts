import { describe, expect, it } from 'vitest';
import {
  newRequestId,
  readRequestId,
  traceIdOf,
  traceParentOf,
} from '../../src/service/http/logged-request.js';

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
    // A later version may have more.
    for (const traceparent of [`00-${TRACE}-${PARENT}-01`, `cc-${TRACE}-${PARENT}-01-more`]) {
      const said = { traceparent, tracestate: 'a=1', baggage: 'x'.repeat(8192) };
      const parent = traceParentOf((name) => said[name]);
      expect(parent).toEqual(said);
      expect(traceIdOf(parent)).toBe(TRACE);
    }
    const odd = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 7, baggage: 'x'.repeat(8193) };
    expect(traceParentOf((name) => odd[name])).toEqual({ traceparent: odd.traceparent });
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
    `00-${TRACE}-${PARENT}-01-more`,
    ['an array'],
    `cc-${TRACE}-${PARENT}-01-\u001b[2J`,
    `cc-${TRACE}-${PARENT}-01-${'x'.repeat(200)}`,
  ])('is none where it is said as %j', (header) => expect(traceParentOf(() => header)).toBeNull());
});
