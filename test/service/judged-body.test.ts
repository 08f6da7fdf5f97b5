import { Buffer } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { MAX_JSON_NODES } from '../../src/protocol/json.js';
import { answerTo, readJson, type Fault } from '../../src/service/http/judged-body.js';

describe('a body as JSON', () => {
  const read = (body: Buffer | string) =>
    readJson(Buffer.from(body), JSON.parse as (text: string) => unknown);

  it('is what it says', () => {
    expect(read('{"a":[1]}')).toEqual({ parsed: { a: [1] } });
    const largest = `[${'[],'.repeat(MAX_JSON_NODES - 2)}[]]`;
    expect(read(largest)).toMatchObject({ parsed: { length: MAX_JSON_NODES - 1 } });
  });

  it.each<[string, Buffer | string, string, RegExp]>([
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'malformed', /^the body is not UTF-8, expected JSON/],
    ['nothing', '', 'malformed', /^the body is empty, expected JSON$/],
    ['no JSON', '{"a":}', 'malformed', /^the body is not JSON: .*}/],
    [
      'too many values',
      `[${'[],'.repeat(MAX_JSON_NODES)}]`,
      'too_large',
      /^the body holds more than 16384 JSON /,
    ],
  ])('is none, and why: %s', (_, body, fault, says) => {
    expect(read(body)).toEqual({ fault, error: expect.stringMatching(says) as string });
  });
});

it.each<[Fault, number, string, boolean, object | undefined]>([
  ['too_large', 413, 'MAX_BODY_BYTES (9), or came in more than 65536', true, undefined],
  ['timeout', 408, 'REQUEST_TIMEOUT_SECS (7)', true, undefined],
  ['overloaded', 503, 'overloaded', false, { 'Retry-After': '1' }],
  ['shutting_down', 503, 'shutting down', true, { 'Retry-After': '1' }],
  ['rate_limited', 429, 'rate_limited', false, { 'Retry-After': '1' }],
])('%j is answered with what it means', (fault, status, says, closes, headers) => {
  const answer = answerTo(fault, { maxBodyBytes: 9, requestTimeoutSecs: 7 });
  expect([answer.status, answer.closes ?? false, answer.headers]).toEqual([status, closes, headers]);
  expect((JSON.parse(answer.body as string) as { error: string }).error).toContain(says);
});
