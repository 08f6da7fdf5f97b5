import { Buffer } from 'node:buffer';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Exchange } from '../../src/service/http/exchange.js';
import { BARE_HEAD, NotedWire } from '../support/noted-wire.js';

const HEAD = { ...BARE_HEAD, forwardedFor: '198.51.100.7' };

interface Setting {
  readonly isHead?: boolean;
  readonly isLeaving?: boolean;
  readonly hasBody?: boolean;
  readonly requestId?: string;
}

function open({ isHead = false, isLeaving = false, ...head }: Setting = {}) {
  const wire = new NotedWire();
  const ended: number[] = [];
  const owner = {
    isLeaving,
    bodyTimeoutMs: 2000,
    clientAddress: (peer: string, forwardedFor: string | null) => `${forwardedFor} over ${peer}`,
    ended: ({ status }: Exchange) => void ended.push(status),
    lineAnswered: () => undefined,
  };
  const exchange = new Exchange(wire, isHead, { ...HEAD, ...head }, 'verify', owner);
  return { wire, ended, exchange };
}

const piece = Buffer.alloc(10);
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('an exchange', () => {
  it('answers once, with what it was told', () => {
    const { wire, ended, exchange } = open();
    expect([exchange.isOver, exchange.status, exchange.clientAddress]).toEqual([
      false,
      0,
      '198.51.100.7 over 192.0.2.1',
    ]);
    exchange.answer(201, '{"a":1}', { headers: { Allow: 'POST' } });
    exchange.answer(200, '{}');
    exchange.refuse(400, 'no');
    expect(wire.done).toEqual(['write']);
    expect(wire.answers).toEqual([
      { status: 201, body: '{"a":1}', headers: { Allow: 'POST' }, isHead: false, closes: false },
    ]);
    expect([exchange.isOver, exchange.status, ended]).toEqual([true, 201, [201]]);
  });

  it('sends an answer in pieces no faster than they are taken, and others have their turn between two', async () => {
    const { wire, ended, exchange } = open({ requestId: 'r-1' });
    wire.hasRoom = false;
    exchange.stream('text/x', ['a', 'b', 'c'].values() as Iterator<string, void>);
    await nextTurn();
    expect(wire.done).toEqual(['begin 200 {"Content-Type":"text/x","X-Request-Id":"r-1"}', 'a']);
    wire.hasRoom = true;
    wire.drained();
    expect([wire.done.length, ended]).toEqual([3, []]);
    await nextTurn();
    await nextTurn();
    expect(wire.done.slice(2)).toEqual(['b', 'c', 'finish {"closes":false,"isHead":false}']);
    expect(ended).toEqual([200]);
  });

  it('asks for no further piece when the client has gone, and for none where only the head was asked for', async () => {
    const { wire, ended, exchange } = open();
    wire.hasRoom = false;
    exchange.stream('text/x', ['a', 'b'].values() as Iterator<string, void>);
    wire.gone();
    wire.drained();
    await nextTurn();
    expect([wire.done.slice(1), ended]).toEqual([['a'], [200]]);
    exchange.stream('text/x', ['b'].values() as Iterator<string, void>);
    const head = open({ isHead: true, isLeaving: true });
    head.exchange.stream('text/x', ['a'].values() as Iterator<string, void>);
    expect([wire.done.length, head.wire.done.slice(1)]).toEqual([
      2,
      ['finish {"closes":true,"isHead":true}'],
    ]);
  });

  it('refuses with an error in JSON', () => {
    const { wire, exchange } = open({ isHead: true });
    exchange.refuse(404, 'not "here"');
    expect(wire.answers).toEqual([
      { status: 404, body: '{"error":"not \\"here\\""}', headers: undefined, isHead: true, closes: false },
    ]);
  });

  it.each([
    [false, undefined, false],
    [false, true, true],
    [true, undefined, true],
  ])(
    'closes the connection if its owner leaves (%s) or the answer says so (%s)',
    (isLeaving, closes, expected) => {
      const { wire, exchange } = open({ isLeaving });
      exchange.answer(200, '{}', closes === undefined ? {} : { closes });
      expect(wire.answers).toMatchObject([{ closes: expected }]);
    },
  );

  it('carries a request id that the caller sent, or that was made', () => {
    const sent = open({ requestId: 'r-1' });
    sent.exchange.answer(200, '{}', { headers: { Allow: 'POST' } });
    expect([sent.exchange.knownRequestId, sent.wire.answers[0]?.headers]).toEqual([
      'r-1',
      { Allow: 'POST', 'X-Request-Id': 'r-1' },
    ]);
    const made = open();
    expect(made.exchange.knownRequestId).toBeNull();
    const id = made.exchange.requestId;
    expect([id.length > 12, made.exchange.requestId, made.exchange.knownRequestId]).toEqual([true, id, id]);
    made.exchange.answer(200, '{}');
    expect(made.wire.answers[0]?.headers).toEqual({ 'X-Request-Id': id });
  });

  it('is over when the client goes, and never touches the wire again', async () => {
    const { wire, ended, exchange } = open({ hasBody: true });
    exchange.ignoreBody();
    wire.gone();
    exchange.answer(200, '{}');
    wire.take(piece, false);
    wire.take(piece, true);
    wire.gone();
    await nextTurn();
    expect([wire.done, ended, exchange.isOver]).toEqual([['discard'], [0], true]);
  });
});

