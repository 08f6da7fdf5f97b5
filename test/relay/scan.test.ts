import fc from 'fast-check';
import { expect, it } from 'vitest';
import { withMeta } from '../../src/relay/message.js';
import { Scan } from '../../src/relay/scan.js';

const objects = fc.dictionary(fc.constantFrom('id', 'params', '_meta', 'x', 'a"b', 'é'), fc.jsonValue());
const members = fc.record({ _meta: objects, name: fc.jsonValue(), x: objects }, { requiredKeys: [] });
const messages = fc.record(
  {
    id: fc.oneof(fc.string(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.jsonValue()),
    params: members,
  },
  { requiredKeys: ['params'] },
);

it('finds the id of a message, and where a member goes, in pieces of any size', () => {
  fc.assert(
    fc.property(
      messages,
      objects,
      fc.nat(3),
      fc.integer({ min: 1, max: 9 }),
      (message, more, spaces, size) => {
        const value = { ...more, ...message } as { id?: unknown; params: { _meta?: object } };
        const bytes = Buffer.from(JSON.stringify(value, null, spaces));
        const scan = new Scan();
        for (let at = 0; at < bytes.length; at += size) scan.push(bytes.subarray(at, at + size));
        const { id, params } = JSON.parse(bytes.toString()) as typeof value;
        const isId = typeof id === 'string' || typeof id === 'number';
        expect(scan.id === null ? null : JSON.parse(scan.id)).toEqual(isId ? id : null);
        const changed = JSON.parse(withMeta(bytes, 'X', 'y').toString()) as typeof value;
        expect(changed).toEqual({
          ...value,
          ...(id === undefined ? {} : { id }),
          params: { ...params, _meta: { ...params._meta, X: 'y' } },
        });
      },
    ),
  );
});
