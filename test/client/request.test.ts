import { describe, expect, it } from 'vitest';
import { serviceUrl, spliceBody } from '../../src/client/request.js';

describe('spliceBody', () => {
  it.each([
    ['{"a":1}', '9007199254740993', '{"a":1,"body":9007199254740993}'],
    ['{ }', 'null', '{ "body":null}'],
    ['{}', ' {"n":1,"n":2}\n', '{"body": {"n":1,"n":2}\n}'],
    ['{"a":"}"} \n', '[]', '{"a":"}","body":[]}'],
    ['{"a":"{"}', '""', '{"a":"{","body":""}'],
  ])('of %s and %s', (bundle, body, expected) => {
    expect(spliceBody(bundle, body)).toBe(expected);
    expect(JSON.parse(expected)).toHaveProperty('body');
  });

  it.each(['', '1,"receipts":[]', '{}}', '{'])('refuses the body %s', (body) => {
    expect(() => spliceBody('{"a":1}', body)).toThrow(SyntaxError);
  });
});

describe('serviceUrl', () => {
  it.each([
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080/verify'],
    ['https://verify.example/drs//', 'https://verify.example/drs/verify'],
    ['http://127.0.0.1:8080/?token=x#y', 'http://127.0.0.1:8080/verify'],
  ])('of %s', (address, expected) => {
    expect(serviceUrl(address, '/verify').href).toBe(expected);
    expect(serviceUrl(new URL(address), '/verify').href).toBe(expected);
  });

  it.each(['', 'verify.example', 'ftp://h', 'http://name:secret@h', 'http://secret@h/?token=secret'])(
    'refuses %s and does not show it',
    (address) => {
      expect(() => serviceUrl(address, '/verify')).toThrow(TypeError);
      expect(() => serviceUrl(address, '/verify')).toThrow(/^(?!.*secret)/);
    },
  );
});
