import fc from 'fast-check';
import { parseTree, type Node } from 'jsonc-parser';
import { describe, expect, it } from 'vitest';
import {
  findJsonDefect,
  isFaithfulNumber,
  MAX_JSON_DEPTH,
  MAX_LARGE_NUMBERS,
} from '../../src/protocol/json-defects.js';
import {
  hasMoreNodes,
  isJsonObject,
  MAX_JSON_COMMAS,
  MAX_JSON_NODES,
  parseStrictJson,
  type JsonObject,
  type JsonValue,
  isPlainlyFaithful,
} from '../../src/protocol/json.js';
import { decodeUtf8 } from '#platform';
import { readVectors } from '../support/vectors.js';

const words = (text: string) => text.split(' ');
const kindOf = (text: string) => parseStrictJson(text).defect?.kind ?? 'none';

/**
 * The slow oracle: jsonc-parser keeps every member and every number as it was written. It checks each defect by
 * itself, with exact integers in place of any cleverness.
 */
function oracle(text: string): ReadonlySet<string> {
  try {
    JSON.parse(text);
  } catch {
    return new Set(['syntax']);
  }
  const defects = new Set<string>();
  const visit = (node: Node, depth: number): void => {
    if ((node.type === 'object' || node.type === 'array') && depth > MAX_JSON_DEPTH) defects.add('depth');
    if (node.type === 'string' && !(node.value as string).isWellFormed()) defects.add('surrogate');
    if (node.type === 'number' && !holds(text.slice(node.offset, node.offset + node.length)))
      defects.add('number');
    if (node.type === 'object') {
      const names = (node.children ?? []).map(({ children }) => children?.[0]?.value as string);
      if (new Set(names).size !== names.length) defects.add('duplicate');
    }
    for (const child of node.children ?? []) visit(child, node.type === 'property' ? depth : depth + 1);
  };
  const root = parseTree(text);
  if (root === undefined) throw new Error(`the oracle cannot read ${text}`);
  visit(root, 1);
  return defects;
}

/** Whether a double's RFC 8785 form denotes an integer literal, by BigInt. */
function holds(literal: string): boolean {
  const value = Number(literal);
  if (!Number.isFinite(value)) return false;
  const written = integerOf(literal);
  if (written === null) return Math.abs(value) < 2 ** 53;
  return written === integerOf(JSON.stringify(value));
}

