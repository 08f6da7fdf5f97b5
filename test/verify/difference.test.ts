import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { equalsByJcs, type JsonObject, type JsonValue } from '../../src/protocol/json.js';
import * as difference from '../../src/verify/difference.js';
import { invoke, makeChain, NOW } from '../support/chain.js';

const describeDifference = (args: JsonObject, value: JsonValue) =>
  difference.describeDifference(args, { kind: 'value', value });
const describeDifferenceFromText = (args: JsonObject, text: string) =>
  difference.describeDifference(args, { kind: 'text', text });

describe('the first difference', () => {
  it.each<[JsonObject, JsonValue, string]>([
    [
      { query: { limit: 3 } },
      { query: { limit: '3' } },
      'args.query.limit is a number, the body has a string',
    ],
    [{ a: 'x' }, { a: 'y' }, 'args.a is a string, the body has another string'],
    [{ a: 1, b: 2 }, { a: 1 }, 'args.b is a number, the body has none'],
    [{ a: 1 }, { a: 1, b: null }, 'args.b is missing, the body has null'],
    [{ a: null }, { a: {} }, 'args.a is null, the body has an object'],
    [{ a: true }, { a: false }, 'args.a is a boolean, the body has another boolean'],
    [{ a: 1, b: 1 }, { b: 2, a: 2 }, 'args.a is a number, the body has another number'],
    [{ a: [1, 2] }, { a: [1, 3] }, 'args.a[1] is a number, the body has another number'],
    [{ a: [1] }, { a: [1, 'x'] }, 'args.a[1] is missing, the body has a string'],
    [{ a: [1, [0]] }, { a: [1] }, 'args.a[1] is an array, the body has none'],
    [{ a: {} }, { a: [] }, 'args.a is an object, the body has an array'],
    [{}, [], 'args is an object, the body has an array'],
    [{}, null, 'args is an object, the body has null'],
    [{ 'a b': { '': 1 } }, { 'a b': {} }, 'args["a b"][""] is a number, the body has none'],
    [{ '\u202e\n': 1 }, {}, 'args["\u202e\\n"] is a number, the body has none'],
    [{ toString: 1 }, {}, 'args.toString is a number, the body has none'],
    [{}, { toString: 1 }, 'args.toString is missing, the body has a number'],
  ])('of %j and %j', (args, body, expected) => {
    expect(describeDifference(args, body)).toBe(expected);
    expect(describeDifferenceFromText(args, JSON.stringify(body))).toBe(expected);
  });

  it('is none if the canonical forms are equal, and only then', () => {
    const value = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<JsonValue>;
    fc.assert(
      fc.property(value, value, (left, right) => {
        expect(describeDifference({ left }, { left: right }) === null).toBe(equalsByJcs(left, right));
        expect(describeDifference({ left }, { left })).toBeNull();
      }),
      { numRuns: 1000 },
    );
  });

  it('tells no value', () => {
    const text = describeDifference({ password: 'hunter2', n: 1 }, { password: 'secret', n: 2 }) ?? '';
    expect(text).toContain('args.password');
    expect(text).not.toMatch(/hunter2|secret/);
  });

  it('has a bounded length, whatever the names', () => {
    const long = 'n'.repeat(100_000);
    let [args, body]: [JsonObject, JsonObject] = [{ [long]: 1 }, {}];
    expect(describeDifference(args, body)).toBe(`args.${'n'.repeat(40)}… is a number, the body has none`);
    const named = (name: string) => describeDifference({ [name]: 1 }, {});
    expect(named('n'.repeat(40))).toBe(`args.${'n'.repeat(40)} is a number, the body has none`);
    // 4 characters for args, and 39 for each name with its dot.
    const deep = (last: string) =>
      describeDifference(
        { [long.slice(0, 38)]: { [long.slice(0, 38)]: { [long.slice(0, 38)]: { [last]: 1 } } } },
        {
          [long.slice(0, 38)]: { [long.slice(0, 38)]: { [long.slice(0, 38)]: {} } },
        },
      );
    expect(deep('n'.repeat(38))).toMatch(/^args.{156} is a number/);
    expect(deep('n'.repeat(39))).toMatch(/^args.{156}… is a number/);
    for (let depth = 0; depth < 60; depth++) [args, body] = [{ [long]: args }, { [long]: body }];
    const text = describeDifference(args, body) ?? '';
    expect(text).toHaveLength(161 + ' is a number, the body has none'.length);
    expect(text).toContain('…');
  });

  it('is looked for among the first 4,096 members and items', () => {
    const items = (count: number, last: number): JsonObject => ({
      a: [...Array<number>(count - 1).fill(0), last],
    });
    expect(describeDifference(items(4_095, 1), items(4_095, 2))).toContain('args.a[4094] is a number');
    expect(describeDifference(items(4_096, 1), items(4_096, 2))).toBeNull();
    expect(describeDifference(items(4_094, 1), items(4_095, 1))).toContain('args.a[4093] is');
    expect(
      describeDifference({ a: Array<number>(4_095).fill(0) }, { a: Array<number>(5_000).fill(0) }),
    ).toBeNull();
    const members = (count: number, last: number): JsonObject =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, at === count - 1 ? last : 0]));
    expect(describeDifference(members(4_096, 1), members(4_096, 2))).toContain('args.n4095 is a number');
    expect(describeDifference(members(4_097, 1), members(4_097, 2))).toBeNull();
    expect(describeDifference(members(4_095, 0), members(4_096, 0))).toContain('args.n4095 is missing');
    expect(describeDifference(members(4_096, 0), members(4_097, 0))).toBeNull();
    expect(describeDifference({ a: members(4_097, 0), b: 1 }, { a: members(4_097, 0), b: 2 })).toBeNull();
  });

  it('ends on a body that holds itself, and on a text that is too long or no JSON', () => {
    const self: Record<string, unknown> = {};
    self['self'] = self;
    expect(describeDifference({ self: {} }, self as JsonObject)).toBe(
      'args.self.self is missing, the body has an object',
    );
    const text = (length: number) => `{"a":"${'x'.repeat(length - 8)}"}`;
    expect(describeDifferenceFromText({}, text(262_144))).toBe('args.a is missing, the body has a string');
    expect(describeDifferenceFromText({}, text(262_145))).toBeNull();
    expect(describeDifferenceFromText({}, '{')).toBeNull();
  });

  it('is in the refusal where the binding is required, however the body is given', async () => {
    const verifier = createVerifier({ workerThreads: 0, requireBinding: true });
    const bundle = invoke(makeChain(1), { args: { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 } });
    const body = { tool: 'search', query: 7, estimated_cost_usd: 0.05 };
    const message =
      'Invocation: args are not what the body of the call says: args.query is a string, the body has a number';
    for (const options of [{ body }, { bodyText: JSON.stringify(body) }]) {
      expect(await verifier.verify(bundle, { now: NOW, ...options })).toMatchObject({
        valid: false,
        binding: 'mismatch',
        error: { code: 'BINDING_MISMATCH', message },
      });
    }
    expect(await verifier.verify({ ...bundle, body }, { now: NOW })).toMatchObject({ error: { message } });
    await verifier.close();
  });
});
