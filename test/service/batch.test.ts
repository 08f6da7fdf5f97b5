import { Buffer } from 'node:buffer';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { splitLines } from '../../src/service/http/batch.js';
import { BatchIntake, type QuestionSink } from '../../src/service/http/batch-intake.js';
import { BodyIntake, refuseBody } from '../../src/service/http/body-intake.js';
import { Exchange, type Answered, type Question } from '../../src/service/http/exchange.js';
import { Admission, MAX_TYPICAL_BYTES } from '../../src/service/load/admission.js';
import { Backlog } from '../../src/service/load/backlog.js';
import { RateLimit } from '../../src/service/load/rate-limit.js';
import { eventually } from '../support/eventually.js';
import { BARE_HEAD, NotedWire } from '../support/noted-wire.js';
import { STILL_LOOP } from './still-loop.js';

const TYPE = 'application/x-ndjson';
const DEFAULTS = readConfiguration({});
const KIB = 1024;

/** A service without routes: what its lines are answered with is up to the test. */
function serve(changes: Partial<typeof DEFAULTS> = {}, limit: RateLimit | null = null) {
  const configuration = { ...DEFAULTS, ...changes };
  const signatures = { waitMs: 0 };
  const admission = new Admission(configuration, new Backlog(configuration, signatures, STILL_LOOP));
  const log = pino({ level: 'silent' });
  const intake = new BatchIntake(
    { admission, configuration },
    new BodyIntake({ admission, configuration, log }),
  );
  const reported: Answered[] = [];
  const owner = {
    ...{ isLeaving: false, bodyTimeoutMs: 10_000, clientAddress: (peer: string) => peer },
    ...{ ended: () => undefined, lineAnswered: (line: Answered) => void reported.push(line) },
  };
  const answerAll: QuestionSink = (question, body) => {
    if (Buffer.isBuffer(body)) question.answer(200, `{"got":${JSON.stringify(String(body))}}`);
    else refuseBody(question, body, configuration);
  };
  /** Asks with a body in one piece, or in two. */
  const ask = (body: Buffer | string, sink = answerAll, head: Partial<typeof BARE_HEAD> | object = {}) => {
    const wire = new NotedWire();
    const bytes = Buffer.from(body);
    const whole = { ...BARE_HEAD, hasBody: true, contentLength: bytes.length, contentType: TYPE, ...head };
    const exchange = new Exchange(wire, false, whole, 'verify', owner);
    intake.read(exchange, whole, limit, sink);
    const cut = bytes.length > MAX_TYPICAL_BYTES ? bytes.length / 2 : bytes.length;
    wire.take(bytes.subarray(0, cut), cut === bytes.length);
    if (cut < bytes.length) wire.take(bytes.subarray(cut), true);
    // The front end uses its memory again.
    bytes.fill(0);
    return { wire, exchange, lines: () => linesOf(wire) };
  };
  return { admission, signatures, reported, ask };
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
    ['', []],
    ['\n', ['']],
    ['a', ['a']],
    ['a\n', ['a']],
    ['a\r\nb', ['a\r', 'b']],
    ['\n\na\n\n', ['', '', 'a', '']],
    ['a\u2028b\rc', ['a\u2028b\rc']],
  ])('of %j', (text, lines) => {
    expect(splitLines(Buffer.from(text), 9)?.map(String)).toEqual(lines);
  });

  it('are no more than allowed, and one more is found without looking further', () => {
    expect(splitLines(Buffer.from('a\nb\n'), 2)).toHaveLength(2);
    expect(splitLines(Buffer.from('a\nb\nc'), 2)).toBeNull();
  });

  it('are answered in their order, whatever the order of the answers, with what alone the status would say', async () => {
    const { ask, reported } = serve();
    const asked: Question[] = [];
    const head = { requestId: 'r', traceparent: 't' };
    const { wire, exchange, lines } = ask('a\nb\nc\n', (question) => void asked.push(question), head);
    await eventually(() => expect(asked).toHaveLength(3));
    exchange.address = '192.0.2.7';
    const { startedAt } = exchange;
    expect(asked[2]).toMatchObject({ endpoint: 'verify', traceparent: 't', address: '192.0.2.7', startedAt });
    expect(asked.map(({ requestId }) => requestId)).toEqual(['r-1', 'r-2', 'r-3']);
    asked[2]?.answer(400, '{"error":"X","detail":"y"}');
    asked[1]?.answer(200, '{"valid":true}');
    asked[1]?.answer(200, '{"valid":"twice"}');
    expect([wire.answers.length, asked[1]?.isOver, asked[0]?.isOver]).toEqual([0, true, false]);
    expect(exchange.isBatch).toBe(false);
    asked[0]?.answer(503, '{"error":"later"}', { headers: { 'Retry-After': '7' }, closes: true });
    expect(await lines()).toEqual([
      { error: 'later', status: 503, retry_after: 7 },
      { valid: true },
      { error: 'X', detail: 'y', status: 400 },
    ]);
    expect(wire.answers[0]).toMatchObject({ closes: false, headers: { 'X-Request-Id': 'r' } });
    expect(reported.map(({ status, knownRequestId }) => [status, knownRequestId])).toEqual([
      [400, 'r-3'],
      [200, 'r-2'],
      [503, 'r-1'],
    ]);
    expect(exchange.isBatch).toBe(true);
  });

  it('have no request id where nobody asked for one', async () => {
    const { ask, reported } = serve();
    await ask('a').lines();
    expect(reported.map(({ knownRequestId }) => knownRequestId)).toEqual([null]);
  });
});

