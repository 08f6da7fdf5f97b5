import { Buffer } from 'node:buffer';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { Admission, MAX_TYPICAL_BYTES } from '../../src/server/admission.js';
import { BodyIntake } from '../../src/server/body-intake.js';
import { readConfiguration } from '../../src/server/configuration.js';
import type { Exchange } from '../../src/server/exchange.js';
import type { RequestHead } from '../../src/server/request-head.js';
import { eventually } from '../support/eventually.js';

const configuration = readConfiguration({});
const log = pino({ level: 'silent' });

it.each([
  ['a body that is handed on at once', 10],
  ['a body that has waited for its turn', MAX_TYPICAL_BYTES + 1],
])('answers 500 where what takes %s throws, and goes on', async (_, bytes) => {
  const intake = new BodyIntake({
    admission: new Admission(configuration, { ms: 0 }),
    configuration,
    log,
  });
  const answers: unknown[] = [];
  const exchange = {
    isOver: false,
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
