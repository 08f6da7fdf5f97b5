import { Buffer } from 'node:buffer';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Incoming, refusal, type Answer } from '../../src/service/http/incoming.js';
import { NotedWire, openServer, requestOf, type Sent } from '../support/noted-wire.js';

const piece = Buffer.alloc(10);
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
const BODY = ['content-length', '1000000'] as const;

/** A request whose answer the test gives. */
function open(sent: Sent = {}, isLeaving = false) {
  const wire = new NotedWire();
  const owner = {
    ...{ gatekeeper: { isLeaving }, bodyTimeoutMs: 2000, report: () => undefined },
    clientAddress: (peer: string, forwardedFor: string | null) => `${forwardedFor} over ${peer}`,
  };
  const incoming = new Incoming(wire, requestOf(sent), sent.path ?? '/', { endpoint: 'verify' }, owner);
  const answer = (status: number, body: Answer['body'] = '{}', more: Partial<Answer> = {}) =>
    incoming.answer({ status, body, ...more });
  return { wire, incoming, answer };
}

describe('the head of a request', () => {
  it('has what a route reads, in the order sent, and nothing else', () => {
    const { incoming } = open({
      ...{ method: 'POST', path: '/a', query: 'b' },
      headers: [
        ['content-length', '12'],
        ['content-type', 'application/json'],
        ['content-type', 'text/plain'],
        ['x-forwarded-for', '192.0.2.1, 192.0.2.2'],
        ['x-forwarded-for', '192.0.2.3'],
        ['x-request-id', 'r 1'],
        ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
        ['content-digest', 'x'],
      ],
    });
    expect(incoming).toMatchObject({
      ...{ method: 'POST', path: '/a', query: 'b', contentLength: 12, hasBody: true, gate: null },
      // No request id that cannot be logged.
      knownRequestId: null,
      ...{
        framingFault: null,
        parent: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
      },
      clientAddress: '192.0.2.1, 192.0.2.2,192.0.2.3 over 192.0.2.1',
    });
    expect(['content-type', 'content-digest', 'origin'].map((name) => incoming.header(name))).toEqual([
      ...['application/json,text/plain', null, null],
    ]);
    expect(open().incoming).toMatchObject({ contentLength: 0, hasBody: false, framingFault: null });
  });
});

describe('an answer', () => {
  it('is given once, as it was told', () => {
    const { wire, incoming, answer } = open();
    expect([incoming.isOver, incoming.status]).toEqual([false, 0]);
    void answer(201, '{"a":1}', { headers: { Allow: 'POST' } });
    void answer(200);
    expect(wire.answers).toEqual([
      { status: 201, body: '{"a":1}', headers: { Allow: 'POST' }, isHead: false, closes: false },
    ]);
    expect([incoming.isOver, incoming.status, wire.done]).toEqual([true, 201, ['write']]);
    const head = open({ method: 'HEAD' });
    void head.incoming.answer(refusal(404, 'not "here"'));
    expect(head.wire.answers).toMatchObject([{ body: '{"error":"not \\"here\\""}', isHead: true }]);
  });

  it.each([
    [false, {}, 'keep-alive', false],
    [false, { closes: true }, 'keep-alive', true],
    [true, {}, 'keep-alive', true],
    [false, {}, 'te , Close', true],
    [false, {}, 'closed', false],
  ])(
    'closes the connection if its owner leaves (%s), with %j and Connection: %s',
    (isLeaving, more, says, closes) => {
      const { wire, answer } = open({ headers: [['connection', says]] }, isLeaving);
      void answer(200, '{}', more);
      expect(wire.answers).toMatchObject([{ closes }]);
    },
  );

  it('in pieces keeps the request until they are taken, has the id, and to a HEAD none', async () => {
    const { wire, incoming, answer } = open({ headers: [['x-request-id', 'r-1']] });
    const release = wire.hold();
    const sent = answer(200, ['a', 'b', 'c']);
    await nextTurn();
    const head = { status: 200, headers: { 'X-Request-Id': 'r-1' }, isHead: false, closes: false };
    expect(wire.answers).toEqual([{ ...head, body: 'abc' }]);
    expect(incoming.isOver).toBe(true);
    release();
    await sent;
    const { wire: other, answer: answerHead } = open({ method: 'HEAD' }, true);
    await answerHead(200, ['a']);
    expect(other.answers).toMatchObject([{ body: '', isHead: true, closes: true }]);
  });

  it('is not given when the client has gone, and the wire is never touched again', async () => {
    const { wire, incoming, answer } = open({ headers: [BODY] });
    incoming.ignoreBody();
    wire.gone();
    void answer(200);
    wire.take(piece, false);
    wire.take(piece, true);
    wire.gone();
    await nextTurn();
    expect([wire.done, incoming.isOver, incoming.clientAddress]).toEqual([
      ['receive'],
      true,
      'null over unknown',
    ]);
  });
});

