import { Buffer } from 'node:buffer';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Configuration } from '../../src/service/configuration/configuration.js';
import { answerBatch, maxBatchBytesOf } from '../../src/service/http/batch.js';
import type { Answer, Asker, Exchange } from '../../src/service/http/exchange.js';
import { answerTo, type BodyHandler, type Fault } from '../../src/service/http/body-handler.js';
import { MAX_TYPICAL_BYTES, type Ticket } from '../../src/service/load/gatekeeper.js';
import { RateLimit } from '../../src/service/load/rate-limit.js';
import { eventually } from '../support/eventually.js';
import { openServer, type NotedWire } from '../support/noted-wire.js';

const TYPE = 'application/x-ndjson';
const KIB = 1024;
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

type Take = (asked: Asker, body: Buffer) => Answer | null | Promise<Answer | null>;
const ok = (body: string): Answer => ({ status: 200, body });
const echo: Take = (_, body) => ok(`{"got":${JSON.stringify(String(body))}}`);

/** A service that has batches judged by the test. */
function serve(changes: Partial<Configuration> = {}, limit: RateLimit | null = null) {
  const service = openServer(changes);
  const { configuration } = service;
  const faults = () => Object.entries(service.metrics.rejections).filter(([, count]) => count > 0);
  /** Asks with a body in one piece, or in two. */
  const ask = (
    body: string,
    take = echo,
    headers: readonly [string, string][] = [],
    type: string | null = TYPE,
  ) => {
    const refuse = (fault: Fault) => {
      service.metrics.countRejection('verify', fault);
      return answerTo(fault, configuration);
    };
    const judge: BodyHandler = {
      maxBytes: configuration.maxBodyBytes,
      answer: async (asked, line) => take(asked, line),
      refuse: (_, fault) => refuse(fault),
      overloaded: () => refuse('overloaded'),
    };
    const batches = {
      maxBytes: maxBatchBytesOf(configuration),
      answer: (exchange: Exchange, ticket: Ticket) =>
        answerBatch(exchange, ticket, judge, { ...service, limit }),
    };
    const cut = body.length > MAX_TYPICAL_BYTES ? body.length / 2 : body.length;
    const wire = service.ask(
      { serve: judge, batches },
      {
        headers: [...(type === null ? [] : [['content-type', type] as const]), ...headers],
        body: cut === body.length ? body : [body.slice(0, cut), body.slice(cut)],
      },
    );
    return { wire, lines: () => linesOf(wire) };
  };
  return { ...service, ask, faults };
}

/** A judge whose answers the test gives. */
function waitingJudge() {
  const asked: { readonly asked: Asker; readonly answer: (answer: Answer) => void }[] = [];
  const take: Take = (one) => new Promise((answer) => asked.push({ asked: one, answer }));
  return { asked, take };
}

/** A line may have to wait for its turn. */
async function linesOf({ answers }: NotedWire): Promise<unknown[]> {
  await eventually(() => expect(answers).toHaveLength(1));
  const [{ status, body, headers } = { status: 0, body: '', headers: undefined }] = answers;
  const text = String(body);
  expect([status, headers?.['Content-Type'], text.at(-1)]).toEqual([200, TYPE, '\n']);
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
}

const OVERLOADED = { error: 'overloaded', status: 503, retry_after: 1 };

describe('the lines of a batch', () => {
  it.each([
    ['\n', ['']],
    ['a', ['a']],
    ['a\n', ['a']],
    ['a\r\nb', ['a\r', 'b']],
    ['\n\na\n\n', ['', '', 'a', '']],
    ['a\u2028b\rc', ['a\u2028b\rc']],
  ])('of %j', async (text, lines) => {
    expect(await serve().ask(text).lines()).toEqual(lines.map((got) => ({ got })));
  });

  it('are answered in their order, whatever the order of the answers, with what alone the status would say', async () => {
    const { ask, reported } = serve();
    const { asked, take } = waitingJudge();
    const { wire, lines } = ask('a\nb\nc\n', take, [
      ['x-request-id', 'r'],
      ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
    ]);
    await eventually(() => expect(asked).toHaveLength(3));
    expect(asked[2]?.asked).toMatchObject({
      endpoint: 'verify',
      parent: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
      address: null,
      isOver: false,
    });
    expect(asked.map(({ asked: { requestId } }) => requestId)).toEqual(['r-1', 'r-2', 'r-3']);
    asked[2]?.answer({ status: 400, body: '{"error":"X","detail":"y"}' });
    await nextTurn();
    asked[1]?.answer(ok('{"valid":true}'));
    await nextTurn();
    expect(wire.answers).toHaveLength(0);
    asked[0]?.answer({
      ...{ status: 503, body: '{"error":"later"}', headers: { 'Retry-After': '7' }, closes: true },
    });
    expect(await lines()).toEqual([
      { error: 'later', status: 503, retry_after: 7 },
      { valid: true },
      { error: 'X', detail: 'y', status: 400 },
    ]);
    expect(wire.answers[0]).toMatchObject({ closes: false, headers: { 'X-Request-Id': 'r' } });
    // The lines are reported, and not the batch.
    expect(reported.map(({ status, knownRequestId }) => [status, knownRequestId])).toEqual([
      [400, 'r-3'],
      [200, 'r-2'],
      [503, 'r-1'],
    ]);
  });
});

