import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';
import { AdminAccess } from '../../src/service/routes/admin-access.js';

it('logs revocations whatever the level of the log, and nothing else', () => {
  const output = new PassThrough({ encoding: 'utf8' });
  const log = pino({ level: 'silent' }, output);
  const admin = new AdminAccess({ log, metrics: new Metrics(), configuration: readConfiguration({}) });
  const call = { address: '192.0.2.7', requestId: 'r-1' };
  admin.record('done', call, { statusListIndex: 7 });
  admin.record('failed', call, { statusListIndex: 8 });
  admin.record('unauthorized', call);
  admin.record('malformed', call);
  const lines = String(output.read())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  expect(lines).toEqual([
    expect.objectContaining({ level: 30, msg: 'admin', outcome: 'done', statusListIndex: 7, ...call }),
    expect.objectContaining({ level: 50, msg: 'admin', outcome: 'failed', statusListIndex: 8, ...call }),
  ]);
});