describe('an answer before the body', () => {
  // The time that its client has passes where a test says so.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
  afterEach(() => void vi.useRealTimers());

  function refused() {
    const opened = open({ headers: [BODY] });
    opened.incoming.ignoreBody();
    void opened.answer(413);
    return opened.wire;
  }

  it('waits until the body has come, and keeps the connection', () => {
    const wire = refused();
    wire.take(piece, false);
    expect(wire.done).toEqual(['receive']);
    wire.take(piece, true);
    expect(wire.done).toEqual(['receive', 'write']);
    expect(wire.answers).toMatchObject([{ status: 413, closes: false }]);
    wire.take(piece, true);
    expect([wire.done.length, vi.getTimerCount()]).toEqual([2, 0]);
  });

  it('is not sent to a client that goes before', () => {
    const wire = refused();
    wire.take(piece, false);
    wire.gone();
    wire.take(piece, true);
    expect([wire.done, vi.getTimerCount()]).toEqual([['receive'], 0]);
  });

  it('waits also for a body of which some has come', () => {
    const { wire, incoming, answer } = open({ headers: [BODY] });
    incoming.ignoreBody();
    wire.take(piece, false);
    void answer(200);
    expect(wire.done).toEqual(['receive']);
    wire.take(piece, true);
    expect(wire.done).toEqual(['receive', 'write']);
  });

  it('is sent as any other once the whole body has come', () => {
    const { wire, incoming, answer } = open({ headers: [BODY] });
    incoming.ignoreBody();
    wire.take(piece, true);
    void answer(200);
    expect(wire.done).toEqual(['receive', 'write']);
  });

  it.each([
    ['128 MiB', 128, Buffer.alloc(1024 * 1024)],
    ['65,536 pieces', 65_536, Buffer.alloc(1)],
  ])('comes before the rest after %s, and closes', (_, count, bytes) => {
    const wire = refused();
    for (let at = 0; at < count; at++) wire.take(bytes, false);
    expect(wire.done).toEqual(['receive']);
    wire.take(bytes, false);
    expect([wire.done, wire.answers[0]?.closes]).toEqual([['receive', 'write'], true]);
  });

  it('comes after as long as a body may take, and closes', () => {
    const wire = refused();
    wire.take(piece, false);
    vi.advanceTimersByTime(1999);
    expect(wire.done).toEqual(['receive']);
    vi.advanceTimersByTime(1);
    expect([wire.done, wire.answers[0]?.closes]).toEqual([['receive', 'keep open', 'write'], true]);
  });

  it('comes at once where the body is announced to be longer than that, and closes', () => {
    const { wire, answer } = open({ headers: [['content-length', String(128 * 1024 * 1024 + 1)]] });
    void answer(413);
    expect([wire.done, wire.answers[0]?.closes]).toEqual([['write'], true]);
  });
});

describe('a body', () => {
  /** A route that answers with what it reads. */
  const echo = (maxBytes = 100_000) => ({
    serve: async (incoming: Incoming, ticket: Parameters<Incoming['read']>[1]) => {
      const body = await incoming.read(maxBytes, ticket);
      return { status: 200, body: typeof body === 'string' ? body : body.toString() };
    },
  });

  it('counts while it comes, and no longer when its client goes', async () => {
    const { ask, gatekeeper, server, reported } = openServer();
    const wire = ask(echo(), { headers: [['content-length', '20']] });
    wire.take(piece, false);
    expect([gatekeeper.bodyBytes, server.open]).toEqual([10 + 512, 1]);
    wire.gone();
    await nextTurn();
    expect([gatekeeper.bodyBytes, server.open, wire.answers]).toEqual([0, 0, []]);
    expect(reported).toMatchObject([{ status: 0 }]);
  });

  it('is refused where there is no memory for it', async () => {
    const { ask } = openServer({ maxBodyMemory: 64 * 1024 });
    const wire = ask(echo(), { headers: [['transfer-encoding', 'chunked']] });
    wire.take(Buffer.alloc(20_000), false);
    wire.take(piece, true);
    await nextTurn();
    expect(wire.answers).toMatchObject([{ body: 'overloaded' }]);
  });

  it('that nobody reads is discarded; what throws is a 500, and the service goes on', async () => {
    const { ask, lines, server } = openServer();
    const thrown = [
      () => {
        throw new Error('planted');
      },
      () => Promise.reject(new Error('planted')),
    ];
    for (const serve of thrown) {
      const wire = ask({ serve }, { body: 'x' });
      await nextTurn();
      expect([wire.done, wire.answers[0]?.status]).toEqual([['receive', 'write'], 500]);
    }
    expect([server.open, lines.map(({ msg }) => msg)]).toEqual([
      0,
      Array(2).fill('a request failed inside the service'),
    ]);
  });
});
