import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { invoke, makeChain, NOW } from '../support/chain.js';
import { ListServer } from '../revocation/list-server.js';
import { LIST_ID, listWith } from '../revocation/lists.js';

let server: ListServer;
beforeEach(async () => {
  server = await ListServer.start();
  vi.useFakeTimers({ toFake: ['Date'], now: NOW * 1000 });
});
afterEach(async () => {
  vi.useRealTimers();
  await server.close();
});

describe('a verification that waits for the status list', () => {
  it.each([
    ['the end of its receipt', { exp: NOW + 100 }, 101, 'EXPIRED'],
    ['the last second of its receipt', { exp: NOW + 100 }, 100, null],
    ['the last second of its invocation', { exp: NOW + 1000 }, 900, null],
    ['the end of its invocation', { exp: NOW + 1000 }, 901, 'INVOCATION_STALE'],
  ])('checks the time again: until %s', async (_, claims, waitedSecs, code) => {
    const answered = new Promise<() => void>((resolve) => {
      server.respond = (_request, response) => {
        resolve(() => {
          response.writeHead(200, { 'content-type': 'application/vc' }).end(listWith([]));
        });
      };
    });
    const verifier = createVerifier({
      statusListBaseUrl: server.url,
      statusListId: LIST_ID,
      statusFetchTimeoutMs: 10_000,
      replayProtection: 'memory',
      workerThreads: 0,
    });
    const verdict = verifier.verify(invoke(makeChain(1, { 0: { drs_status_list_index: 7, ...claims } })));
    const answer = await answered;
    // By then the verification has found everything in order, and waits.
    await setImmediate();
    vi.setSystemTime((NOW + waitedSecs) * 1000);
    answer();
    expect((await verdict).error?.code ?? null).toBe(code);
    await verifier.close();
  });
});
