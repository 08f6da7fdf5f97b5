import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Agent } from 'undici';
import { fetchStatusList } from '../../src/revocation/lists/fetch-status-list.js';
import { operatorsList } from '../../src/revocation/lists/operators-list.js';
import type { StatusListCache } from '../../src/revocation/lists/status-list-cache.js';
import { StatusListError } from '../../src/revocation/lists/status-list-error.js';
import { unusedPort } from '../support/ports.mjs';
import { ListServer } from './list-server.js';
import { bitsWith, credentialWith, LIST_ID, listWith } from './lists.js';
import { Recorder } from './recorder.js';

const MIB = 1024 * 1024;
const VC = { 'content-type': 'application/vc' };

let server: ListServer;
let recorder: Recorder;
let cache: StatusListCache;
let now: number;

/** Starts a fetch, even if the present copy is usable, and waits for its end. */
async function refresh(): Promise<void> {
  now += 2_000;
  const ended = recorder.outcomes.length;
  void cache.refreshIfStale();
  await recorder.fetched(ended + 1);
}

beforeEach(async () => {
  server = await ListServer.start();
  recorder = new Recorder();
  now = Date.now();
  cache = operatorsList(
    { url: server.url, id: LIST_ID, ttlSecs: 1, maxStaleSecs: 300, maxWaitMs: 2_000 },
    { log: recorder.log, observer: recorder, now: () => now },
    // Only the tests of slowness wait so long; on a busy machine, no other test must run into it.
    20_000,
  );
  // No retry of its own comes in between.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  server.serve('application/vc', listWith([7]));
  await refresh();
});

afterEach(async () => {
  vi.useRealTimers();
  await cache.close();
  await server.close();
});

/** The outcome of a fetch that this answers. */
async function outcomeOf(
  respond: (response: ServerResponse, path: string) => void,
): Promise<string | undefined> {
  server.respond = (request, response) => respond(response, request.url ?? '');
  await refresh();
  return recorder.outcomes.at(-1);
}

