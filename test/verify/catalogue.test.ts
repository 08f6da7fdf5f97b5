import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { CATALOGUE, Failure, show, showTime, type Code } from '../../src/verify/codes.js';

describe('the catalogue', () => {
  it('and docs/codes.md list the same codes under the same blocks, in the same order', () => {
    const documented: [string, string][] = [];
    let block = '';
    for (const line of readFileSync(new URL('../../docs/codes.md', import.meta.url), 'utf8').split('\n')) {
      block =
        /^## (?:Block ([A-F])|Required (binding)|(Approval)|(Replay)|(Gate))/
          .exec(line)
          ?.slice(1)
          .find(Boolean)
          ?.toLowerCase() ?? block;
      const code = /^\| <a id="(\w+)"><\/a>`(\w+)`/.exec(line);
      if (code === null) continue;
      expect(code[1]).toBe(code[2]);
      documented.push([block, code[1] as string]);
    }
    expect(documented).toEqual(CATALOGUE.map(({ block: letter, code }) => [letter.toLowerCase(), code]));
  });

  it.each(CATALOGUE)('$code fills its message from any details', ({ code, block }) => {
    const details = { subject: 3, member: 'member', claimed: 'x'.repeat(1000), reason: 'a reason' };
    const failure = new Failure(code, { ...details, expected: 'something' });
    expect(failure).toMatchObject({ code, block });
    expect(failure.message).not.toMatch(/[{}]/);
    expect(failure.message.length).toBeLessThan(400);
  });

  it('shows hostile values without failing', () => {
    const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`) as unknown;
    expect(
      new Failure('EMPTY_CHAIN', { subject: 'bundle', member: 'receipts', claimed: deep, expected: 'x' })
        .message,
    ).toMatch(/receipts is (a deeply nested array|\[)/);
  });

  it('names what a failure is about', () => {
    const about = (subject: 'bundle' | 'invocation' | number) =>
      new Failure('EMPTY_CHAIN', { subject, member: 'receipts', expected: 'one' }).message;
    expect(about('bundle')).toBe('Bundle: receipts is missing, expected one');
    expect(about('invocation')).toBe('Invocation: receipts is missing, expected one');
    expect(about(0)).toBe('Receipt 0: receipts is missing, expected one');
    expect(new Failure('EMPTY_CHAIN', { subject: 2 }).message).toBe('Receipt 2: ? is missing, expected ?');
  });

  it('has no other codes', () => {
    expect(() => new Failure('NONE' as Code, { subject: 'bundle' })).toThrow('no such code: NONE');
  });
});

describe('a time in a message', () => {
  it.each<[number | undefined, string]>([
    [0, '0 (1970-01-01T00:00:00Z)'],
    [1_700_000_000, '1700000000 (2023-11-14T22:13:20Z)'],
    [8_640_000_000_000, '8640000000000 (+275760-09-13T00:00:00Z)'],
    [8_640_000_000_001, '8640000000001'],
    [Number.MAX_SAFE_INTEGER, '9007199254740991'],
    [undefined, 'missing'],
  ])('%s is %s', (seconds, text) => {
    expect(showTime(seconds)).toBe(text);
  });
});

describe('a value in a message', () => {
  it('is its JSON, cut at 160 characters', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 2 }), (value) => {
        const json = JSON.stringify(value);
        expect(show(value)).toBe(json.length > 160 ? `${json.slice(0, 160)}…` : json);
      }),
    );
    // The text is as long as it may be, and there is more.
    expect(show(['x'.repeat(157), 1])).toBe(`["${'x'.repeat(157)}"…`);
    expect(show('x'.repeat(158))).toBe(`"${'x'.repeat(158)}"`);
    expect(show('x'.repeat(159))).toBe(`"${'x'.repeat(159)}…`);
  });

  it.each([
    [undefined, 'missing'],
    [NaN, 'NaN'],
    [[undefined, 1], '[null,1]'],
    [{ a: undefined, toJSON: 1 }, '{"a":null,"toJSON":1}'],
  ])('that is no JSON is shown too', (value, text) => {
    expect(show(value)).toBe(text);
  });

  it('is read no further than it is shown', () => {
    const stringify = vi.spyOn(JSON, 'stringify');
    try {
      const long = 'x'.repeat(100_000);
      for (const value of [long, [long], { a: long }, { [long]: long }, [[1], { [long]: [long, long] }]]) {
        expect(show(value).length).toBe(161);
      }
      for (const { value } of stringify.mock.results) expect(String(value).length).toBeLessThan(500);
    } finally {
      stringify.mockRestore();
    }
    let reads = 0;
    const items = new Proxy(Array<number>(100_000).fill(1), {
      get: (target, name) => {
        reads++;
        return Reflect.get(target, name) as unknown;
      },
    });
    expect(show(items)).toBe(`[${'1,'.repeat(79)}1…`);
    expect(reads).toBeLessThan(200);
  });
});