describe('a batch is refused as a whole', () => {
  it.each<[string, string, [string, string][], number, RegExp]>([
    ['another parameter', `${TYPE};charset=latin1`, [], 415, /charset=latin1/],
    ['two types', `application/json,${TYPE}`, [], 415, /expected application\/x-ndjson/],
    ['a coding', TYPE, [['content-encoding', 'gzip']], 415, /Content-Encoding/],
    ['a bundle for no line', TYPE, [['x-drs-bundle', 'e30']], 400, /X-DRS-Bundle/],
    ['a long type', `${TYPE};a=${'b'.repeat(99)}`, [], 415, /is \\"application\/x-ndjson;a=b{57}\\",/],
  ])('for %s', async (_, type, headers, status, says) => {
    const { wire } = serve().ask('{}\n', echo, headers, type);
    await nextTurn();
    expect(wire.answers).toMatchObject([{ status, body: expect.stringMatching(says) as string }]);
  });

  it.each<[string, string, Partial<Configuration>, number, string, RegExp]>([
    ['no line', '', {}, 400, 'malformed', /no line/],
    ['too many', '\n'.repeat(1025), {}, 413, 'too_large', /more than 1024 lines/],
    [
      'too much of the memory',
      'x'.repeat(100 * KIB),
      { maxBodyMemory: 8 * 100 * KIB - 1 },
      413,
      'too_large',
      /an eighth of MAX_BODY_MEMORY.*more than 65536 pieces/,
    ],
    ['no room', '1', { maxPending: 0 }, 503, 'overloaded', /overloaded/],
  ])('for %s', async (_, body, changes, status, fault, says) => {
    const { ask, faults } = serve(changes);
    const { wire } = ask(body);
    await nextTurn();
    expect(wire.answers).toMatchObject([{ status, body: expect.stringMatching(says) as string }]);
    expect(faults()).toEqual([[fault, 1]]);
  });

  it('but not for a type in another case, or with its charset', async () => {
    for (const type of ['Application/X-NDJSON', `${TYPE} ; charset="UTF-8"`])
      expect(await serve().ask('1\n2', echo, [], type).lines()).toEqual([{ got: '1' }, { got: '2' }]);
    // Any other type is that of a single request.
    const { wire } = serve().ask('1\n2', echo, [], 'application/json-seq; a=b');
    await nextTurn();
    expect(wire.answers).toMatchObject([{ body: '{"got":"1\\n2"}' }]);
  });
});