// The first body that is read makes undici start a timer for all, which is not one that a fetch has left.
describe('every fault of the server', { shuffle: false }, () => {
  const gzip = gzipSync(bitsWith([1]));
  const listOf = (packed: Buffer) =>
    JSON.stringify(
      credentialWith([], { credentialSubject: { encodedList: `u${packed.toString('base64url')}` } }),
    );

  test.each<[string, string, (response: ServerResponse, path: string) => void]>([
    ['500', 'http_status', (response) => response.writeHead(500, VC).end(listWith([]))],
    ['404', 'http_status', (response) => response.writeHead(404).end()],
    ['204', 'http_status', (response) => response.writeHead(204).end()],
    ['206', 'http_status', (response) => response.writeHead(206, VC).end(listWith([]))],
    ['a reset before the answer', 'unreachable', (response) => response.socket?.resetAndDestroy()],
    [
      'a reset in the body',
      'unreachable',
      (response) => {
        response.writeHead(200, { ...VC, 'content-length': 16_384 });
        response.write(Buffer.alloc(1000), () => response.socket?.resetAndDestroy());
      },
    ],
    [
      'a body that ends too early',
      'unreachable',
      (response) => {
        response.writeHead(200, { ...VC, 'content-length': 16_384 });
        response.write(Buffer.alloc(1000), () => response.socket?.end());
      },
    ],
    [
      'truncated GZIP',
      'malformed',
      (response) => response.writeHead(200, VC).end(listOf(gzip.subarray(0, -4))),
    ],
    [
      'an error page',
      'malformed',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    [
      'a content coding',
      'malformed',
      (response) => response.writeHead(200, { ...VC, 'content-encoding': 'gzip' }).end(gzip),
    ],
    [
      'a body declared too large',
      'too_large',
      (response) => {
        response.writeHead(200, { ...VC, 'content-length': MIB + 1 });
        response.write(Buffer.alloc(10));
      },
    ],
    [
      'a body that goes on and on',
      'too_large',
      (response) => {
        response.writeHead(200, VC);
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(MIB)));
        };
        response.on('drain', more);
        more();
      },
    ],
    [
      'a bomb',
      'too_large',
      (response) => response.writeHead(200, VC).end(listOf(gzipSync(Buffer.alloc(17 * MIB)))),
    ],
    [
      'a list that is not valid yet',
      'out_of_validity',
      (response) => {
        const validFrom = new Date(now + 60_000).toISOString();
        response.writeHead(200, VC).end(JSON.stringify(credentialWith([], { validFrom })));
      },
    ],
    ['a redirect', 'http_status', (response) => response.writeHead(302, { location: './other' }).end()],
  ])('%s', async (_, outcome, respond) => {
    expect(await outcomeOf(respond)).toBe(outcome);
    // Nothing of it was used, and the next fetch succeeds.
    expect([cache.statusOf(7), cache.statusOf(1)]).toEqual(['revoked', 'not_revoked']);
    server.serve('application/vc', listWith([1]));
    await refresh();
    expect([recorder.outcomes.at(-1), cache.statusOf(7), cache.statusOf(1)]).toEqual([
      'updated',
      'not_revoked',
      'revoked',
    ]);
  });

  test.each<[string, string, (response: ServerResponse, path: string) => void]>([
    [
      'an error page',
      'it begins with "<p>", expected a credential',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    [
      'a redirect to another place',
      '/list answers 307, expected 200 and a list; no redirect is followed',
      (response) => response.writeHead(307, { location: 'http://me:pw@other.example/list' }).end(),
    ],
    [
      'a content coding',
      'it has Content-Encoding gzip, which was not asked for',
      (response) => response.writeHead(200, { ...VC, 'content-encoding': 'gzip' }).end(gzip),
    ],
    [
      'a body that is too large',
      'it has more than 1048576 bytes: clear the entries of receipts that have expired, so that it packs better',
      (response) => response.writeHead(200, { ...VC, 'content-length': MIB + 1 }).write('x'),
    ],
  ])('%s is logged as what it is', async (_, message, respond) => {
    await outcomeOf(respond);
    expect(recorder.messages.at(-1)).toContain(message);
    expect(recorder.details.at(-1)).toEqual({
      err: expect.any(StatusListError) as Error,
      url: server.url,
      fault: recorder.outcomes.at(-1),
      copy: 'stale',
      ageSecs: 2,
    });
  });

  test('a list of exactly 1 MiB is accepted, and of 16 MiB when it is unpacked', async () => {
    const body = listWith([7], 128 * MIB).padEnd(MIB);
    expect(await outcomeOf((response) => response.writeHead(200, VC).end(body))).toBe('updated');
    expect([cache.statusOf(7), cache.entries]).toEqual(['revoked', 128 * MIB]);
    expect(await outcomeOf((response) => response.writeHead(200, VC).end(`${body} `))).toBe('too_large');
  });

  test('an error is no confirmation, whatever the server confirmed before', async () => {
    server.serve('application/vc', listWith([7]), '"one"');
    await refresh();
    expect(await outcomeOf((response) => response.writeHead(500).end())).toBe('http_status');
    expect(server.requests.at(-1)?.headers['if-none-match']).toBe('"one"');
    expect(cache.ageSecs).toBe(2);
  });

  test('the rest of an answer that is not wanted is not read, and no timer is left', async () => {
    const asked = server.asked();
    let closed: Promise<unknown> = Promise.resolve();
    const outcome = await outcomeOf((response) => {
      closed = once(response, 'close');
      response.writeHead(200, { ...VC, 'content-length': MIB + 1 });
      response.write(Buffer.alloc(10));
    });
    await asked;
    expect(outcome).toBe('too_large');
    await closed;
    server.serve('application/vc', listWith([7]));
    await refresh();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('a request says what is understood, and asks for no coding and no further request', () => {
    const { headers } = server.requests.at(-1) ?? {};
    expect(headers).toMatchObject({
      accept: 'application/vc+jwt, application/vc, application/json;q=0.9, */*;q=0.8',
      'accept-encoding': 'identity',
      connection: 'close',
    });
    expect(headers).not.toHaveProperty('if-none-match');
  });

  test.each([
    ['a message', new Error('no luck'), 'no luck'],
    ['a code only', Object.assign(new Error(''), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
    ['nothing', new Error(''), 'no reason given'],
  ])('an error of the network with %s is named, and is the cause', async (_, error, name) => {
    const dispatch = vi.spyOn(Agent.prototype, 'dispatch').mockImplementation(() => {
      throw error;
    });
    onTestFinished(() => dispatch.mockRestore());
    const { signal } = new AbortController();
    await expect(fetchStatusList(new URL(server.url), { signal })).rejects.toMatchObject({
      fault: 'unreachable',
      message: `${server.url} cannot be fetched: ${name}`,
      cause: error,
    });
  });

  test('nobody listens', async () => {
    const lonely = operatorsList(
      { url: `http://127.0.0.1:${await unusedPort()}/list`, ttlSecs: 300, maxStaleSecs: 0, maxWaitMs: 2_000 },
      { log: recorder.log, observer: recorder, now: Date.now },
    );
    lonely.start();
    await recorder.fetched(2);
    expect([recorder.outcomes.at(-1), lonely.unreadyReason]).toEqual([
      'unreachable',
      'status_list_not_fetched',
    ]);
    expect(recorder.messages.join()).toContain('ECONNREFUSED');
    await lonely.close();
  });
});

describe('a server that is slow', () => {
  test.each<[string, (response: ServerResponse) => void]>([
    ['with the answer', () => undefined],
    [
      'with the body, of which a byte comes now and then',
      (response) => {
        response.writeHead(200, { ...VC, 'content-length': 16_384 });
        const drip = setInterval(() => response.write(Buffer.alloc(1)), 10);
        response.on('close', () => clearInterval(drip));
      },
    ],
  ])('%s', async (_, respond) => {
    vi.useRealTimers();
    server.respond = (_, response) => respond(response);
    const hasty = operatorsList(
      { url: server.url, id: LIST_ID, ttlSecs: 300, maxStaleSecs: 0, maxWaitMs: 2_000 },
      { log: recorder.log, observer: recorder, now: Date.now },
      250,
    );
    hasty.start();
    await recorder.fetched(2);
    expect([recorder.outcomes.at(-1), hasty.statusOf(7)]).toEqual(['timeout', 'unavailable']);
    expect(recorder.messages.join()).toContain('not accepted: it did not arrive within 250 ms');
    await hasty.close();
  });
});
