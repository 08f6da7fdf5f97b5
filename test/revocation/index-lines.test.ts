import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { IndexLines } from '../../src/revocation/store/index-lines.js';

function read(...chunks: (string | Buffer)[]) {
  const indices: number[] = [];
  const damaged: number[] = [];
  const lines = new IndexLines(
    (index) => indices.push(index),
    (line) => damaged.push(line),
  );
  for (const chunk of chunks) lines.read(Buffer.from(chunk));
  return { indices, damaged, tailLength: lines.tailLength };
}

describe('lines of indices', () => {
  test.each([
    ['42\n', [42]],
    ['0\n9007199254740991\n', [0, 9007199254740991]],
    ['# a comment 17\n\n   \n42\n', [42]],
    ['1\r\n2\r\n', [1, 2]],
    ['\t7 \n', [7]],
    ['42 # stolen laptop\n43# too\n', [42, 43]],
    ['  # indented\n', []],
    ['007\n', [7]],
  ])('%j is understood', (text, indices) => {
    expect(read(text)).toEqual({ indices, damaged: [], tailLength: 0 });
  });

  test.each([
    'x',
    '1 2',
    '12a',
    '-1',
    '1.5',
    '1e3',
    '9007199254740992',
    '99999999999999999999999',
    '\x00\x00',
    '4\x002',
    '٣',
    '"5"',
  ])('%j is damaged, and the lines around it are not', (line) => {
    expect(read(`1\n${line}\n3\n`)).toEqual({ indices: [1, 3], damaged: [2], tailLength: 0 });
  });

  test('a damaged line may be longer than any buffer', () => {
    const junk = Buffer.alloc(300_000, 'x');
    expect(read('1\n', junk, junk, '5\n3\n')).toEqual({ indices: [1, 3], damaged: [2], tailLength: 0 });
  });

  test('what has no line feed behind it counts for nothing', () => {
    expect(read('1\n23')).toEqual({ indices: [1], damaged: [], tailLength: 2 });
  });

  test('it does not matter where the chunks are cut', () => {
    const text = '1\r\n# comment\n  42 # x\nbad\n9007199254740991\n\n77';
    fc.assert(
      fc.property(fc.array(fc.nat(text.length)), (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), text.length];
        const chunks = at.slice(1).map((end, piece) => text.slice(at[piece], end));
        expect(read(...chunks)).toEqual({
          indices: [1, 42, 9007199254740991],
          damaged: [4],
          tailLength: 2,
        });
      }),
    );
  });
});