describe('a batch is refused as a whole', () => {
  it.each<[string, object, number, RegExp]>([
    ['another parameter', { contentType: `${TYPE};charset=latin1` }, 415, /charset=latin1/],
    ['two types', { contentType: `application/json,${TYPE}` }, 415, /expected application\/x-ndjson/],
    ['a coding', { contentEncoding: 'gzip' }, 415, /Content-Encoding/],
    ['a bundle for no line', { hasBundle: true }, 400, /X-DRS-Bundle/],
    [
      'a long type',
      { contentType: `${TYPE};a=${'b'.repeat(99)}` },
      415,
      /is \\"application\/x-ndjson;a=b{57}\\",/,
    ],
  ])('for %s', (_, head, status, says) => {
    const { wire } = serve().ask('{}\n', undefined, head);
    expect(wire.answers).toMatchObject([{ status, body: expect.stringMatching(says) as string }]);
  });

  it('for no line, for too many, for too many bytes, and if there are no batches', () => {
    const statusOf = (body: string, changes = {}) =>
      serve(changes)
        .ask(body)
        .wire.answers.map(({ status, body: says }) => [status, says]);
    expect(statusOf('')).toEqual([[400, expect.stringContaining('no line')]]);
    expect(statusOf('\n\n\n', { maxBatch: 2 })).toEqual([[413, expect.stringContaining('MAX_BATCH (2)')]]);
    const large = 'x'.repeat(100 * KIB);
    const says = expect.stringMatching(/MAX_BATCH_BYTES.*more than 65536 pieces/) as string;
    expect(statusOf(large, { maxBatchBytes: 100 * KIB - 1 })).toEqual([[413, says]]);
    expect(statusOf(large, { maxBodyMemory: 8 * 100 * KIB - 1 })).toEqual([[413, says]]);
    expect(statusOf('{}', { maxBatch: 0 })).toEqual([[415, expect.stringContaining('MAX_BATCH is 0')]]);
  });

  it('and for what, for the metrics', () => {
    const faultOf = (body: string, changes = {}, isDraining = false) => {
      const { admission, ask } = serve(changes);
      admission.isDraining = isDraining;
      const faults: unknown[] = [];
      ask(body, (_, fault) => void faults.push(fault));
      return faults;
    };
    expect(faultOf('')).toMatchObject([{ reason: 'malformed' }]);
    expect(faultOf('1', { maxBatch: 0 })).toMatchObject([{ reason: 'malformed' }]);
    expect(faultOf('1\n2', { maxBatch: 1 })).toMatchObject([{ reason: 'too_large' }]);
    expect(faultOf('1\n2', { maxBatchBytes: 2 })).toMatchObject([{ reason: 'too_large' }]);
    expect(faultOf('1', {}, true)).toEqual(['shutting_down']);
    expect(faultOf('1', { maxPending: 0 })).toEqual(['overloaded']);
  });

  it('but not for a type in another case, or with its charset', async () => {
    for (const contentType of ['Application/X-NDJSON', `${TYPE} ; charset="UTF-8"`])
      expect(await serve().ask('1\n2', undefined, { contentType }).lines()).toEqual([
        { got: '1' },
        { got: '2' },
      ]);
    // Any other type is that of a single request.
    const { wire } = serve().ask('1\n2', undefined, { contentType: 'application/json-seq; a=b' });
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
    const { ask, admission, signatures } = serve({ maxPending: 4 });
    signatures.waitMs = 100;
    const { wire, lines } = ask('1\n2\n3\n4\n');
    expect([wire.answers.length, admission.pending]).toEqual([0, 2]);
    signatures.waitMs = 0;
    await eventually(() => expect(wire.answers).toHaveLength(1));
    expect(await lines()).toEqual([{ got: '1' }, { got: '2' }, OVERLOADED, OVERLOADED]);
  });

  it('is dropped if the client goes before its turn, and nothing of it is kept', async () => {
    const { ask, admission, signatures } = serve();
    signatures.waitMs = 100;
    const taken: unknown[] = [];
    const { wire } = ask(`1\n2\n${' '.repeat(MAX_TYPICAL_BYTES + 1)}\n`, (_, body) => void taken.push(body));
    expect([admission.pending, admission.memory.clients]).toEqual([2, 1]);
    wire.gone();
    signatures.waitMs = 0;
    await eventually(() => expect([admission.pending, admission.memory.bytes]).toEqual([0, 0]));
    expect([taken, wire.answers, admission.memory.clients]).toEqual([[], [], 0]);
  });

  it('that is large has a turn of its own, and lets others go between', async () => {
    const { ask } = serve();
    const order: string[] = [];
    const note =
      (name: string): QuestionSink =>
      (question) => {
        order.push(name);
        question.answer(200, '{}');
      };
    const large = ' '.repeat(MAX_TYPICAL_BYTES + 1);
    const { wire } = ask(`${large}\n1\n${large}`, note('batch'));
    ask(large, note('single'), { contentType: null });
    expect(order).toEqual(['batch']);
    await eventually(() => expect(wire.answers).toHaveLength(1));
    expect(order).toEqual(['batch', 'batch', 'single', 'batch']);
  });

  it('has its answer, however long', async () => {
    const { ask } = serve();
    const [first, long] = ['ß', `${'ж'.repeat(1100)}\u{1f680}`];
    expect(await ask(`${first}\n${long}\n${first}`).lines()).toEqual([
      { got: first },
      { got: long },
      { got: first },
    ]);
  });

  it('is encoded at once if it is long, so that not all are at the end', async () => {
    const { ask } = serve();
    /** Whether an answer is in bytes whose longest line has so many characters. */
    const isEncoded = async (length: number) => {
      const long = `{"a":"${'b'.repeat(length - 9)}"}`;
      const { wire, lines } = ask('1\n2', (question, body) =>
        question.answer(200, Buffer.isBuffer(body) && String(body) === '1' ? long : '{}'),
      );
      await lines();
      return Buffer.isBuffer(wire.answers[0]?.body);
    };
    expect([await isEncoded(1024), await isEncoded(1025)]).toEqual([false, true]);
  });

  it('waits for those before it once so much of a batch is under way', async () => {
    const { ask } = serve({ maxBodyMemory: 512 * KIB });
    const asked: Question[] = [];
    // Each counts as 1 KiB, and an answer makes room for the next.
    ask('1\n2\n3\n4\n5\n6\n7\n', (question) => void asked.push(question));
    await eventually(() => expect(asked).toHaveLength(4));
    asked[1]?.answer(200, '{}');
    await eventually(() => expect(asked).toHaveLength(5));
    asked[0]?.answer(200, '{}');
    asked[4]?.answer(200, '{}');
    await eventually(() => expect(asked).toHaveLength(7));
  });

  it('waits for a larger one before it, but not for others', async () => {
    const { ask, admission } = serve();
    const asked: Question[] = [];
    const largest = ' '.repeat(MAX_TYPICAL_BYTES);
    ask(
      [1, largest, largest, `${largest} `, `${largest} `].join('\n'),
      (question) => void asked.push(question),
    );
    await eventually(() => expect(asked).toHaveLength(4));
    await new Promise(setImmediate);
    expect([asked.length, admission.pending]).toEqual([4, 0]);
    asked[3]?.answer(200, '{}');
    await eventually(() => expect(asked).toHaveLength(5));
  });

  it('is kept while it waits, also of the largest batch that is only lent', async () => {
    const { ask, signatures } = serve();
    signatures.waitMs = 100;
    const got = 'x'.repeat(MAX_TYPICAL_BYTES - 1);
    const { lines } = ask(`${got}\n`);
    signatures.waitMs = 0;
    expect(await lines()).toEqual([{ got }]);
  });

  it('that throws is answered 500, and no other', async () => {
    const { ask } = serve();
    const { lines } = ask('1\nplanted\n3', (question, body) => {
      if (Buffer.isBuffer(body) && body.toString() === 'planted') throw new Error('planted');
      question.answer(200, '{}');
    });
    expect(await lines()).toEqual([{}, { error: 'internal', status: 500 }, {}]);
  });
});

