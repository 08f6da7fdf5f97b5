import { expect, it } from 'vitest';
import type { LoggedRequest } from '../../src/service/http/logged-request.js';
import type { RouteContext } from '../../src/service/core.js';
import { routeTables } from '../../src/service/routes/table.js';
import { eventually } from '../support/eventually.js';
import { openServer } from '../support/noted-wire.js';

const receipt = `sha256:${'a'.repeat(64)}`;

/** A route whose store answers when it is told to, with room for so many refunds that wait. */
function open(maxPending = 1, age = 0) {
  const service = openServer({ maxPending });
  const recorded: unknown[] = [];
  const waiting: ((answer: string) => void)[] = [];
  const claims = {
    ...{ jti: `inv:\u202e${'x'.repeat(300)}`, agent: 'did:key:z1', sub: 'did:key:z2', aud: 'https://\u202e' },
    ...{ iat: Math.floor(Date.now() / 1000) - age, charged: [{ receipt, micro_usd: 5 }] },
  };
  const context = {
    ...service,
    gate: {
      approvals: null,
      signer: { read: () => claims },
      replays: { refund: () => new Promise((resolve) => waiting.push(resolve)) },
    },
    verdicts: { recordRefund: (_: LoggedRequest, ...facts: unknown[]) => recorded.push(facts) },
  } as unknown as RouteContext;
  const route = routeTables(context).service.routes.get('/v1/refund');
  if (route === undefined) throw new Error('there is no /v1/refund');
  const ask = () => service.ask(route, { body: '{"context":"signed"}' });
  return { ...service, ask, claims, recorded, waiting };
}

it('needs room, and gives it back when the store has answered', async () => {
  const { gatekeeper, ask, metrics, waiting } = open();
  const first = ask();
  await eventually(() => expect(waiting).toHaveLength(1));
  expect(gatekeeper.pending).toBe(1);
  const second = ask();
  await eventually(() =>
    expect(second.answers).toMatchObject([{ status: 503, body: '{"error":"overloaded"}' }]),
  );
  waiting[0]?.('refunded');
  await eventually(() => expect(first.answers).toMatchObject([{ status: 200 }]));
  expect([gatekeeper.pending, gatekeeper.bodyBytes]).toEqual([0, 0]);
  gatekeeper.isDraining = true;
  const third = ask();
  await eventually(() =>
    expect(third.answers).toMatchObject([{ status: 503, body: '{"error":"shutting down"}', closes: true }]),
  );
  expect([metrics.gateRejections.gate.overloaded, metrics.gateRejections.gate.shutting_down]).toEqual([1, 1]);
});

it('records what was given back and what was not, with nothing of an agent that moves a terminal', async () => {
  const { ask, claims, lines, recorded, waiting } = open();
  for (const answer of ['refunded', 'repeated']) {
    const wire = ask();
    await eventually(() => expect(waiting).toHaveLength(1));
    waiting.pop()?.(answer);
    await eventually(() => expect(wire.answers).toHaveLength(1));
  }
  expect(recorded).toEqual([
    [claims, 'done', { calls: 1, total_cost_usd: 0.000005 }],
    [claims, 'REFUND_REPEATED', { calls: 0, total_cost_usd: 0 }],
  ]);
  expect(lines.map(({ msg }) => msg)).toEqual(['refund']);
  for (const line of lines) {
    expect(line).toMatchObject({ agent: claims.agent, toolServer: 'https://?', receipts: [receipt] });
    expect(line['invocation']).toBe(`inv:?${'x'.repeat(195)}…`);
  }
});

it('leaves out of the log what gave nothing back', async () => {
  const { ask, lines, recorded } = open(100, 3600);
  const wire = ask();
  await eventually(() => expect(wire.answers).toMatchObject([{ status: 409 }]));
  expect([recorded.length, lines]).toEqual([1, []]);
});
