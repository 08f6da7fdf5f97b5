import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { beforeAll, expect, it } from 'vitest';
import { makeCertificate } from '../support/certificates.js';
import { listen } from '../middleware/http.js';
import { createChain, INVOKE, type Workplace } from './drs.js';
import { needs } from '../support/programs.js';

/** What a person reads who has made a mistake: what was found, what was expected, and what to do. */
let work: Workplace;
beforeAll(async () => {
  work = await createChain();
});

const ISSUE = ['issue', '--key', 'alice.key', '--to', 'bot.pub', '--tool', 'a', '--yes'];
const ORGANISATION = ['--root-type', 'organisation', '--consent-text', 'text.txt'];
const OPTION = 'Correct that option.';
const ROWS: readonly (readonly [name: string, args: readonly string[], message: string, hint: string])[] = [
  ['an end that a person must give', [...ISSUE, '--expires', 'never'], 'exp is missing', OPTION],
  ['a command that is no path', [...ISSUE, '--cmd', 'tools'], 'cmd is "tools"', OPTION],
  [
    'a command below, that is no path',
    ['delegate', '--key', 'bot.key', '--chain', 'root.jwt', '--to', 'bot.pub', '--cmd', 'x'],
    'cmd is "x"',
    OPTION,
  ],
  [
    'a tool server without a name',
    ['invoke', '--key', 'bot.key', '--chain', 'root.jwt', '--tool-server', '', '--args', '{"tool":"search"}'],
    'tool_server is ""',
    OPTION,
  ],
  [
    'a consent of no person',
    [...ISSUE, ...ORGANISATION],
    'there is a consent, and --root-type is "organisation": only a human gives one',
    'leave out --consent-text and --consent-session, or --root-type',
  ],
  [
    'arguments that would be rounded',
    [...INVOKE, '--args', '{"n":9007199254740993}'],
    '--args is no strict JSON: the number 9007199254740993',
    'write this number as a string',
  ],
  [
    'an argument that is there twice',
    [...INVOKE, '--args', '{"a":1,"a":2}'],
    '--args is no strict JSON: the member name "a" occurs twice',
    'correct it: a verifier refuses such JSON',
  ],
  [
    'a file in place of a DID',
    ['revoke', '--did', 'bot.pub'],
    'did is "bot.pub", expected a DID',
    'of a key, give the DID that is "kid" in its .pub file',
  ],
];
it.each(ROWS)('says what to do about %s', async (_, args, message, hint) => {
  const { code, stdout, stderr } = await work.drs(args, { env: { DRS_ADMIN_TOKEN: 'x' } });
  expect(stdout).toBe('');
  expect([1, 2]).toContain(code);
  expect(stderr).toContain(message);
  expect(stderr.endsWith(`\n  hint: ${hint}\n`)).toBe(true);
});

it('does not take another server for the service', async () => {
  const other = await listen((_req, res) => res.writeHead(400).end('{"jsonrpc":"2.0"}'));
  const { code, stderr } = await work.drs(['verify', 'bundle.json'], { env: { DRS_VERIFY_URL: other.url } });
  expect(code).toBe(2);
  expect(stderr).toContain('check that DRS_VERIFY_URL is the address of a drs-verify service');
  await other.close();
});

it(
  'tells a certificate that is not trusted, and a side without TLS, from a service that is away',
  needs('openssl'),
  async () => {
    const { certFile, keyFile } = makeCertificate(work.directory, 'tls');
    const secure = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }).listen(
      0,
      '127.0.0.1',
    );
    await once(secure, 'listening');
    const { port } = secure.address() as AddressInfo;
    const plain = await listen((_req, res) => res.end());
    const hintAt = async (url: string) => {
      const { stderr } = await work.drs(['verify', 'bundle.json'], { env: { DRS_VERIFY_URL: url } });
      return /hint: (.+)\n$/.exec(stderr)?.[1];
    };
    expect(await hintAt(`https://127.0.0.1:${port}`)).toMatch(/^trust the certificate.*NODE_EXTRA_CA_CERTS/);
    expect(await hintAt(plain.url.replace('http:', 'https:'))).toBe('it seems to have no TLS: write http://');
    expect(await hintAt(`http://127.0.0.1:${port}`)).toBe(
      'try again; if the service has TLS, write https://',
    );
    secure.close();
    await plain.close();
  },
);
