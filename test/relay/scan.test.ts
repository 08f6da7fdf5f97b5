import fc from 'fast-check';
import { expect, it } from 'vitest';
import { withMeta } from '../../src/relay/message.js';
import { Scan } from '../../src/relay/scan.js';

const objects = fc.dictionary(fc.constantFrom('id', 'params', '_meta', 'x', 'a"b', 'é'), fc.jsonValue());
const params = fc.record({ _meta: objects, name: fc.jsonValue(), x: objects }, { requiredKeys: [] });
const messages = fc.record({ id: fc.jsonValue(), params }, { requiredKeys: ['params'] });
type Message = { id?: unknown; params: { _meta?: object } };

it('finds the id of a message, and where a member goes, in pieces of any size', () => {
  const sizes = fc.integer({ min: 1, max: 9 });
  const holds = fc.property(messages, objects, fc.nat(3), sizes, (message, more, spaces, size) => {
    const bytes = Buffer.from(JSON.stringify({ ...more, ...message }, null, spaces));
    const scan = new Scan();
    for (let at = 0; at < bytes.length; at += size) scan.push(bytes.subarray(at, at + size));
    const value = JSON.parse(bytes.toString()) as Message;
    const isId = ['string', 'number'].includes(typeof value.id);
    expect(scan.id === null ? null : JSON.parse(scan.id)).toEqual(isId ? value.id : null);
    const meta = { ...value.params._meta, X: 'y' };
    const changed = withMeta(bytes, 'X', 'y').toString();
    expect(JSON.parse(changed)).toEqual({ ...value, params: { ...value.params, _meta: meta } });
  });
  fc.assert(holds);
});
