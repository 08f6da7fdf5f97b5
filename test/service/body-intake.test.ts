import { Buffer } from 'node:buffer';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { Admission, MAX_TYPICAL_BYTES } from '../../src/service/load/admission.js';
import { BodyIntake, readJson, refuseBody, type QuestionFault } from '../../src/service/http/body-intake.js';
import { Backlog } from '../../src/service/load/backlog.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { MAX_JSON_NODES } from '../../src/protocol/json.js';
import { Exchange } from '../../src/service/http/exchange.js';
import type { RequestHead } from '../../src/service/http/request-head.js';
import { eventually } from '../support/eventually.js';
import { BARE_HEAD, NotedWire } from '../support/noted-wire.js';
import { STILL_LOOP } from './still-loop.js';

const configuration = readConfiguration({});
const log = pino({ level: 'silent' });
const OWNER = {
  ...{ isLeaving: false, bodyTimeoutMs: 10_000, clientAddress: (peer: string) => peer },
  ...{ ended: () => undefined, lineAnswered: () => undefined },
};
const exchangeOf = (wire: NotedWire, head: RequestHead = BARE_HEAD) =>
  new Exchange(wire, false, head, 'verify', OWNER);

it.each([
  ['a body that is handed on at once', 10],
  ['a body that has waited for its turn', MAX_TYPICAL_BYTES + 1],
])('answers 500 where what takes %s throws, and goes on', async (_, bytes) => {
  const logged: string[] = [];
  const intake = new BodyIntake({
    admission: new Admission(configuration, new Backlog(configuration, { waitMs: 0 }, STILL_LOOP)),
    configuration,
    log: pino({ level: 'error' }, { write: (line) => void logged.push(line) }),
  });
  const answers: unknown[] = [];
  const exchange = {
    ...{ isOver: false, clientAddress: '::1' },
    readBody: (_rules: unknown, sink: (body: Buffer) => void) => sink(Buffer.alloc(bytes)),
    refuse: (...answer: unknown[]) => answers.push(answer),
  } as unknown as Exchange;
  for (let time = 0; time < 2; time++)
    intake.read(exchange, { contentLength: bytes } as RequestHead, () => {
      throw new Error('planted');
    });
  await eventually(() =>
    expect(answers).toEqual([
      [500, 'internal'],
      [500, 'internal'],
    ]),
  );
  expect(logged.map((line) => JSON.parse(line) as unknown)).toMatchObject(
    [1, 2].map(() => ({ msg: 'a request failed inside the service', err: { message: 'planted' } })),
  );
});

it('keeps a body of its own while it waits, and drops it where the client has gone', async () => {
  const backlog = new Backlog(configuration, { waitMs: 0 }, STILL_LOOP);
  const admission = new Admission(configuration, backlog);
  const intake = new BodyIntake({ admission, configuration, log });
  const exchange = (isOver: boolean) => ({ isOver, clientAddress: '::1' }) as unknown as Exchange;
  const taken: unknown[] = [];
  const body = Buffer.from('first');
  // Something waits already, so the next ones do, too.
  admission.wait('::1', 0, () => taken.push('before'));
  intake.admit(exchange(false), body, (_, kept) => taken.push(String(kept)));
  intake.admit(exchange(true), body, () => taken.push('nobody waits for this one'));
  // The front end uses its memory again.
  body.write('other');
  expect([taken, admission.pending, admission.memory.bytes]).toEqual([[], 3, 10]);
  await eventually(() => expect(taken).toEqual(['before', 'first']));
  expect([admission.pending, admission.memory.bytes]).toEqual([0, 0]);
});

it('copies and counts what waits and is only lent to it, and keeps a larger one as it is', async () => {
  const backlog = new Backlog(configuration, { waitMs: 0 }, STILL_LOOP);
  const admission = new Admission(configuration, backlog);
  const intake = new BodyIntake({ admission, configuration, log });
  const exchange = { isOver: false, clientAddress: '::1' } as unknown as Exchange;
  const taken: unknown[] = [];
  const bodies = [Buffer.alloc(MAX_TYPICAL_BYTES), Buffer.alloc(MAX_TYPICAL_BYTES + 1)];
  admission.wait('::1', 0, () => undefined);
  for (const body of bodies) intake.admit(exchange, body, (_, kept) => taken.push(kept));
  expect([taken, admission.pending, admission.memory.bytes]).toEqual([[], 2, MAX_TYPICAL_BYTES]);
  await eventually(() => expect(taken).toHaveLength(2));
  expect(taken).toEqual(expect.arrayContaining(bodies));
  expect(bodies.map((body) => taken.includes(body))).toEqual([false, true]);
});

