import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Exchange, type ExchangeOwner } from '../../src/service/http/exchange.js';
import type { TakePiece, Wire } from '../../src/service/http/front-end.js';
import { GateHead } from '../../src/service/http/request-head.js';

const HEAD = {
  contentLength: 1_000_000,
  hasBody: true,
  contentType: null,
  contentEncoding: null,
  hasBundle: false,
  framingFault: null,
  isLast: false,
  origin: null,
  fetchSite: null,
  requestId: null,
  traceparent: null,
  forwardedFor: null,
  gate: new GateHead(),
};
const TIMEOUT_MS = 10_000;
const PIECE = Buffer.alloc(65_536);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A request that is refused after the first piece of its body. */
function refused() {
  const done: string[] = [];
  let take: TakePiece = () => undefined;
  let gone = () => {};
  const wire: Wire = {
    remoteAddress: () => '192.0.2.1',
    onAborted: (callback) => void (gone = callback),
    receive: (callback) => void (take = callback),
    keepOpen: () => {},
    write: ({ status }) => void done.push(`write ${status}`),
    writeEarly: ({ status }) => void done.push(`early ${status}`),
    begin: () => {},
    writePiece: () => true,
    finish: () => {},
    close: () => void done.push('close'),
    cut: () => void done.push('cut'),
  };
  const owner: ExchangeOwner = {
    isLeaving: false,
    bodyTimeoutMs: TIMEOUT_MS,
    clientAddress: (peer) => peer,
    ended: () => {},
    lineAnswered: () => {},
  };
  new Exchange(wire, false, HEAD, 'verify', owner).refuse(413, 'too large');
  take(PIECE, false);
  expect(done).toEqual(['early 413']);
  return { done, send: (isLast = false) => take(PIECE, isLast), disconnect: () => gone() };
}

test('a client that is refused while it sends may go on for as long as a body may take', () => {
  const { done, send } = refused();
  vi.advanceTimersByTime(TIMEOUT_MS - 1);
  send();
  vi.advanceTimersByTime(0);
  expect(done).toEqual(['early 413']);
  vi.advanceTimersByTime(1);
  expect(done).toEqual(['early 413', 'close']);
});

test('its connection is closed when the body has come, after what was written in this turn', () => {
  const { done, send } = refused();
  send(true);
  expect(done).toEqual(['early 413']);
  vi.advanceTimersByTime(TIMEOUT_MS);
  expect(done).toEqual(['early 413', 'close']);
});

test('its connection is closed after 16 MiB', () => {
  const { done, send } = refused();
  for (let piece = 1; piece < 256; piece++) send();
  vi.advanceTimersByTime(0);
  expect(done).toEqual(['early 413']);
  send();
  vi.advanceTimersByTime(0);
  expect(done).toEqual(['early 413', 'close']);
});

test('nothing is written to a client that has gone', () => {
  const { done, send, disconnect } = refused();
  disconnect();
  send(true);
  vi.advanceTimersByTime(TIMEOUT_MS);
  expect(done).toEqual(['early 413']);
});