describe('each line of a batch', () => {
  it('has the limits of a single request: its size, its rate', async () => {
    // However long the lines take, no more of them have paid.
    const { ask } = serve({ maxBodyBytes: 3 }, new RateLimit(2, 0, 3600));
    expect(await ask('1\n4444\n333\n1\n').lines()).toEqual([
      // The request itself has paid for it.
      { got: '1' },
      { error: expect.stringContaining('MAX_BODY_BYTES (3)') as string, status: 413 },
      { got: '333' },
      { error: 'rate_limited', status: 429, retry_after: 1 },
    ]);
  });

  it('waits for its own turn, and is refused alone where there is no more room', async () => {
    const { ask, gatekeeper, signatures } = serve({ maxPending: 4 });
    signatures.waitMs = 100;
    const { wire, lines } = ask('1\n2\n3\n4\n');
    await nextTurn();
    expect([wire.answers.length, gatekeeper.pending]).toEqual([0, 2]);
    signatures.waitMs = 0;
    expect(await lines()).toEqual([{ got: '1' }, { got: '2' }, OVERLOADED, OVERLOADED]);
  });

  it('is dropped if the client goes before its turn, and nothing of it is kept', async () => {
    const { ask, gatekeeper, signatures, faults } = serve();
    signatures.waitMs = 100;
    const taken: unknown[] = [];
    const { wire } = ask(
      `1\n2\n${' '.repeat(MAX_TYPICAL_BYTES + 1)}\n`,
      (_, body) => (taken.push(body), null),
    );
    await eventually(() => expect([gatekeeper.pending, gatekeeper.readingClients]).toEqual([2, 1]));
    wire.gone();
    signatures.waitMs = 0;
    await eventually(() => expect([gatekeeper.pending, gatekeeper.bodyBytes]).toEqual([0, 0]));
    // The large one had its turn before.
    expect([taken.length <= 1, wire.answers, faults(), gatekeeper.readingClients]).toEqual([true, [], [], 0]);
  });

  it('that is large has a turn of its own, and lets others go between', async () => {
    const { ask } = serve();
    const order: string[] = [];
    const note =
      (name: string): Take =>
      () => {
        order.push(name);
        return ok('{}');
      };
    const large = ' '.repeat(MAX_TYPICAL_BYTES + 1);
    const { wire } = ask(`${large}\n1\n${large}`, note('batch'));
    ask(large, note('single'), [], null);
    await eventually(() => expect(wire.answers).toHaveLength(1));
    expect(order).toEqual(['batch', 'batch', 'single', 'batch']);
  });

  it('waits for those before it once so much of a batch is under way', async () => {
    const { ask } = serve({ maxBodyMemory: 512 * KIB });
    const { asked, take } = waitingJudge();
    // Each counts as 1 KiB.
    ask('1\n2\n3\n4\n5\n6\n7\n', take);
    await eventually(() => expect(asked).toHaveLength(4));
    for (const { answer } of asked.slice(1)) answer(ok('{}'));
    await nextTurn();
    expect(asked).toHaveLength(4);
    asked[0]?.answer(ok('{}'));
    await eventually(() => expect(asked).toHaveLength(7));
  });

  it('waits with a larger one before it, but not with others', async () => {
    const { ask, gatekeeper } = serve();
    const { asked, take } = waitingJudge();
    const largest = ' '.repeat(MAX_TYPICAL_BYTES);
    ask([1, largest, largest, `${largest} `, `${largest} `].join('\n'), take);
    await eventually(() => expect(asked).toHaveLength(4));
    await nextTurn();
    expect([asked.length, gatekeeper.pending]).toEqual([4, 4]);
    for (const { answer } of [...asked]) answer(ok('{}'));
    await eventually(() => expect(asked).toHaveLength(5));
  });

  it('that throws is answered 500, and no other', async () => {
    const { ask } = serve();
    const { lines } = ask('1\nplanted\n3', (_, body) => {
      if (body.toString() === 'planted') throw new Error('planted');
      return ok('{}');
    });
    expect(await lines()).toEqual([{}, { error: 'internal', status: 500 }, {}]);
  });
});

describe('the memory of a batch', () => {
  afterEach(() => void vi.useRealTimers());

  it.each([
    ['in one piece', 1, 0],
    ['in two', 40_000, 2 * 512],
  ])('that came %s counts until its client has taken the answer', async (_, spaces, pieces) => {
    const { ask, gatekeeper } = serve();
    const line = ' '.repeat(spaces);
    const { wire } = ask(`${line}\n${line}`, () => ok('{}'));
    const release = wire.hold();
    await eventually(() => expect(wire.done.at(-1)).toBe('stream'));
    expect(gatekeeper.bodyBytes).toBe(2 * spaces + 1 + 2 * KIB + pieces);
    release();
    await nextTurn();
    expect(gatekeeper.bodyBytes).toBe(0);
  });

  it('does not count for ever: the connection is cut after as long as sending may take', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { ask, gatekeeper } = serve();
    const { wire } = ask('1');
    const release = wire.hold();
    await nextTurn();
    vi.advanceTimersByTime(9999);
    expect(wire.done).not.toContain('cut');
    vi.advanceTimersByTime(1);
    expect(wire.done.at(-1)).toBe('cut');
    // A wire that is cut says that the client has gone.
    wire.gone();
    release();
    await nextTurn();
    expect(gatekeeper.bodyBytes).toBe(0);
    const read = ask('1').wire;
    await nextTurn();
    vi.advanceTimersByTime(20_000);
    expect(read.done).not.toContain('cut');
  });

  it('counts towards the share of its client', async () => {
    const { ask, gatekeeper } = serve({ maxBodyMemory: 16 * KIB });
    // A client that is alone may hold a quarter.
    for (let time = 0; time < 3; time++) {
      const { wire, lines } = ask('1\n2\n3');
      wire.hold();
      expect(await lines()).toHaveLength(3);
    }
    const { wire } = ask('1\n2\n3');
    await nextTurn();
    expect(wire.answers[0]?.status).toBe(503);
    // For short answers, at most a sixteenth of all.
    expect(gatekeeper.bodyBytes).toBe(3 * (5 + KIB));
  });

  it('has room for answers that are longer than their lines', async () => {
    const { ask, gatekeeper } = serve();
    const answer = `{"got":"${'ж'.repeat(10 * KIB)}"}`;
    const { wire, lines } = ask('1\n2', () => ok(answer));
    wire.hold();
    await lines();
    expect(gatekeeper.bodyBytes).toBe(3 + 4 * (answer.length + 1));
  });
});
