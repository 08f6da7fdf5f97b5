import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { linesOf } from '../../src/relay/lines.js';
import { messageOf, readEnds } from '../../src/relay/message.js';

const MAX = 2500;
const ids = fc.oneof(fc.integer(), fc.string());
const long = fc.oneof(
  fc.string({ minLength: MAX, unit: 'grapheme' }),
  fc.array(fc.record({ id: fc.integer() }), { minLength: 300, maxLength: 300 }),
);
/** As SDKs order the members: those that are no object come first, or last, or on both sides. */
const messages = fc
  .tuple(ids, fc.record({ name: fc.jsonValue(), id: fc.integer(), text: long }), fc.boolean(), fc.boolean())
  .map(([id, params, isFirst, isNamed]) => {
    const head = { jsonrpc: '2.0', ...(isNamed ? { method: 'a/b' } : {}) };
    return isFirst ? { ...head, id, params } : { params, ...head, id };
  });

it('finds the id of a line that is too long at its ends, in pieces of any size, and goes on', async () => {
  const sizes = fc.integer({ min: 1, max: 5000 });
  const holds = fc.asyncProperty(messages, fc.nat(2), sizes, async (message, spaces, size) => {
    const text = JSON.stringify(message, null, spaces).replaceAll('\n', '\r');
    const bytes = Buffer.from(`{}\n${text}\n{"id":1}\n${'x'.repeat(MAX)}\n[`);
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    const found: unknown[] = [];
    for await (const lines of linesOf(Readable.from(pieces), MAX))
      for (const line of lines) found.push(line.isTooLong ? readEnds(line.bytes) : line.bytes.toString());
    expect(found).toMatchObject(['{}', { id: message.id }, '{"id":1}', 'x'.repeat(MAX), '[']);
    expect(Object.hasOwn(found[1] as object, 'method')).toBe('method' in message);
  });
  await fc.assert(holds, { numRuns: 100 });
});

it('takes no id from within', () => {
  const inside = `{"a":{"b":"${'x'.repeat(1000)}"},"c":[{"id":7},{"id":8}]${' '.repeat(1000)}}`;
  expect(readEnds(Buffer.from(inside))).not.toHaveProperty('id');
});

it('finds the id as it is written at either end of a message, however many members have its name', () => {
  const ids = '"id":1,'.repeat(100_000);
  const idOf = (text: string) => messageOf({ bytes: Buffer.from(text), isTooLong: false }).idText;
  const id = '12345678901234567890';
  expect(idOf(`{"method":"a","params":{${ids}"x":1},"id":${id}}`)).toBe(id);
  expect(idOf(`{"id":${id},"method":"a","params":{${ids}"x":1}}`)).toBe(id);
  // Of one in between, what a double holds: no client writes it there.
  expect(idOf(`{"a":{${ids}"x":1},"id":${id},"method":"a","params":{${ids}"x":1}}`)).toBe(`${Number(id)}`);
});