it('refuses what has waited for too long, and at once what has no room to wait', async () => {
  const limits = { ...configuration, maxPending: 2, queueBurstMs: 1 };
  const admission = new Admission(limits, new Backlog(limits, { waitMs: 0 }));
  const intake = new BodyIntake({ admission, configuration, log });
  const exchange = { isOver: false, clientAddress: '::1' } as unknown as Exchange;
  const taken: unknown[] = [];
  const admit = () => intake.admit(exchange, Buffer.from('{}'), (_, body) => taken.push(String(body)));
  admit();
  admission.wait('192.0.2.1', 0, () => undefined);
  admit();
  admit();
  expect(taken).toEqual(['{}', 'overloaded']);
  const since = performance.now();
  while (performance.now() - since <= limits.queueBurstMs);
  await eventually(() => expect(taken).toEqual(['{}', 'overloaded', 'overloaded']));
});

describe('a body is asked for', () => {
  const LIMITS = { ...configuration, maxBodyBytes: 100, maxPending: 2, requestTimeoutSecs: 7 };

  function intakeOf() {
    const admission = new Admission(LIMITS, new Backlog(LIMITS, { waitMs: 0 }, STILL_LOOP));
    const intake = new BodyIntake({ admission, configuration: LIMITS, log });
    const taken: string[] = [];
    const ask = (contentLength: number) => {
      const wire = new NotedWire();
      const head = { ...BARE_HEAD, hasBody: true, contentLength };
      intake.read(exchangeOf(wire, head), head, (_, body) => taken.push(String(body)));
      return wire;
    };
    return { admission, intake, taken, ask };
  }

  it('up to the largest size, which is announced or not', async () => {
    const { admission, taken, ask } = intakeOf();
    ask(100).take(Buffer.alloc(100, 'x'), true);
    ask(0).take(Buffer.from('{}'), true);
    await eventually(() => expect(taken).toEqual(['x'.repeat(100), '{}']));
    // Whatever waits: there is nothing to parse.
    admission.wait('::1', 0, () => undefined);
    const tooLarge = ask(101);
    ask(0).take(Buffer.alloc(101), true);
    expect([taken.slice(2), tooLarge.done]).toEqual([['too_large', 'too_large'], []]);
  });

  it('unless there is no room for it', () => {
    const { admission, taken, ask } = intakeOf();
    const tickets = [admission.enter(1), admission.enter(1)];
    expect([ask(2).done, taken]).toEqual([[], ['overloaded']]);
    tickets.forEach((ticket) => ticket?.release());
    expect(ask(2).done).toEqual(['receive']);
  });

  it('until the drain begins', () => {
    const { admission, taken, ask } = intakeOf();
    admission.isDraining = true;
    expect([ask(2).done, ask(101).done, taken]).toEqual([...[[], []], ['shutting_down', 'shutting_down']]);
  });

  it('for as long as a request may take, with what its sender announces', () => {
    const { admission, intake } = intakeOf();
    const asked: unknown[] = [];
    const exchange = { clientAddress: '::1', readBody: (rules: unknown) => asked.push(rules) };
    intake.read(exchange as unknown as Exchange, { ...BARE_HEAD, contentLength: 42 }, () => undefined);
    const { memory } = admission;
    expect(asked).toEqual([{ memory, maxBytes: 100, announcedBytes: 42, timeoutMs: 7000 }]);
  });
});

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

it.each<[QuestionFault, number, object, boolean, object]>([
  [
    'too_large',
    413,
    { error: expect.stringContaining('MAX_BODY_BYTES (9), or came in more than 65536') as string },
    true,
    {},
  ],
  ['timeout', 408, { error: expect.stringContaining('REQUEST_TIMEOUT_SECS (7)') as string }, true, {}],
  ['overloaded', 503, { error: 'overloaded' }, false, { 'Retry-After': '1' }],
  ['shutting_down', 503, { error: 'shutting down' }, true, { 'Retry-After': '1' }],
  ['rate_limited', 429, { error: 'rate_limited' }, false, { 'Retry-After': '1' }],
  [{ reason: 'malformed', status: 415, error: 'no batch' }, 415, { error: 'no batch' }, false, {}],
])('is answered with why there is no body: %j', (fault, status, body, closes, headers) => {
  const wire = new NotedWire();
  refuseBody(exchangeOf(wire), fault, { maxBodyBytes: 9, requestTimeoutSecs: 7 });
  const [answer] = wire.answers;
  expect({
    ...answer,
    body: JSON.parse(String(answer?.body)) as unknown,
    headers: { ...answer?.headers },
  }).toEqual({
    ...{ status, body, closes, headers, isHead: false },
  });
});
