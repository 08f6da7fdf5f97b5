import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { generateKey } from '../../src/issue/index.js';
import { afterAll, describe, expect, it } from 'vitest';
import { readConfiguration, VARIABLES } from '../../src/service/configuration/configuration.js';
import { SERVICE_COMMAND } from '../support/service.js';
import { problemsOf } from './problems-of.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-secrets-'));
afterAll(() => rmSync(folder, { recursive: true }));
const fileWith = (text: string | Buffer) => {
  const file = path.join(folder, String(Math.random()));
  writeFileSync(file, text);
  return file;
};
describe('a secret in a file', () => {
  it('is read without white space at its end, and without a byte order mark', () => {
    for (const end of ['', '\n', ' \r\n\r\n'])
      expect(
        readConfiguration({ DRS_ADMIN_TOKEN_FILE: fileWith(`\ufefft0ken-t0ken${end}`) }).drsAdminToken,
      ).toBe('t0ken-t0ken');
    expect(readConfiguration({ REDIS_URL_FILE: fileWith('rediss://me:pw@r.example\n') }).redisUrl).toBe(
      'rediss://me:pw@r.example',
    );
  });

  it('is the seed that signs contexts, too, unseen', () => {
    const seed = Buffer.alloc(32, 7).toString('base64url');
    expect(readConfiguration({ GATE_SIGNING_KEY_FILE: fileWith(`${seed}\n`) }).gateSigningKey).toBe(seed);
    expect(problemsOf({ GATE_SIGNING_KEY_FILE: fileWith('sh0rt') })).toEqual([
      expect.stringMatching(/^GATE_SIGNING_KEY_FILE is \(hidden\): expected 32 bytes/),
    ]);
  });

  it.each(['two\nlines\n', ' space', 'tab\there'])(
    'is refused with white space in it, unseen: %j',
    (token) => {
      const problems = problemsOf({ DRS_ADMIN_TOKEN_FILE: fileWith(token) });
      expect(problems).toEqual([expect.stringMatching(/^DRS_ADMIN_TOKEN_FILE is \(hidden\): .*white space/)]);
    },
  );

  it('is refused where there is none', () => {
    const says = (value: string) => problemsOf({ DRS_ADMIN_TOKEN_FILE: value }).join();
    expect(says(path.join(folder, 'missing'))).toMatch(/^DRS_ADMIN_TOKEN_FILE is ".*missing": ENOENT/);
    expect(says(folder)).toMatch(/it is a directory, expected a file/);
    expect(says(fileWith('\n'))).toMatch(/it is empty/);
    expect(says(fileWith(Buffer.from('\ufeffabc', 'utf16le')))).toMatch(/it is UTF-16, expected UTF-8/);
    expect(says(fileWith('x'.repeat(5000)))).toMatch(/larger than 4096 bytes/);
    const both = { DRS_ADMIN_TOKEN: 'abcdefgh', DRS_ADMIN_TOKEN_FILE: fileWith('x') };
    expect(problemsOf(both)).toEqual([
      'DRS_ADMIN_TOKEN_FILE and DRS_ADMIN_TOKEN are both set, expected one of them: unset the other',
    ]);
  });
});

it('refuses an issuer without a list or of raw bits, and an admin address without an address', () => {
  const issuer = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';
  expect(problemsOf({ STATUS_LIST_ISSUER: issuer })).toEqual([
    expect.stringMatching(/^STATUS_LIST_ISSUER is set and there is no list/),
  ]);
  const url = 'https://lists.example/1';
  expect(
    problemsOf({ STATUS_LIST_ISSUER: issuer, STATUS_LIST_BASE_URL: url, STATUS_LIST_FORM: 'raw' }),
  ).toEqual([expect.stringMatching(/^STATUS_LIST_ISSUER is set and STATUS_LIST_FORM is "raw", a list that/)]);
  const raw = { STATUS_LIST_BASE_URL: url, STATUS_LIST_FORM: 'raw' };
  for (const more of [{}, { STATUS_LIST_ID: 'any' }]) expect(problemsOf({ ...raw, ...more })).toEqual([]);
  expect(problemsOf({ ...raw, STATUS_LIST_ID: url })).toEqual([
    'STATUS_LIST_ID is set and STATUS_LIST_FORM is "raw", a list without a name: unset one of them',
  ]);
  expect(problemsOf({ ADMIN_ON_METRICS_ADDR: '1' })).toEqual([
    expect.stringMatching(/^ADMIN_ON_METRICS_ADDR is set/),
  ]);
  for (const address of ['9464', '::1:9464', '127.0.0.1', '127.0.0.1:99999', 'a b:1', 'http://x:1'])
    expect(problemsOf({ METRICS_ADDR: address })).toEqual([
      expect.stringMatching(/^METRICS_ADDR is ".*expected/),
    ]);
  for (const address of ['127.0.0.1:9464', '[::1]:9464', 'localhost:0'])
    expect(problemsOf({ METRICS_ADDR: address })).toEqual([]);
});

describe('serve --check', () => {
  const check = (env: Record<string, string>) =>
    spawnSync(process.execPath, [...SERVICE_COMMAND, '--check'], {
      env: { PATH: process.env['PATH'] ?? '', ...env },
      encoding: 'utf8',
    });

  it('ends with 0 where the configuration can work, and listens on nothing', () => {
    const env = { PORT: '1', SERVER_IDENTITY: 'any', TRUSTED_ROOTS: generateKey().did };
    expect(check(env)).toMatchObject({
      status: 0,
      stdout: 'The configuration can work.\n',
      stderr: '',
    });
    expect(check({ ...env, DRS_ADMIN_TOKEN: 'shortest' })).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/^warning: DRS_ADMIN_TOKEN/) as string,
    });
    // Kubernetes sets it for a Service called `grpc`.
    expect(check({ GRPC_PORT: 'tcp://10.0.0.1:9000', SERVER_IDENTITY: 'any' })).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/^warning: GRPC_PORT is "tcp:.* ignored/) as string,
    });
  });

  it('ends with 2 where the configuration names what is not there', () => {
    const { status, stderr } = check({
      DECISION_LOG: path.join(folder, 'no', 'decisions'),
      GATE_ROUTES: 'no/file',
    });
    expect([status, stderr]).toEqual([2, expect.stringMatching(/DECISION_LOG: ENOENT: .*\/no'/)]);
    expect(stderr).toMatch(/^ {2}GATE_ROUTES is "no\/file": /m);
  });

  it('ends with 2 and every problem where it can not', () => {
    const { status, stderr } = check({ PORT: 'x', TRUSTED_ROOT: 'y' });
    expect(status).toBe(2);
    expect(stderr).toMatch(/PORT is "x"/);
    expect(stderr).toMatch(/TRUSTED_ROOT is not a variable/);
  });
});

describe('serve --help', () => {
  it.each([
    ['serve', '--help'],
    ['serve', '-h'],
  ])('%s %s ends with 0, with each variable and its default', (...words) => {
    const [program = ''] = SERVICE_COMMAND;
    // A wrong configuration does not matter.
    const env = { PATH: process.env['PATH'] ?? '', PORT: 'x' };
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...words], {
      env,
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    for (const name of VARIABLES) expect(stdout).toMatch(new RegExp(`^  ${name} +[A-Zm]`, 'm'));
    expect(stdout).toMatch(/^ {2}PORT +Port to listen on\. \[8080\]$/m);
    expect(stdout).toContain('docs/configuration.md');
  });
});