describe('an answer before the body', () => {
  // The time that its client has passes where a test says so.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  it('waits for the first piece, and keeps the connection if that is all', async () => {
    const { wire, ended, exchange } = open({ hasBody: true });
    exchange.answer(413, '{}');
    expect([wire.done, ended, exchange.isOver]).toEqual([['discard'], [413], true]);
    wire.take(piece, true);
    await nextTurn();
    expect(wire.done).toEqual(['discard', 'write']);
    wire.take(piece, true);
    await nextTurn();
    expect(wire.done).toHaveLength(2);
  });

  it('is not sent to a client that goes before the first piece', async () => {
    const { wire, ended, exchange } = open({ hasBody: true });
    exchange.answer(413, '{}');
    wire.gone();
    wire.take(piece, true);
    await nextTurn();
    expect([wire.done, ended]).toEqual([['discard'], [413]]);
  });

  it('is sent with the first of several pieces, and the connection is closed after the last one', async () => {
    const { wire, exchange } = open({ hasBody: true });
    exchange.answer(413, '{}');
    wire.take(piece, false);
    expect(wire.done).toEqual(['discard', 'write early']);
    wire.take(piece, false);
    await nextTurn();
    expect(wire.done).toHaveLength(2);
    wire.take(piece, true);
    // What was written in this turn is not sent yet.
    expect(wire.done).toHaveLength(2);
    await nextTurn();
    expect(wire.done).toEqual(['discard', 'write early', 'close']);
    wire.take(piece, true);
    await nextTurn();
    expect(wire.done).toHaveLength(3);
  });

  it('is sent at once while the body comes, and is not sent again', async () => {
    const { wire, exchange } = open({ hasBody: true });
    exchange.ignoreBody();
    wire.take(piece, false);
    exchange.answer(200, '{}');
    wire.take(piece, false);
    expect([wire.done, wire.answers.length]).toEqual([['discard', 'write early'], 1]);
    wire.gone();
    wire.take(piece, true);
    await nextTurn();
    expect(wire.done).toHaveLength(2);
  });

  it('is sent as any other once the whole body has come', () => {
    const { wire, exchange } = open({ hasBody: true });
    exchange.ignoreBody();
    wire.take(piece, true);
    exchange.answer(200, '{}');
    expect(wire.done).toEqual(['discard', 'write']);
  });

  it('reads no more than 16 MiB of what is still sent', async () => {
    const { wire, exchange } = open({ hasBody: true });
    exchange.answer(413, '{}');
    const mebibyte = Buffer.alloc(1024 * 1024);
    for (let count = 0; count < 16; count++) wire.take(mebibyte, false);
    await nextTurn();
    expect(wire.done).not.toContain('close');
    wire.take(piece, false);
    wire.take(piece, false);
    await nextTurn();
    expect(wire.done).toEqual(['discard', 'write early', 'close']);
  });

  it('reads no more than 65,536 pieces of what is still sent', async () => {
    const { wire, exchange } = open({ hasBody: true });
    exchange.answer(413, '{}');
    for (let count = 0; count < 65_536; count++) wire.take(Buffer.alloc(1), false);
    await nextTurn();
    expect(wire.done).not.toContain('close');
    wire.take(Buffer.alloc(1), false);
    await nextTurn();
    expect(wire.done).toEqual(['discard', 'write early', 'close']);
  });

  it('closes the connection of a client that sends nothing more', () => {
    const { wire, exchange } = open({ hasBody: true });
    exchange.answer(413, '{}');
    wire.take(piece, false);
    vi.advanceTimersByTime(1999);
    expect(wire.done).not.toContain('close');
    vi.advanceTimersByTime(1);
    expect(wire.done.at(-1)).toBe('close');
  });
});
