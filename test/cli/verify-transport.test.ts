import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { spliceBody } from '../../src/client/request.js';
import { createWorkplace, type Workplace } from './drs.js';

// A fake service, only for what the real one does not do on demand: fail, send garbage, and show what it received.
const server = createServer((request, response) => {
  void text(request).then((body) => {
    received.push({ request, body });
    answer(response);
  });
});
const received: { request: IncomingMessage; body: string }[] = [];
let answer: (response: ServerResponse) => void;
let work: Workplace;
let url: string;

const answerWith = (status: number, body: string, headers: Record<string, string> = {}) => {
  answer = (response) => response.writeHead(status, headers).end(body);
};
const VALID = '{"valid":true,"context":{"root_principal":"did:key:z","chain_depth":1,"leaf_policy":{}}}';

beforeAll(async () => {
  work = await createWorkplace();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

async function post(bundle: string, body?: string) {
  received.length = 0;
  await work.write('bundle.json', bundle);
  if (body !== undefined) await work.write('body.json', body);
  const args = ['verify', 'bundle.json', ...(body === undefined ? [] : ['--body', 'body.json'])];
  return {
    ...(await work.drs(args, { env: { DRS_VERIFY_URL: url } })),
    sent: received.map((one) => one.body),
  };
}

describe('what is sent', () => {
  it('is the bundle, character for character', async () => {
    answerWith(200, VALID);
    const bundle = '{ "receipts" : ["a"],"receipts":[] ,\n"n":9007199254740993, "invocation":"\\u0061"}';
    expect((await post(`\n${bundle}\n`)).sent).toEqual([bundle]);
    expect(received[0]?.request).toMatchObject({ method: 'POST', url: '/verify' });
    expect(received[0]?.request.headers['content-type']).toBe('application/json');
  });

  it('is the JSON text of a header, character for character', async () => {
    answerWith(200, VALID);
    const bundle = '{"invocation": "i", "n": 1.0}';
    expect((await post(Buffer.from(bundle).toString('base64url'))).sent).toEqual([bundle]);
    // 29 bytes take three characters of base64 in the last group, and so one of padding.
    expect((await post(`${Buffer.from(bundle).toString('base64url')}=\n`)).sent).toEqual([bundle]);
  });

  it('is the body, character for character, behind the bundle', async () => {
    answerWith(200, VALID);
    const body = '{"n": 9007199254740993, "n": 1.10, "s": "\\u00e9"}\n';
    expect((await post('{"invocation":"i"} ', body)).sent).toEqual([`{"invocation":"i","body":${body}}`]);
    expect((await post('{"receipts":"}"}', '[]')).sent).toEqual(['{"receipts":"}","body":[]}']);
    // A bundle has a member, but what a program gives to the client need not.
    expect(spliceBody('{ }', 'null')).toBe('{ "body":null}');
  });

  it('goes below the path of DRS_VERIFY_URL', async () => {
    answerWith(200, VALID);
    received.length = 0;
    await work.write('bundle.json', '{"invocation":"i"}');
    await work.drs(['verify', 'bundle.json'], { env: { DRS_VERIFY_URL: `${url}/drs/` } });
    expect(received[0]?.request.url).toBe('/drs/verify');
  });
});

describe('exit code 2, and a hint, for', () => {
  beforeEach(() => work.write('bundle.json', '{"invocation":"i"}'));

  const failures: [string, number, string, string][] = [
    ['503', 503, '{"error":"overloaded"}', '503 overloaded'],
    ['429', 429, '{"error":"rate_limited"}', '429 rate_limited'],
    ['413', 413, '{"error":"too large"}', '413 too large'],
    ['400', 400, '{"error":"Unexpected token"}', 'the service refused: 400 Unexpected token'],
    ['500', 500, '{"error":"internal"}', '500 internal'],
    ['404', 404, '<html>', '404'],
    ['a redirect', 307, '', '307'],
    ['an empty answer', 200, '', 'not JSON'],
    ['garbage', 200, '{"valid":tr', 'not JSON'],
    ['another JSON object', 200, '{"valid":"yes"}', 'not what this command expects'],
    ['a verdict with another status', 201, VALID, '201'],
    ['null', 200, 'null', 'not what this command expects'],
  ];
  it.each(failures)('%s', async (_, status, body, message) => {
    answerWith(status, body, status === 307 ? { Location: '/elsewhere' } : {});
    const { code, stdout, stderr } = await post('{"invocation":"i"}');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^drs-verify: .+\n {2}hint: .+\n$/);
    expect(stderr).toContain(message);
  });

  it('a valid verdict that does not say how the body binds', async () => {
    answerWith(200, VALID);
    expect(await post('{"invocation":"i"}', '{}')).toMatchObject({ code: 2, stdout: '' });
    expect(await post('{"invocation":"i","body":{}}')).toMatchObject({ code: 2, stdout: '' });
  });

  it('a connection that breaks', async () => {
    answer = (response) => response.destroy();
    expect(await post('{"invocation":"i"}')).toMatchObject({ code: 2, stdout: '' });
  });

  it('a service that is not there', async () => {
    // Port 9 (discard) is below the range from which systems lend ports, and nothing listens there.
    const { code, stderr } = await work.drs(['verify', 'bundle.json'], {
      env: { DRS_VERIFY_URL: 'http://127.0.0.1:9' },
    });
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /no answer from the service at http:\/\/127\.0\.0\.1:9: .+\n {2}hint: start it with/,
    );
  });

  it('an address with a query, which is neither sent nor shown', async () => {
    const { stderr } = await work.drs(['verify', 'bundle.json'], {
      env: { DRS_VERIFY_URL: 'http://127.0.0.1:9/drs?token=secret#secret' },
    });
    expect(stderr).toContain('http://127.0.0.1:9');
    expect(stderr).not.toContain('secret');
  });

  const urls = ['127.0.0.1:8080', 'ftp://127.0.0.1', 'http://name:secret@127.0.0.1'];
  it.each(urls)('DRS_VERIFY_URL=%s', async (value) => {
    const { code, stderr } = await work.drs(['verify', 'bundle.json'], { env: { DRS_VERIFY_URL: value } });
    expect(code).toBe(2);
    expect(stderr).toContain('DRS_VERIFY_URL is not');
    expect(stderr).not.toContain('secret');
  });

  const files: [string, string | Buffer, string][] = [
    ['what is neither JSON nor base64url', 'bundle!', 'neither JSON nor base64url'],
    ['an empty file', '', 'neither JSON nor base64url'],
    ['JSON that breaks off', '{"receipts":[', 'is not a bundle'],
    ['base64url of something else', 'AAAA', 'neither JSON nor base64url'],
    ['a chain', 'a.b.c\n', 'no invocation'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'not UTF-8'],
  ];
  it.each(files)('%s', async (_, content, message) => {
    const { code, stdout, stderr } = await work.drs(['verify', '-'], { stdin: content });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(stderr).toMatch(/\n {2}hint: .+\n$/);
  });

  it('a file that is not there', async () => {
    const { code, stderr } = await work.drs(['verify', 'missing.json']);
    expect(code).toBe(2);
    expect(stderr).toContain('cannot read a bundle from missing.json: no such file');
  });

  const bodies: [string, string, string, string][] = [
    ['that is not JSON', '{"receipts":[]}', '1,"receipts":[]', 'the body is not JSON'],
    ['that is empty', '{"receipts":[]}', '', 'the body is not JSON'],
    ['beside one in the bundle', '{"receipts":[],"body":1}', '2', 'has a body already'],
    ['for what is no object', '["receipts"]', '1', 'neither receipts nor an invocation'],
    ['for what is no bundle', '{"kty":"OKP"}', '1', 'neither receipts nor an invocation'],
  ];
  it.each(bodies)('a body %s', async (_, bundle, body, message) => {
    const { code, stderr, sent } = await post(bundle, body);
    expect({ code, sent }).toEqual({ code: 2, sent: [] });
    expect(stderr).toContain(message);
  });

  it('a bundle and a body from standard input', async () => {
    const { code, stderr } = await work.drs(['verify', '-', '--body', '-'], { stdin: '{}' });
    expect(code).toBe(2);
    expect(stderr).toContain('cannot both be standard input');
  });
});

