import { Buffer } from 'node:buffer';
import { pino } from 'pino';
import { expect, it, vi } from 'vitest';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { BodyIntake } from '../../src/service/http/body-intake.js';
import { Exchange, type ExchangeOwner } from '../../src/service/http/exchange.js';
import { Admission } from '../../src/service/load/admission.js';
import { Backlog } from '../../src/service/load/backlog.js';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';
import type { RouteContext } from '../../src/service/routes/context.js';
import { RefundRoute } from '../../src/service/routes/refund-route.js';
import { eventually } from '../support/eventually.js';
import { BARE_HEAD, NotedWire } from '../support/noted-wire.js';

const receipt = `sha256:${'a'.repeat(64)}`;
const body = Buffer.from('{"context":"signed"}');

/** A route whose store answers when it is told to, with room for so many refunds that wait. */
function open(maxPending = 1, age = 0) {
  const configuration = { ...readConfiguration({}), maxPending, queueBurstMs: 60_000, queueTargetMs: 60_000 };
  const admission = new Admission(configuration, new Backlog(configuration, { waitMs: 0 }));
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0]) });
  const recorded: unknown[] = [];
  const waiting: ((answer: string) => void)[] = [];
  const metrics = new Metrics();
  const claims = {
    ...{ jti: `inv:\u202e${'x'.repeat(300)}`, agent: 'did:key:z1', sub: 'did:key:z2', aud: 'https://\u202e' },
    ...{ iat: Math.floor(Date.now() / 1000) - age, charged: [{ receipt, micro_usd: 5 }] },
  };
  const context = {
    ...{ configuration, admission, metrics, log },
    gateSigner: { read: () => claims },
    gateReplays: { refund: () => new Promise((resolve) => waiting.push(resolve)) },
    verdicts: { recordRefund: (_: Exchange, ...facts: unknown[]) => recorded.push(facts) },
  } as unknown as RouteContext;
  const route = new RefundRoute(context, new BodyIntake(context));
  const owner: ExchangeOwner = {
    ...{ isLeaving: false, bodyTimeoutMs: 2000, clientAddress: (peer) => peer },
    ...{ ended: () => undefined, lineAnswered: () => undefined },
  };
  const ask = () => {
    const wire = new NotedWire();
    const head = { ...BARE_HEAD, hasBody: true, contentLength: body.length };
    route.serve(new Exchange(wire, false, head, 'gate', owner), head);
    wire.take(body, true);
    return wire;
  };
  return { admission, ask, claims, lines, metrics, recorded, waiting };
}

it('asks admission for room, and gives it back when the store has answered', async () => {
  const { admission, ask, metrics, waiting } = open();
  const first = ask();
  await eventually(() => expect(waiting).toHaveLength(1));
  expect(admission.pending).toBe(1);
  expect(ask().answers).toMatchObject([{ status: 503, body: '{"error":"overloaded"}' }]);
  waiting[0]?.('refunded');
  await eventually(() => expect(first.answers).toMatchObject([{ status: 200 }]));
  expect([admission.pending, admission.memory.bytes]).toEqual([0, 0]);
  admission.isDraining = true;
  expect(ask().answers).toMatchObject([{ status: 503, body: '{"error":"shutting down"}', closes: true }]);
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
  expect(lines.map(({ msg }) => msg)).toEqual(['refund', 'refund refused']);
  for (const line of lines) {
    expect(line).toMatchObject({ agent: claims.agent, toolServer: 'https://?', receipts: [receipt] });
    expect(line['invocation']).toBe(`inv:?${'x'.repeat(195)}…`);
  }
});

it('leaves out of the log what gave nothing back, if it is more than ten in a second', async () => {
  // No second ends before the test says so.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const { ask, lines, recorded } = open(100, 3600);
    const wires = Array.from({ length: 25 }, ask);
    while (recorded.length < 25) await new Promise((resolve) => setImmediate(resolve));
    expect(wires.flatMap(({ answers }) => answers.map(({ status }) => status))).toEqual(Array(25).fill(409));
    vi.advanceTimersByTime(1000);
    expect(lines.map(({ msg, leftOut = 0 }) => [msg, leftOut])).toEqual([
      ...Array.from({ length: 10 }, () => ['refund refused', 0]),
      ['refund: as many more that gave nothing back, left out of the log', 15],
    ]);
  } finally {
    vi.useRealTimers();
  }
});
