import { Buffer } from 'node:buffer';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { Admission, MAX_TYPICAL_BYTES } from '../../src/service/load/admission.js';
import { BodyIntake } from '../../src/service/http/body-intake.js';
import { Backlog } from '../../src/service/load/backlog.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import type { Exchange } from '../../src/service/http/exchange.js';
import type { RequestHead } from '../../src/service/http/request-head.js';
import { eventually } from '../support/eventually.js';

const configuration = readConfiguration({});
const log = pino({ level: 'silent' });

it.each([
  ['a body that is handed on at once', 10],
  ['a body that has waited for its turn', MAX_TYPICAL_BYTES + 1],
])('answers 500 where what takes %s throws, and goes on', async (_, bytes) => {
  const intake = new BodyIntake({
    admission: new Admission(configuration, new Backlog(configuration, { waitMs: 0 })),
    configuration,
    log,
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
});

it('keeps a body of its own while it waits, and drops it where the client has gone', async () => {
  const backlog = new Backlog(configuration, { waitMs: 0 });
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