it('what the service says cannot steer the terminal', async () => {
  const message = '\u001b]0;owned\u0007\u009b2J\u202e\nvalid';
  answerWith(200, JSON.stringify({ valid: false, error: { code: message, message, suggestion: message } }));
  const { code, stdout } = await post('{"receipts":[]}');
  expect(code).toBe(1);
  expect(stdout.replaceAll('\n', '')).toMatch(/^[\x20-\x7e]+$/);
  expect(stdout.split('\n')).toHaveLength(4);
  expect(stdout).toContain('\\u{1b}]0;owned\\u{7}');
  const asJson = await work.drs(['verify', 'bundle.json', '--json'], { env: { DRS_VERIFY_URL: url } });
  expect(asJson.stdout.replaceAll('\n', '')).toMatch(/^[\x20-\x7e]+$/);
  expect(JSON.parse(asJson.stdout)).toMatchObject({ error: { message } });
  answerWith(500, JSON.stringify({ error: message }));
  expect((await post('{"receipts":[]}')).stderr.replaceAll('\n', '')).toMatch(/^[\x20-\x7e]+$/);
});

it.each(['a token', 'line\nbreak', ''])('revoke does not send or show the token %j', async (token) => {
  received.length = 0;
  const { code, stderr } = await work.drs(['revoke', '--index', '7'], {
    env: { DRS_VERIFY_URL: url, DRS_ADMIN_TOKEN: token },
  });
  expect(code).toBe(2);
  expect(stderr).toContain('DRS_ADMIN_TOKEN');
  if (token !== '') expect(stderr).not.toContain(token);
  expect(received).toEqual([]);
});