describe('the memory of a batch', () => {
  afterEach(() => void vi.useRealTimers());

  it.each([
    ['in one piece', 1],
    ['in two', 40_000],
  ])('that came %s counts until its client has taken the answer', async (_, spaces) => {
    const { ask, admission } = serve();
    const line = ' '.repeat(spaces);
    const { wire } = ask(`${line}\n${line}`, (question) => question.answer(200, '{}'));
    expect(admission.memory.bytes).toBe(2 * spaces + 1 + 2 * KIB);
    await eventually(() => expect(wire.done.at(-1)).toBe('write'));
    wire.answers[0]?.sent?.();
    expect(admission.memory.bytes).toBe(0);
  });

  it('does not count for ever: the connection is cut after as long as sending may take', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { ask, admission } = serve();
    const { wire } = ask('1');
    vi.advanceTimersByTime(9999);
    expect(wire.done).not.toContain('cut');
    vi.advanceTimersByTime(1);
    expect(wire.done.at(-1)).toBe('cut');
    // A wire that is cut says that the client has gone.
    wire.gone();
    expect(admission.memory.bytes).toBe(0);
    const read = ask('1').wire;
    read.answers[0]?.sent?.();
    vi.advanceTimersByTime(20_000);
    expect(read.done).not.toContain('cut');
  });

  it('counts towards the share of its client', async () => {
    const { ask, admission } = serve({ maxBodyMemory: 16 * KIB });
    // A client that is alone may hold a quarter.
    for (let time = 0; time < 3; time++) expect(await ask('1\n2\n3').lines()).toHaveLength(3);
    expect(ask('1\n2\n3').wire.answers[0]?.status).toBe(503);
    // For short answers, at most a sixteenth of all.
    expect(admission.memory.bytes).toBe(3 * (5 + KIB));
  });

  it('has room for answers that are longer than their lines', async () => {
    const { ask, admission } = serve();
    const answer = `{"got":"${'ж'.repeat(10 * KIB)}"}`;
    const { lines } = ask('1\n2', (question) => question.answer(200, answer));
    await lines();
    expect(admission.memory.bytes).toBe(3 + 2 * (Buffer.byteLength(answer) + 1));
  });
});
