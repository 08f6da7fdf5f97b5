import { expect, it } from 'vitest';
import { readBundle, readBundleText } from '../../src/protocol/bundle.js';

const encode = (text: string) => Buffer.from(text).toString('base64url');

it.each([
  ['', 'found nothing'],
  ['====', 'found 4 characters that are not'],
  ['e30!', 'found 4 characters that are not'],
  ['e31', 'found 3 characters that are not'],
])('the header %j is refused: %s', (header, found) => {
  const defect = {
    code: 'INVALID_BASE64URL',
    message: `the header is not strict base64url: expected only A-Z a-z 0-9 - _, and = at the end, ${found}`,
    suggestion: 'send the value of encodeBundle() unaltered, in one header',
  };
  expect(readBundleText(header)).toEqual({ defect });
  expect(readBundle(header)).toEqual({ defect });
});

it.each([
  [Buffer.from([0x22, 0xff, 0x22]).toString('base64url'), 'not UTF-8'],
  [encode('{"a":1,"a":2}'), 'not strict JSON: the member name "a" occurs twice in one object'],
])('the header %j is refused: it is %s', (header, found) => {
  expect(readBundle(header)).toEqual({
    defect: {
      code: 'INVALID_JSON',
      message: `the bundle in the header is ${found}`,
      suggestion: 'encode the bundle with encodeBundle()',
    },
  });
});

it.each(['e30', 'e30='])('the header %s is an empty object', (header) => {
  expect(readBundleText(header)).toEqual({ text: '{}' });
  expect(readBundle(header)).toEqual({ value: {} });
});
