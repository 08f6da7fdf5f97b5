import { describe, expect, it } from 'vitest';
import { findStrangers } from '../../src/service/configuration/environment.js';
import { problemsOf } from './problems-of.js';

describe('a misspelt variable', () => {
  const names = ['EIGHT_OF', 'SEVENTH', 'TRUSTED_ROOTS'];

  it('is found where the name has 8 characters, and what it should be is said', () => {
    expect(findStrangers({ EIGHT_OFF: '1', SEVENTHS: '1', TRUSTED_ROOT: 'x' }, names)).toEqual([
      'EIGHT_OFF is not a variable of drs-verify, expected EIGHT_OF: rename it, or unset it',
      'TRUSTED_ROOT is not a variable of drs-verify, expected TRUSTED_ROOTS: rename it, or unset it',
    ]);
  });

  it('is found where it is written in small letters', () => {
    expect(findStrangers({ trusted_roots: 'x', Trusted_Root: 'x', seventh: '1' }, names)).toEqual([
      'trusted_roots is not a variable of drs-verify, expected TRUSTED_ROOTS: rename it, or unset it',
      'Trusted_Root is not a variable of drs-verify, expected TRUSTED_ROOTS: rename it, or unset it',
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
            `^${name} is not a variable of drs-verify \\(drs-verify serve --help lists them\\): .`,
          ),
        ],
      ]);
    expect(problemsOf({ GATE_METHOD_NAMES: 'x' })[0]).toContain(
      'did you mean GATE_METHODS? Rename it, or unset it',
    );
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

  it('is none where it is unset or blank, or one of ours', () => {
    expect(findStrangers({ TRUSTED_ROOT: ' ', EIGHT_OFF: undefined, EIGHT_OF: '1' }, names)).toEqual([]);
    expect(findStrangers({ TRUSTED_ROOTS: 'x' }, [...names, 'TRUSTED_ROOT'])).toEqual([]);
  });
});
