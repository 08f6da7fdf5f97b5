import { describe, expect, it } from 'vitest';
import { isTypoOf } from '../../src/service/configuration/environment.js';
import { problemsOf } from './problems-of.js';

describe('a misspelt variable', () => {
  it('is found where the name has 8 characters, in small letters, too, and what it should be is said', () => {
    for (const name of ['TRUSTED_ROOT', 'trusted_roots', 'Trusted_Root'])
      expect(problemsOf({ [name]: 'x' })).toEqual([
        `${name} is not a variable of drs-verify, expected TRUSTED_ROOTS: rename it, or unset it`,
      ]);
  });

  it('is found where it begins as ours do, or where nobody else begins so', () => {
    for (const name of [
      'GATE_POLICY',
      'GATE_TRUSTED_ROOTS',
      'DRS_TRUSTED_ROOTS',
      'SERVER_ID',
      'REPLAY_STORE',
      'TRUSTED_KEYS',
      'GRPC_X',
    ])
      expect([name, problemsOf({ [name]: 'x' })]).toEqual([
        name,
        [
          expect.stringMatching(
            `^${name} is not a variable of drs-verify \\(drs-verify serve --help lists them\\): rename it`,
          ),
        ],
      ]);
  });

  it('is none of another program', () => {
    const others = [
      'DRS_VERIFY_URL',
      'DRS_KEY_PASSPHRASE',
      'DRS_ADMIN_URL',
      'DRS_COMMIT',
      'GRPC_TRACE',
      'GRPC_NODE_VERBOSITY',
      'REDIS_PASSWORD',
      'LISTEN_FDS',
      'LOG_FORMAT',
      'PATH',
      'TRUSTED',
    ];
    const links = [
      'GATE_SERVICE_HOST',
      'GATE_PORT',
      'GATE_SERVICE_PORT_HTTP',
      'DRS_VERIFY_PORT_8080_TCP_ADDR',
    ];
    expect(problemsOf(Object.fromEntries([...others, ...links].map((name) => [name, 'x'])))).toEqual([]);
    expect(problemsOf({ GATE_POLICY: ' ', LISTEN_ADDR: '' })).toEqual([]);
  });
});

const pairs = (text: string) => text.split(', ').map((pair) => pair.split(' ') as [string, string]);
const areTypos = (one: string, other: string) => [isTypoOf(one, other), isTypoOf(other, one)];

describe('one typing error', () => {
  it.each([
    ['', 'a'],
    ...pairs('abc abcd, abc xabc, abc abxc, abb abbb, abc abd, abc xbc, abc bac, abc acb, aab aaab'),
  ])('lies between %j and %j', (one, other) => expect(areTypos(one, other)).toEqual([true, true]));

  it.each([
    ...[['', 'ab'] as const, ...pairs('abc abcde, abc xabcy, abcd acdx, abcd axbx, abab ababab')],
    // Two neighbours are not swapped, or more than these differ.
    ...pairs('abcd axyd, abcd acxd, abcd axbd, abcd acbx, abcd badc, abcd bxcd, aabc abcx, abcx bcxyz'),
  ])('is not what lies between %j and %j', (one, other) =>
    expect(areTypos(one, other)).toEqual([false, false]),
  );
});
