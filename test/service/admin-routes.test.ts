import { expect, it } from 'vitest';
import type { RouteContext } from '../../src/service/core.js';
import { routeTables } from '../../src/service/routes/table.js';
import { eventually } from '../support/eventually.js';
import { openServer } from '../support/noted-wire.js';

it('logs revocations whatever the level of the log, and nothing else', async () => {
  const service = openServer({ drsAdminToken: 's3cret' });
  service.log.level = 'silent';
  const outcomes = [() => Promise.resolve(), () => Promise.reject(new Error('the disk is full'))];
  const context = {
    ...service,
    gate: { approvals: null },
    engine: { revocation: { revoke: () => outcomes.shift()?.() } },
  };
  const route = routeTables(context as unknown as RouteContext).service.routes.get('/admin/revoke');
  if (route === undefined) throw new Error('there is no /admin/revoke');
  const ask = async (body: string, token: string) => {
    const headers = [
      ['authorization', `Bearer ${token}`],
      ['x-request-id', 'r-1'],
    ] as const;
    const wire = service.ask(route, { body, headers });
    await eventually(() => expect(wire.answers).toHaveLength(1));
  };
  await ask('{"status_list_index":7}', 's3cret');
  await ask('{"status_list_index":8}', 's3cret');
  await ask('{"status_list_index":9}', 'guess');
  await ask('{', 's3cret');
  const call = { msg: 'admin', requestId: 'r-1', address: '192.0.2.1' };
  expect(service.lines).toMatchObject([
    { level: 30, outcome: 'done', statusListIndex: 7, ...call },
    { level: 50, outcome: 'failed', statusListIndex: 8, ...call },
  ]);
  expect(service.lines).toHaveLength(2);
});
