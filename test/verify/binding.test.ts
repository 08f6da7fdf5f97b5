import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toJcs } from '../../src/protocol/jcs.js';
import { MAX_JSON_NODES, type JsonObject, type JsonValue } from '../../src/protocol/json.js';
import { createVerifier } from '../../src/index.js';
import { bind } from '../../src/verify/binding.js';
import { invoke, makeChain, NOW } from '../support/chain.js';

const ARGS: JsonObject = { estimated_cost_usd: 0.05, query: 'tea', tool: 'search' };

const bindText = (args: JsonObject, text: string) => bind(args, { kind: 'text', text });
const bindMember = (args: JsonObject, text: string) =>
  bind(args, { kind: 'member', text, document: JSON.parse(text) as JsonObject });
const bindValue = (args: JsonObject, value: unknown) => bind(args, { kind: 'value', value });

function bindings(args: JsonObject, text: string) {
  const bundleText = `{"invocation":"x", "bo\\u0064y": ${text} ,"receipts":[]}`;
  return [bindText(args, text), bindMember(args, bundleText)];
}

describe('binding', () => {
  it.each([
    ['{"tool":"search","query":"tea","estimated_cost_usd":0.05}', 'match'],
    ['{"tool":"\\u0073earch","query":"tea","estimated_cost_usd":5e-2}', 'match'],
    ['{"tool":"search","query":"tea"}', 'mismatch'],
    ['{"tool":"search","query":"tea","estimated_cost_usd":0.05,"x":null}', 'mismatch'],
    ['{"tool":"search","query":["tea"],"estimated_cost_usd":0.05}', 'mismatch'],
    ['null', 'mismatch'],
    ['[]', 'mismatch'],
    ['{"tool":"search","query":"tea","tool":"search","estimated_cost_usd":0.05}', 'invalid_body'],
    ['{"tool":"search","query":"tea","\\u0074ool":"search","estimated_cost_usd":0.05}', 'invalid_body'],
    ['{"tool":"search","query":"\\ud800","estimated_cost_usd":0.05}', 'invalid_body'],
    ['{"tool":"search","query":1e400}', 'invalid_body'],
    ['{"tool":"search","query":9007199254740993}', 'invalid_body'],
    ['{"a":{"b":[{"c":9007199254740993.0}]}}', 'invalid_body'],
    [`${'['.repeat(65)}${']'.repeat(65)}`, 'mismatch'],
    [`${'['.repeat(65)}{"a":1,"a":2}${']'.repeat(65)}`, 'invalid_body'],
  ])('of %s is %s', (text, binding) => {
    expect(bindings(ARGS, text)).toEqual([binding, binding]);
  });

  it('never matches a signed integer by rounding', () => {
    const args: JsonObject = { n: 9007199254740992 };
    for (const literal of ['9007199254740993', '9007199254740993.0', '0.9007199254740993e16']) {
      expect(bindings(args, `{"n":${literal}}`)).not.toContain('match');
    }
    expect(bindings(args, '{"n":9007199254740992}')).toEqual(['match', 'match']);
    expect(bindings({ n: 1e30 }, '{"n":1E30}')).toEqual(['match', 'match']);
    expect(bindings({ n: 1.1 }, '{"n":1.10}')).toEqual(['match', 'match']);
    expect(bindings({ n: 0 }, '{"n":-0}')).toEqual(['match', 'match']);
  });

  it('looks at the body alone, wherever else in the bundle something is odd', () => {
    const text = '{"x":1,"x":2,"note":9007199254740993,"body":{"tool":"search"}}';
    expect(bindMember({ tool: 'search' }, text)).toBe('match');
    const twice = '{"body":{"tool":"search"},"body":{"tool":"search"}}';
    expect(bindMember({ tool: 'search' }, twice)).toBe('invalid_body');
    const nested = '{"other":{"body":1,"body":2},"body":{"tool":"search"}}';
    expect(bindMember({ tool: 'search' }, nested)).toBe('match');
  });

  it('counts large numbers in the body only', () => {
    const many = `[${Array(5_000).fill('9007199254740992').join()}]`;
    const text = (other: string, n: string) => `{"other":${other},"body":{"n":${n}}}`;
    const bind = (json: string) => bindMember({ n: 9_007_199_254_740_992 }, json);
    expect(bind(text(many, '9007199254740992'))).toBe('match');
    expect(bind(text('0', many))).toBe('invalid_body');
  });

  it.each<[string, unknown]>([
    ['undefined', undefined],
    ['a function', () => 1],
    ['NaN', { a: NaN }],
    ['an infinity', [Infinity]],
    ['a bigint', { a: 1n }],
    ['a date', new Date(0)],
    ['a map', { a: new Map() }],
    ['an undefined member', { tool: 'search', x: undefined }],
    ['a lone surrogate', ['\ud800']],
    ['a lone surrogate in a name', { 'x\ud800': 1 }],
    ['a hole in an array', Array(1)],
  ])('refuses a value that JSON does not denote: %s', (_, value) => {
    expect(bindValue({}, value)).toBe('invalid_body');
  });

  it('ends on a value that holds itself', () => {
    const value: Record<string, unknown> = {};
    value['self'] = value;
    expect(bindValue({}, value)).toBe('mismatch');
    expect(bindValue({ self: {} }, value)).toBe('mismatch');
  });

  it('looks at all of a value, however deep', () => {
    let [deep, wrong]: unknown[] = ['x', NaN];
    for (let depth = 0; depth < 1000; depth++) [deep, wrong] = [[deep], [wrong]];
    expect(bindValue({}, wrong)).toBe('invalid_body');
    expect(bindValue({}, deep)).toBe('mismatch');
  });

  it('takes an object without a prototype, as some parsers make it', () => {
    const body = Object.assign(Object.create(null) as object, { tool: 'search' });
    expect(bindValue({ tool: 'search' }, body)).toBe('match');
  });

  it('refuses a text of more nodes than arguments may have, before it is parsed', () => {
    const text = (members: number) => `{"a":[${Array(members).fill('{}').join(',')}]}`;
    expect(bindText({}, text(MAX_JSON_NODES - 3))).toBe('mismatch');
    expect(bindText({}, text(MAX_JSON_NODES - 2))).toBe('invalid_body');
  });

  it('matches exactly where the canonical forms are equal', () => {
    const value = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<JsonValue>;
    fc.assert(
      fc.property(value, value, (left, right) => {
        const args: JsonObject = { tool: 'x', left };
        const body: JsonObject = { left: right, tool: 'x' };
        const expected = toJcs(args) === toJcs(body) ? 'match' : 'mismatch';
        expect(bindings(args, JSON.stringify(body))).toEqual([expected, expected]);
        expect(bindValue(args, body)).toBe(expected);
        expect(bindings(args, JSON.stringify({ left, tool: 'x' }, null, 2))).toEqual(['match', 'match']);
      }),
      { numRuns: 1000 },
    );
  });

  it('runs only for a valid chain and only with a body, which may be null', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const bundle = invoke(makeChain(2), { args: ARGS });
    const bindingOf = async (options: object, changes: object = {}) => {
      const verdict = await verifier.verify({ ...bundle, ...changes }, { now: NOW, ...options });
      return verdict.binding;
    };
    expect(await bindingOf({})).toBeUndefined();
    expect(await bindingOf({ body: ARGS })).toBe('match');
    expect(await bindingOf({ bodyText: JSON.stringify(ARGS) })).toBe('match');
    expect(await bindingOf({ bodyText: '{' })).toBe('invalid_body');
    expect(await bindingOf({ body: null })).toBe('mismatch');
    expect(await bindingOf({}, { body: ARGS })).toBe('match');
    expect(await bindingOf({}, { body: null })).toBe('mismatch');
    expect(await bindingOf({ body: ARGS, now: NOW + 9999 })).toBeUndefined();
    await verifier.close();
  });
});