function integerOf(literal: string): bigint | null {
  const [, sign, whole, fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const shift = Number(exponent) - fraction.length;
  const digits = BigInt(`${whole}${fraction}`);
  if (digits === 0n) return 0n;
  if (Math.abs(shift) > 5000) return null;
  if (shift >= 0) return (sign === '-' ? -1n : 1n) * digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return digits % divisor === 0n ? (sign === '-' ? -1n : 1n) * (digits / divisor) : null;
}

function expectAgreement(text: string): void {
  const expected = oracle(text);
  const found = kindOf(text);
  if (expected.size === 0) expect({ text, found }).toEqual({ text, found: 'none' });
  else expect({ text, found: expected.has(found) ? 'expected' : found }).toEqual({ text, found: 'expected' });
  // In pages nothing decides before the closer look.
  if (found === 'size' || found === 'syntax') return;
  expect({ text, closer: findJsonDefect(text)?.kind ?? 'none' }).toEqual({ text, closer: found });
}

describe('strict JSON', () => {
  const texts: readonly [text: string, kind: string][] = [
    ['{"a":1,"a":2}', 'duplicate'],
    ['{"a":1,"\\u0061":2}', 'duplicate'],
    ['[{"x":{"b":[1],"c":2,"b":[2]}}]', 'duplicate'],
    ['{"__proto__":1,"__proto__":2}', 'duplicate'],
    ['{"a":"\\"a\\":","a\\"":1}', 'none'],
    // Behind strings and numbers of an array, which are skipped.
    ['[1,-2.5,1e1,"","a","\\"","\\\\",{"a":1,"a":2}]', 'duplicate'],
    ['["{","}","[","]","\\"]",{"a":[],"a":2}]', 'duplicate'],
    ['["a","\\n","\\\\ud800","\\ud800"]', 'surrogate'],
    ['["\\uD83D\\ude00","\\udbff"]', 'surrogate'],
    ['["\\u0061\\\\",9007199254740993]', 'number'],
    ['["a",0.1,12345678901234.5,9007199254740991,-123456789012345,1E400]', 'number'],
    ['["\\\\",{"a":1}, {"a":2}]', 'none'],
    ['{"__proto__":{"x":1},"constructor":2}', 'none'],
    ['{"a":{"b":1},"c":{"b":1}}', 'none'],
    ['"\\ud800"', 'surrogate'],
    ['{"\\udc00":1}', 'surrogate'],
    ['"\\ud83d\\ude00"', 'none'],
    ['"\\\\ud800"', 'none'],
    ['"\ud800"', 'surrogate'],
    ['1e400', 'number'],
    ['-1e400', 'number'],
    ['[9007199254740993]', 'number'],
    ['9007199254740993.0', 'number'],
    ['0.9007199254740993e16', 'number'],
    ['0.9007199254740992e16', 'none'],
    ['9007199254740993.5', 'number'],
    ['900719925474099301e-1', 'number'],
    ['900719925474099.301e1', 'number'],
    ['9007199254740994.00', 'none'],
    ['9007199254740990.5', 'none'],
    ['10000000000000000000001', 'number'],
    [`1.${'1'.repeat(500)}e400`, 'number'],
    // The digits of the double, and more.
    ['90071992547409920001', 'number'],
    ['999999999999999999999999', 'number'],
    ['9007199254740992', 'none'],
    ['9007199254740991', 'none'],
    ['1E30', 'none'],
    ['1.10', 'none'],
    ['333333333.33333329', 'none'],
    ['1e-400', 'none'],
    ['-0', 'none'],
    ['100000000000000000000000', 'none'],
    ['123456789012345678901234567890', 'number'],
    ['', 'syntax'],
    ['{"a":1,}', 'syntax'],
    ['\ufeff{}', 'syntax'],
    [`${'['.repeat(64)}${']'.repeat(64)}`, 'none'],
    [`${'['.repeat(65)}${']'.repeat(65)}`, 'depth'],
    [`${'{"a":'.repeat(64)}1${'}'.repeat(64)}`, 'none'],
    [`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, 'depth'],
    [`${'['.repeat(12_000)}${']'.repeat(12_000)}`, 'depth'],
    [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'size'],
  ];

  // In full, names of tests would be longer than the pattern by which a runner can select them.
  const nameOf = (text: string) =>
    text.length > 100 ? `${text.slice(0, 40)}… (${text.length} characters)` : text;
  it.each(texts.map(([text, kind]) => [nameOf(text), kind, text] as const))(
    'checks %s as %s',
    (_, kind, text) => {
      expect(kindOf(text)).toBe(kind);
    },
  );

  it('names a number as it is written, with its sign', () => {
    expect(parseStrictJson('[-123456789012345678901234567890]').defect?.message).toBe(
      'the number -123456789012345678901234567890 is not what a double holds of it',
    );
  });

  it('keeps __proto__ as an ordinary member', () => {
    const { value } = parseStrictJson('{"__proto__":{"polluted":true}}');
    expect(Object.keys(value as object)).toEqual(['__proto__']);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  // A miscount of any of these by one or more would let enough of them hide a member.
  it.each([
    ...words('0 -0 1 -1 9 10 -10 99 999 1000 1e3 -1e3 1001 1.5 -1.5 0.01 1e-2 1e-3 9007199254740991'),
    ...words('9007199254740992 1e400 -1e400 "" "x" "\\n" "\\"" true false null [] {} [1] [[],[]] {"a":1}'),
    '{"a":"x","b":{}}',
  ])('finds a member that occurs twice beside any number of %s', (item) => {
    for (let count = 0; count < 24; count++) {
      for (const name of ['', 'n', 'nn', 'name', 'a long name']) {
        for (const value of [0, 7]) {
          const list = Array(count).fill(item).join(',');
          const text = `{"${name}":${value},"${name}":${value},"list":[${list}]}`;
          expect([text, findJsonDefect(text, { only: 'duplicate' })?.kind]).toEqual([text, 'duplicate']);
          expect([text, isPlainlyFaithful(text, JSON.parse(text) as JsonValue)]).toEqual([text, false]);
        }
      }
    }
  });

  it('finds a member that is hidden by one that every object inherits', () => {
    const prototype = Object.prototype as Record<string, unknown>;
    prototype['b'] = 1;
    try {
      expect(kindOf('{"a":1,"a":1}')).toBe('duplicate');
    } finally {
      delete prototype['b'];
    }
  });

  it('makes objects that inherit nothing which someone gave to all objects', () => {
    const prototype = Object.prototype as Record<string, unknown>;
    prototype['exp'] = 1;
    try {
      const value = parseStrictJson('{"policy":{},"list":[{}],"__proto__":{}}').value as JsonObject;
      for (const object of [value, value['policy'], (value['list'] as JsonValue[])[0], value['__proto__']])
        expect((object as JsonObject)['exp']).toBeUndefined();
      expect(Object.keys(value)).toEqual(['policy', 'list', '__proto__']);
      expect(kindOf(`${'['.repeat(12_000)}${']'.repeat(12_000)}`)).toBe('depth');
    } finally {
      delete prototype['exp'];
    }
  });

  it('agrees with a parser that keeps every member on generated documents', () => {
    const documentOf = (comma: string, colon: string) =>
      fc.letrec<{ text: string }>((tie) => ({
        text: fc.oneof(
          { maxDepth: 5, depthSize: 'small' },
          fc.constantFrom(...words('null true "a" "b" "\\u0061" "\\"a" "\\ud800" "\\ud83d\\ude00" "é"')),
          fc.constantFrom(
            ...words('0 -1 1.5 9007199254740991 9007199254740993 1e400 1e21 12e22 1e5 100000 1e-3 0.05 -0.0'),
          ),
          fc.array(tie('text'), { maxLength: 4 }).map((items) => `[${items.join(comma)}]`),
          fc
            .array(
              fc.tuple(fc.constantFrom(...words('"a" "b" "c" "\\u0061" "a\\"" "__proto__"')), tie('text')),
              { maxLength: 4 },
            )
            .map((members) => `{${members.map(([name, value]) => `${name}${colon}${value}`).join(comma)}}`),
        ),
      })).text;
    fc.assert(fc.property(documentOf(', ', ' :'), expectAgreement), { numRuns: 3000 });
    fc.assert(fc.property(documentOf(',', ':'), expectAgreement), { numRuns: 3000 });
  });

  it('agrees with it on mutated documents', () => {
    const mutated = fc
      .tuple(
        fc.json({ maxDepth: 4 }),
        fc.nat(),
        fc.constantFrom('', '"', '\\', '{', '}', ',', ':', '1', 'e', 'a', '[', ']', '.'),
      )
      .map(([text, at, insert]) => {
        const position = at % (text.length + 1);
        return text.slice(0, position) + insert + text.slice(insert === '' ? position + 1 : position);
      });
    fc.assert(fc.property(mutated, expectAgreement), { numRuns: 3000 });
  });

  it('checks every number as exact integers do', () => {
    const digits = fc.stringMatching(/^[1-9][0-9]{0,24}$/);
    const literal = fc
      .tuple(
        fc.constantFrom('', '-'),
        digits,
        fc.option(fc.stringMatching(/^[0-9]{1,8}$/)),
        fc.option(fc.integer({ min: -30, max: 330 })),
      )
      .map(
        ([sign, whole, fraction, exponent]) =>
          `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`,
      );
    fc.assert(
      fc.property(literal, (text) => {
        expect([text, isFaithfulNumber(text)]).toEqual([text, holds(text)]);
      }),
      { numRuns: 5000 },
    );
  });

  it.each(['9007199254740992', '-1.7976931348623157e308', '12345678901234568000000'])(
    'has at most 3,072 numbers like %s, and any number of smaller or shorter ones',
    (large) => {
      const text = (count: number) => `[1e30,0.1234567890123456789,${Array(count).fill(large).join(',')}]`;
      expect(parseStrictJson(text(MAX_LARGE_NUMBERS)).defect).toBeUndefined();
      expect(parseStrictJson(text(MAX_LARGE_NUMBERS + 1)).defect?.kind).toBe('number');
      // A receipt has an eighth of all: there are several in a bundle.
      expect(parseStrictJson(text(MAX_LARGE_NUMBERS / 8), MAX_JSON_NODES / 8).defect).toBeUndefined();
      expect(parseStrictJson(text(MAX_LARGE_NUMBERS / 8 + 1), MAX_JSON_NODES / 8).defect?.kind).toBe(
        'number',
      );
      expect(
        parseStrictJson(`[${Array(10_000).fill('1e30,9007199254740991,0.12345678901234567').join(',')}]`),
      ).toHaveProperty('value');
    },
  );
});

describe('JSON texts of JSONTestSuite', () => {
  const vectors = readVectors('json');

  it.each(vectors)(
    'checks text $id: $expect',
    ({ expect: expected, strict, text = '', bytes, times = 1, then = '' }) => {
      const input =
        bytes === undefined ? Buffer.from(text.repeat(times) + then) : Buffer.from(bytes, 'base64');
      const decoded = decodeUtf8(input);
      const kind = decoded === null ? 'utf-8' : kindOf(decoded);
      if (expected === 'refuse') expect(['syntax', 'utf-8', 'depth', 'size']).toContain(kind);
      // What a strict reader refuses of what a parser must accept: names that occur twice, and nothing else.
      if (expected === 'accept') expect(kind).toBe(strict ?? 'none');
      if (decoded !== null && kind !== 'syntax' && kind !== 'size') expectAgreement(decoded);
    },
  );

  it('has texts of each sort', () => {
    const count = (sort: string) => vectors.filter((vector) => vector.expect === sort).length;
    expect([count('accept'), count('refuse'), count('either')]).toEqual([95, 188, 57]);
  });
});

describe('the quick look', () => {
  const long = 'x'.repeat(100);
  it.each([
    '{}',
    '[[],{},[{}]]',
    '{"a":1,"b":[true,false,null,-12.5,"x"],"c":{"d":""}}',
    '[0,9,10,99,100,999,1001,12345,-5,-10,-999,9007199254740991,-9007199254740991]',
    '[0.01,0.5,-0.25,1.5,-99.75,123456.75]',
    '[1000,0.001,1e3,1E-5,-2000]',
    '{ "a": [ 1, "b", { "c": null } ], "d": true }',
    `{ "a": "${long}", "${long}": [ 1 ] }`,
    '{"a":"\\n\\"\\\\","\\u0062":"\\ud83d\\ude00"}',
    `${'['.repeat(64)}${']'.repeat(64)}`,
    `${'{"a":'.repeat(64)}1${'}'.repeat(64)}`,
  ])('is enough for %s', (text) => {
    expect(isPlainlyFaithful(text, JSON.parse(text) as JsonValue)).toBe(true);
  });

  it.each([
    '{"a":1,"a":1}',
    '{ "a": 1, "a": 1 }',
    '{"a":"\\n","a":1}',
    `{ "${long}": 1, "${long}": 1 }`,
    '["\ud800"]',
    '["\\ud800"]',
    '{"\\ud800":1}',
    '[9007199254740992]',
    '[-9007199254740992, 1]',
    '{"a":1e400}',
    '{"a":-1e400,"b":"\\n"}',
    `${'['.repeat(65)}${']'.repeat(65)}`,
    `${'{"a": '.repeat(65)}1${'}'.repeat(65)}`,
  ])('is not enough for %s', (text) => {
    expect(isPlainlyFaithful(text, JSON.parse(text) as JsonValue)).toBe(false);
  });
});

describe('a defect', () => {
  const twice = (length: number) => `{"${'n'.repeat(length)}":1,"${'n'.repeat(length)}":2}`;
  it.each([
    ['{"a":1,"\\u0061":2}', 'duplicate', 'the member name "a" occurs twice in one object'],
    [twice(61), 'duplicate', `the member name "${'n'.repeat(60)}…" occurs twice in one object`],
    [twice(60), 'duplicate', `the member name "${'n'.repeat(60)}" occurs twice in one object`],
    ['["\\ud800"]', 'surrogate', 'the string "\\ud800" holds a lone surrogate'],
    ['[1e400]', 'number', 'the number 1e400 is not what a double holds of it'],
    ['[9007199254740993,1]', 'number', 'the number 9007199254740993 is not what a double holds of it'],
    ['['.repeat(65) + ']'.repeat(65), 'depth', 'arrays and objects nest deeper than 64'],
  ])('of %s is of kind %s', (text, kind, message) => {
    expect(findJsonDefect(text)).toEqual({ kind, message });
    expect(parseStrictJson(text)).toMatchObject({ defect: { kind, message } });
  });

  it('of too many large numbers says the limit, and counts only those in its scope', () => {
    const large = '9007199254740992';
    const many = Array(MAX_LARGE_NUMBERS).fill(large).join(',');
    const defect = {
      kind: 'number',
      message: 'it holds more than 3072 numbers of more than 15 digits beyond 2^53',
    };
    expect(findJsonDefect(`[${many},${large}]`)).toMatchObject(defect);
    expect(findJsonDefect(`{"a":[${many},${large}]}`, { within: ['a'] })).toMatchObject(defect);
    expect(findJsonDefect(`{"x":${large},"a":[${many}]}`, { within: ['a'] })).toBeNull();
    expect(findJsonDefect(`{"x":[${many}],"a":${large}}`, { within: ['a'] })).toBeNull();
  });

  it('of the size says the limit', () => {
    expect(parseStrictJson('[[],[]]', 2).defect).toEqual({
      kind: 'size',
      message: 'it holds more than 2 JSON objects, arrays and members, or 32768 commas',
    });
    expect(parseStrictJson('[[],[]]', 3).defect).toBeUndefined();
  });

  it.each<[string, Parameters<typeof findJsonDefect>[1], string | null]>([
    // In one member of the outermost object, and whether that member occurs twice.
    ['{"x":1e400,"a":{"b":[1e400]}}', { within: ['a'] }, 'number'],
    ['{"x":{"a":1e400},"a":1,"y":1e400}', { within: ['a'] }, null],
    ['{"a":1,"x":1,"a":2}', { within: ['a'] }, 'duplicate'],
    ['{"a":1,"x":1,"x":2}', { within: ['a'] }, null],
    ['{"a":{"b":1,"b":2}}', { within: ['a'] }, 'duplicate'],
    ['[{"a":1e400}]', { within: ['a'] }, null],
    // Of one kind, behind defects of others.
    ['{"x":1e400,"a":1,"a":2}', { only: 'duplicate' }, 'duplicate'],
    ['{"x":1e400,"a":"\\ud800"}', { only: 'duplicate' }, null],
    ['{"a":1,"a":["\\ud800"]}', { only: 'surrogate' }, 'surrogate'],
    // To another depth.
    ['[[[]]]', { depth: 2 }, 'depth'],
    ['[[{}],[]]', { depth: 3 }, null],
    ['[[],[],[[]]]', { depth: 2 }, 'depth'],
  ])('of %s with %j is of kind %s', (text, scope, kind) => {
    expect(findJsonDefect(text, scope)?.kind ?? null).toBe(kind);
  });
});

it.each<[unknown, boolean]>([
  [{}, true],
  [Object.create(null), true],
  [null, false],
  [[], false],
  ['{}', false],
  [undefined, false],
  [() => undefined, false],
])('%o as a JSON object: %s', (value, expected) => {
  expect(isJsonObject(value)).toBe(expected);
});

describe('the number of nodes', () => {
  it.each([
    ['[{"a":1},[]]', 4],
    ['{"[{:":"[{:\\"[{:"}', 2],
    ['[1,2,"x",null]', 1],
    ['"[["', 0],
    ['{"a":{"b":{"c":[[]]}}}', 8],
  ])('of %s is %i', (text, nodes) => {
    // Counted only where the text is long enough to hold more.
    const long = text + ' '.repeat(20);
    expect([hasMoreNodes(long, nodes), nodes > 0 && hasMoreNodes(long, nodes - 1)]).toEqual([
      false,
      nodes > 0,
    ]);
  });

  it('is that of a walk over every character, valid JSON or not', () => {
    /** The plain algorithm: no string is jumped over. */
    const nodesOf = (text: string) => {
      let [nodes, isInString] = [0, false];
      for (let at = 0; at < text.length; at++) {
        const unit = text.charAt(at);
        if (unit === '"') isInString = !isInString;
        else if (isInString && unit === '\\') at++;
        else if (!isInString && '{[:'.includes(unit)) nodes++;
      }
      return nodes;
    };
    const piece = fc.oneof(
      fc.constantFrom('"', '\\', '{', '[', ':', ',', ' ', 'a', '∢'),
      fc.tuple(fc.constantFrom('"', '\\', 'a', '\\"', '∢'), fc.nat(40)).map(([unit, n]) => unit.repeat(n)),
      fc.json(),
    );
    const text = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(''));
    const agrees = (one: string, nodes = nodesOf(one)) =>
      !hasMoreNodes(one, nodes) && (nodes === 0 || hasMoreNodes(one, nodes - 1));
    fc.assert(
      fc.property(text, (one) => agrees(one)),
      { numRuns: 3000 },
    );
  });

  it('is limited before anything is parsed', () => {
    const largest = `[${Array(MAX_JSON_NODES - 1)
      .fill('{}')
      .join(',')}]`;
    expect(parseStrictJson(largest).defect).toBeUndefined();
    expect(parseStrictJson(largest.replace('{}', '{},{}')).defect?.kind).toBe('size');
    expect(parseStrictJson('['.repeat(1_000_000)).defect?.kind).toBe('size');
  });

  it('does not count elements of arrays, of which there may be more', () => {
    const largest = `{"a,":[${'1,'.repeat(MAX_JSON_COMMAS - 1)}1],"b":","}`;
    expect(parseStrictJson(largest).defect).toBeUndefined();
    expect(parseStrictJson(largest.replace('[1', '[1,1')).defect).toEqual({
      kind: 'size',
      message: 'it holds more than 12288 JSON objects, arrays and members, or 32768 commas',
    });
    expect(hasMoreNodes(largest.replace('[1', '[1,1'), 2 ** 15)).toBe(true);
  });
});
