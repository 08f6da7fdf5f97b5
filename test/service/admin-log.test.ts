import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { AdminLog } from '../../src/service/observe/logs/admin-log.js';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';

it('logs revocations whatever the level of the log, and nothing else', () => {
  const output = new PassThrough({ encoding: 'utf8' });
  const admin = new AdminLog(pino({ level: 'silent' }, output), new Metrics());
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