it('revoke sends the token and the index', async () => {
  answerWith(200, '{"revoked":true,"status_list_index":7}');
  received.length = 0;
  const { code } = await work.drs(['revoke', '--index', '7'], {
    env: { DRS_VERIFY_URL: url, DRS_ADMIN_TOKEN: 't0ken' },
  });
  expect(code).toBe(0);
  expect(received).toMatchObject([{ body: '{"status_list_index":7}', request: { url: '/admin/revoke' } }]);
  expect(received[0]?.request.headers.authorization).toBe('Bearer t0ken');
});

it.each([
  [400, '{"error":"exp is 1"}', 1, '400 exp is 1', 'check the files and options'],
  [401, '{"error":"unauthorized"}', 1, '401 unauthorized', 'check that DRS_ADMIN_TOKEN is the one'],
  [404, '{"error":"not found"}', 1, '404 not found', 'set DRS_ADMIN_URL'],
  [503, '{"error":"not recorded"}', 1, '503 not recorded', 'look at the configuration and the log'],
  [404, '<html>', 2, '404 (its body is not JSON)', 'is the address of a drs-verify service'],
  [200, '{"revoked":false}', 2, '200 (its body is not what', 'is the address of a drs-verify service'],
])('revoke says what to do about %i %s', async (status, body, exitCode, found, hint) => {
  answerWith(status, body);
  const { code, stdout, stderr } = await work.drs(['revoke', '--index', '7'], {
    env: { DRS_VERIFY_URL: url, DRS_ADMIN_TOKEN: 't0ken' },
  });
  expect({ code, stdout }).toEqual({ code: exitCode, stdout: '' });
  expect(stderr).toMatch(/^drs-verify: .+\n {2}hint: .+\n$/);
  expect(stderr).toContain(found);
  expect(stderr).toContain(hint);
});
