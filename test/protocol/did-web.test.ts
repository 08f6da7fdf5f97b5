import { describe, expect, it } from 'vitest';
import { documentUrlOf } from '../../src/protocol/did-web.js';
import { isDid } from '../../src/protocol/key-resolver.js';

describe('the document of', () => {
  it.each([
    ['a.example', 'https://a.example/.well-known/did.json'],
    ['a.example%3A8443', 'https://a.example:8443/.well-known/did.json'],
    ['a.example%3A8443:user:Alice_1.x-', 'https://a.example:8443/user/Alice_1.x-/did.json'],
    ['a.example:%C3%BCber%20%3Fx'.replace('%20', ''), 'https://a.example/%C3%BCber%3Fx/did.json'],
    ['xn--bcher-kva.example', 'https://xn--bcher-kva.example/.well-known/did.json'],
    ['a1-b--c.2.x3', 'https://a1-b--c.2.x3/.well-known/did.json'],
    ['intranet', 'https://intranet/.well-known/did.json'],
    ['localhost', 'http://localhost/.well-known/did.json'],
    ['localhost%3A65535:a', 'http://localhost:65535/a/did.json'],
    ['localhost.a.example', 'https://localhost.a.example/.well-known/did.json'],
    ['a.example:...', 'https://a.example/.../did.json'],
  ])('did:web:%s is %s', (name, url) => {
    expect(documentUrlOf(`did:web:${name}`)?.href).toBe(url);
    expect(isDid(`did:web:${name}`)).toBe(true);
  });

  it.each([
    ...[
      '',
      'A.example',
      'a.example.',
      '.a.example',
      'a..example',
      '-a.example',
      'a-.example',
      'a_b.example',
      'ä.example',
    ],
    ...[
      '127.0.0.1',
      '0x7f.1',
      '127.1',
      '2130706433',
      'a.1',
      'a.0x1',
      '1',
      '%5B%3A%3A1%5D',
      '[::1]',
      'a.example@b',
    ],
    ...[
      'a.example%3a8443',
      'a.example%3A',
      'a.example%3A0',
      'a.example%3A08',
      'a.example%3A65536',
      'a.example%3A443',
    ],
    ...[
      'localhost%3A80',
      'a.example%3A1%3A2',
      'a.example%253A1',
      'a.example%2Fb',
      'a.example%3A80a',
      'u%40a.example',
    ],
    ...['a.example:', 'a.example::b', 'a.example:b:', 'a.example:.', 'a.example:..', 'a.example:b:..:c'],
    ...[
      'a.example:%2E',
      'a.example:%2E%2E',
      'a.example:.%2E',
      'a.example:a%2Fb',
      'a.example:a%5Cb',
      'a.example:%00',
    ],
    ...[
      'a.example:a%0Ab',
      'a.example:%20',
      'a.example:%7F',
      'a.example:%2f',
      'a.example:%c3',
      'a.example:%',
      'a.example:%G0',
    ],
    ...[
      'a.example/b',
      'a.example?b',
      'a.example#key',
      'a.example:b/c',
      'a.example:b?c',
      'a.example:b#c',
      'a.example:b c',
    ],
    ...['a.example:b\n', ' a.example', 'a.example:ü', `a.example:${'b'.repeat(490)}`],
  ])('did:web:%s is nowhere', (name) => {
    expect(documentUrlOf(`did:web:${name}`)).toBeNull();
    expect(isDid(`did:web:${name}`)).toBe(false);
  });

  it.each(['web:a.example', 'did:Web:a.example', 'did:key:a.example', 'xdid:web:a.example', ''])(
    '%j is nowhere',
    (text) => expect(documentUrlOf(text)).toBeNull(),
  );

  it('a name of 500 characters is there, and of one more is not', () => {
    const name = `did:web:a.example:${'b'.repeat(482)}`;
    expect(name).toHaveLength(500);
    expect(documentUrlOf(name)).not.toBeNull();
    expect(documentUrlOf(`${name}b`)).toBeNull();
  });
});
