import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Exchange } from '../../src/service/http/exchange.js';
import { answerTo, type BodyHandler } from '../../src/service/http/body-handler.js';
import { routeTables } from '../../src/service/routes/table.js';
import { Backlog } from '../../src/service/load/backlog.js';
import {
  Gatekeeper,
  MAX_TYPICAL_BYTES,
  type GatekeeperLimits,
  type Ticket,
} from '../../src/service/load/gatekeeper.js';
import { verdictLogsOf } from '../../src/service/observe/logs/verdict-logs.js';
import type { RouteContext } from '../../src/service/core.js';
import { WorkDropped } from '../../src/signatures/signature-verifier.js';
import type { Call, Judgement } from '../../src/verify/judge.js';
import { eventually } from '../support/eventually.js';
import { openServer, STILL_LOOP, type NotedWire, type Sent } from '../support/noted-wire.js';

const KIB = 1024;
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
// Text and parsed form, for each byte of a body.
const EXPANSION = 16;
const FIRST = { client: '192.0.2.1' };
const OTHER = { client: '192.0.2.2' };

const open = (limits: Partial<GatekeeperLimits> = {}, signatures = { waitMs: 0 }) => {
  const all = {
    ...{ maxPending: 1000, maxBodyMemory: 1024 * KIB, requestTimeoutSecs: 60 },
    ...limits,
  };
  return new Gatekeeper(all, new Backlog(all, signatures, STILL_LOOP));
};

/** Begins to wait for a verdict, at once. @returns whether it may */
async function begin(ticket: Ticket, bytes: number): Promise<boolean> {
  return ticket.takeTurn(bytes, (isRefused) => Promise.resolve(!isRefused));
}

describe('what waits for a verdict', () => {
  it('is as much as may, and is given back once', async () => {
    const keeper = open({ maxPending: 2 });
    const [first, second] = [keeper.ticketWithoutLimits(FIRST), keeper.ticketWithoutLimits(FIRST)];
    expect([await begin(first, 100), await begin(second, 100), keeper.pending]).toEqual([true, true, 2]);
    expect([keeper.enter(OTHER, 1), await begin(keeper.ticketWithoutLimits(OTHER), 1)]).toEqual([
      null,
      false,
    ]);
    first.release();
    first.release();
    expect([keeper.pending, keeper.bodyBytes]).toEqual([1, 100 * EXPANSION]);
    expect(keeper.enter(OTHER, 1)).not.toBeNull();
    second.release();
    expect([keeper.pending, keeper.bodyBytes]).toEqual([0, 0]);
  });

  it('fits into the memory, counting what is parsed', async () => {
    const keeper = open();
    const tickets: Ticket[] = [];
    for (
      let ticket = keeper.ticketWithoutLimits(FIRST);
      await begin(ticket, KIB);
      ticket = keeper.ticketWithoutLimits(FIRST)
    )
      tickets.push(ticket);
    expect([tickets.length, keeper.bodyBytes]).toEqual([1024 / EXPANSION, 1024 * KIB]);
    expect(keeper.ticketWithoutLimits(FIRST).grow(1)).toBe(false);
    for (const ticket of tickets) ticket.release();
    expect(keeper.bodyBytes).toBe(0);
  });

  it('may be a body that would take more than the memory by itself, but no two beside it', async () => {
    const keeper = open();
    const size = 60 * KIB;
    expect(size * EXPANSION).toBeGreaterThan(512 * KIB);
    const tickets = [
      keeper.ticketWithoutLimits(FIRST),
      keeper.ticketWithoutLimits(FIRST),
      keeper.ticketWithoutLimits(FIRST),
    ] as const;
    expect([
      await begin(tickets[0], size),
      await begin(tickets[1], size),
      await begin(tickets[2], size),
    ]).toEqual([true, true, false]);
  });

  it('for the status list leaves its place to others, up to half of all, however much did before', async () => {
    const keeper = open({ maxPending: 4 });
    for (let round = 0; round < 5; round++) {
      const tickets = Array.from({ length: 4 }, () => keeper.ticketWithoutLimits(FIRST));
      for (const ticket of tickets) expect(await begin(ticket, 100)).toBe(true);
      expect(keeper.enter(FIRST, 100)).toBeNull();
      expect(tickets.map((ticket) => ticket.park())).toEqual([true, true, false, false]);
      expect(tickets[0]?.park()).toBe(false);
      const others = [
        keeper.ticketWithoutLimits(OTHER),
        keeper.ticketWithoutLimits(OTHER),
        keeper.ticketWithoutLimits(OTHER),
      ];
      expect(await Promise.all(others.map((ticket) => begin(ticket, 100)))).toEqual([true, true, false]);
      expect(keeper.pending).toBe(6);
      for (const ticket of [...tickets, ...others, ...tickets]) ticket.release();
      expect([keeper.pending, keeper.bodyBytes, tickets[0]?.park()]).toEqual([0, 0, false]);
    }
  });

  it('for the status list takes no more than half of the memory', async () => {
    const keeper = open({ maxBodyMemory: 64_000 });
    const [first, second] = [keeper.ticketWithoutLimits(FIRST), keeper.ticketWithoutLimits(FIRST)];
    expect([await begin(first, 1500), await begin(second, 1500)]).toEqual([true, true]);
    expect([first.park(), second.park()]).toEqual([true, false]);
  });
});

describe('a turn', () => {
  it('comes at once while there is time, in the call itself', () => {
    const runs: string[] = [];
    void open()
      .ticketWithoutLimits(FIRST)
      .takeTurn(MAX_TYPICAL_BYTES, () => Promise.resolve(runs.push('ran')));
    expect(runs).toEqual(['ran']);
  });

  it('is another one for a large body, which counts meanwhile', async () => {
    const keeper = open();
    const runs: string[] = [];
    const run = (bytes: number) =>
      keeper
        .ticketWithoutLimits(FIRST)
        .takeTurn<unknown>(bytes, (isRefused) =>
          Promise.resolve(isRefused ? 'overloaded' : runs.push('ran')),
        );
    const first = run(512 * KIB);
    expect([runs, keeper.bodyBytes]).toEqual([[], 512 * KIB]);
    // There is no memory for another one to wait.
    expect([await run(100 * KIB), keeper.bodyBytes]).toEqual(['overloaded', 512 * KIB]);
    expect([await first, runs]).toEqual([1, ['ran']]);
  });

  it('does not come for more than half as many of a client as may wait, and these hold nothing', async () => {
    const signatures = { waitMs: 100 };
    const keeper = open({ maxPending: 4 }, signatures);
    const run = (sender: typeof FIRST) =>
      keeper
        .ticketWithoutLimits(sender)
        .takeTurn(8000, (isRefused) => Promise.resolve(isRefused ? 'overloaded' : 'ran'));
    const waiting = [run(FIRST), run(FIRST), run(OTHER)];
    expect([await run(FIRST), keeper.pending, keeper.bodyBytes]).toEqual(['overloaded', 3, 24_000]);
    waiting.push(run(OTHER));
    expect([keeper.enter(OTHER, 1), await run(OTHER), keeper.pending]).toEqual([null, 'overloaded', 4]);
    signatures.waitMs = 0;
    expect(await Promise.all(waiting)).toEqual(Array(4).fill('ran'));
  });

  it('gives what was read for what is parsed', async () => {
    const keeper = open();
    const ticket = keeper.ticketWithoutLimits(FIRST);
    expect([ticket.grow(20 * KIB), keeper.readingClients]).toEqual([true, 1]);
    expect(await begin(ticket, 20 * KIB)).toBe(true);
    expect([keeper.bodyBytes, keeper.readingClients]).toEqual([20 * KIB * EXPANSION, 0]);
    ticket.release();
    // What is kept longer than the verdict takes.
    expect([ticket.grow(10), keeper.pending, keeper.bodyBytes]).toEqual([true, 0, 10]);
  });
});

describe('the memory of bodies that are read', () => {
  const LIMIT = 1024;
  const READ = LIMIT / 2;

  it('leaves half to others, and is not asked for where a body is small', () => {
    const keeper = open();
    const tickets = [keeper.ticketWithoutLimits(FIRST), keeper.ticketWithoutLimits(OTHER)];
    for (const ticket of tickets) ticket.add(256 * KIB);
    expect(tickets.map((ticket) => ticket.grow(1))).toEqual([false, false]);
    // A large one is not worth reading, a small one may come in one piece.
    expect([16 * KIB + 1, 16 * KIB].map((bytes) => keeper.enter(FIRST, bytes) !== null)).toEqual([
      false,
      true,
    ]);
  });

  it('lets one client take as much as it leaves to others', () => {
    const keeper = open({ maxBodyMemory: LIMIT });
    const greedy = keeper.ticketWithoutLimits(FIRST);
    expect([greedy.grow(READ / 2), greedy.grow(1), keeper.bodyBytes]).toEqual([true, false, READ / 2]);
    expect(keeper.ticketWithoutLimits(FIRST).canGrow(1)).toBe(false);
    const modest = keeper.ticketWithoutLimits(OTHER);
    expect([modest.grow(READ / 4 + 1), modest.grow(READ / 4), modest.grow(1)]).toEqual([false, true, false]);
    expect(keeper.readingClients).toBe(2);
    greedy.release();
    modest.release();
    expect([keeper.bodyBytes, keeper.readingClients]).toEqual([0, 0]);
  });

  it('asks for no client while less than half is in use', () => {
    const keeper = open({ maxBodyMemory: LIMIT });
    const unknown = keeper.ticketWithoutLimits({
      get client(): string {
        throw new Error('asked');
      },
    });
    expect(unknown.canGrow(READ / 2)).toBe(true);
    expect(() => unknown.canGrow(READ / 2 + 1)).toThrow('asked');
    expect(unknown.canGrow(READ + 1)).toBe(false);
  });

  it('stays within its limits in any order of steps, and is empty when all is given back', async () => {
    const clients = [FIRST, OTHER, { client: '192.0.2.3' }];
    const step = fc.record({
      kind: fc.constantFrom('grow', 'begin', 'end'),
      who: fc.nat(clients.length - 1),
      bytes: fc.integer({ min: 0, max: READ }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const keeper = open({ maxBodyMemory: LIMIT });
        const tickets = clients.map((sender) => keeper.ticketWithoutLimits(sender));
        const held = clients.map(() => 0);
        for (const { kind, who, bytes } of steps) {
          const ticket = tickets[who] as Ticket;
          if (kind === 'grow' && ticket.grow(bytes)) held[who] = (held[who] ?? 0) + bytes;
          else if (kind === 'begin') {
            const other = keeper.ticketWithoutLimits(FIRST);
            await begin(other, Math.ceil(bytes / EXPANSION));
            tickets.push(other);
          } else if (kind === 'end') {
            ticket.release();
            held[who] = 0;
            for (const other of tickets.splice(clients.length)) other.release();
          }
          expect(keeper.bodyBytes).toBeLessThanOrEqual(LIMIT);
          const reading = held.reduce((sum, each) => sum + each, 0);
          expect(reading).toBeLessThanOrEqual(READ);
          for (const each of held) expect(each).toBeLessThanOrEqual(READ / 2);
          expect(keeper.readingClients).toBe(held.filter((each) => each > 0).length);
        }
        for (const ticket of tickets) ticket.release();
        expect([keeper.bodyBytes, keeper.readingClients, keeper.pending]).toEqual([0, 0, 0]);
      }),
    );
  });
});

/** A fake verifier for requests, since the real one cannot fail on demand. */
type Verify = (request: Call) => Promise<Judgement>;

describe('a fault of the verifier', () => {
  function start(verify: Verify) {
    const service = openServer({ maxPending: 3 });
    const verdicts = verdictLogsOf(
      { logRefusals: 'off', logStatements: true, decisionLogBundles: false },
      service.log,
      null,
      () => undefined,
    );
    const context = { ...service, engine: { verify }, verdicts, gate: { signer: null, approvals: null } };
    const route = routeTables(context as unknown as RouteContext).service.routes.get('/verify');
    if (route === undefined) throw new Error('there is no /verify');
    const send = () => service.ask(route, { body: '{"invocation":"x"}' });
    const post = async () => {
      const { answers } = send();
      await eventually(() => expect(answers).toHaveLength(1));
      return `${answers[0]?.status} ${String(answers[0]?.body)}`;
    };
    return { ...service, send, post };
  }

  const broken = {
    get failure(): never {
      throw new Error('an outcome that cannot be written');
    },
  } as unknown as Judgement;
  const later = () => new Promise((resolve) => setImmediate(resolve));
  it.each<[string, Verify]>([
    [
      'thrown at once',
      () => {
        throw new RangeError('Maximum call stack size exceeded');
      },
    ],
    [
      'thrown, and no Error',
      () => {
        // oxlint-disable-next-line typescript/only-throw-error -- what a dependency throws may be anything
        throw 'a string';
      },
    ],
    ['told at once', () => Promise.reject(new Error('no verdict'))],
    ['told later', () => later().then(() => Promise.reject(new Error('no verdict')))],
    ['met while the verdict is written', () => Promise.resolve(broken)],
    ['met while the verdict is written, later', () => later().then(() => broken)],
  ])('is a 500 and leaves nothing behind: %s', async (_, verify) => {
    const { gatekeeper, server, post, metrics } = start(verify);
    // More requests than may wait at once: if a count were not given back, the fourth would be refused.
    for (let request = 0; request < 8; request++) expect(await post()).toBe('500 {"error":"internal"}');
    expect([gatekeeper.pending, gatekeeper.bodyBytes, server.open]).toEqual([0, 0, 0]);
    expect(metrics.rejections.internal).toBe(8);
  });

  it('asks before a request waits for the status list', async () => {
    const waiting: { request: Call; fail: (error: Error) => void }[] = [];
    const { gatekeeper, post } = start(
      (request) => new Promise((_, fail) => waiting.push({ request, fail })),
    );
    const answers = [post(), post(), post()];
    await eventually(() => expect(waiting).toHaveLength(3));
    // Of three places, those that wait may leave one and a half.
    expect(waiting.map(({ request }) => request.mayWait?.())).toEqual([true, true, false]);
    answers.push(post());
    await eventually(() => expect([waiting.length, gatekeeper.pending]).toEqual([4, 4]));
    for (const { fail } of waiting) fail(new Error('no verdict'));
    for (const answer of answers) expect(await answer).toBe('500 {"error":"internal"}');
    expect(gatekeeper.pending).toBe(0);
  });

  it('leaves what waits where it is until the verifier is done, also when the client has gone', async () => {
    const waiting: { request: Call; fail: (error: Error) => void }[] = [];
    const { gatekeeper, send, post, reported } = start(
      (request) => new Promise((_, fail) => waiting.push({ request, fail })),
    );
    for (let request = 0; request < 3; request++) {
      const wire = send();
      await eventually(() => expect(waiting).toHaveLength(request + 1));
      expect(waiting[request]?.request.isWanted?.()).toBe(true);
      wire.gone();
    }
    expect(waiting.map(({ request }) => request.isWanted?.())).toEqual([false, false, false]);
    expect(gatekeeper.pending).toBe(3);
    expect(await post()).toBe('503 {"error":"overloaded"}');
    for (const { fail } of waiting) fail(new WorkDropped('nobody waits'));
    await eventually(() => expect([gatekeeper.pending, gatekeeper.bodyBytes]).toEqual([0, 0]));
    expect(reported.map(({ status }) => status)).toEqual([503, 0, 0, 0]);
  });
});

describe('callers who give up', () => {
  /** A service in which everything waits, and a clock. */
  const busy = (refuse?: BodyHandler<Exchange>['refuse']) => {
    const time = { now: 0 };
    const service = openServer(
      { requestTimeoutSecs: 1, trustProxy: { kind: 'hops', hops: 1 } },
      { ...STILL_LOOP, pause: setImmediate, now: () => time.now },
    );
    service.signatures.waitMs = 100;
    const bodies: string[] = [];
    const judge: BodyHandler<Exchange> = {
      maxBytes: 1000,
      answer: (_, body) => {
        bodies.push(String(body));
        return Promise.resolve({ status: 200, body: '{}' });
      },
      refuse: refuse ?? ((_, fault) => answerTo(fault, service.configuration)),
      overloaded: () => answerTo('overloaded', service.configuration),
    };
    const askAs = (sent: Sent) => service.ask({ serve: judge }, sent);
    const ask = (body = '{}', headers: [string, string][] = [], method = 'POST') =>
      askAs({ body, headers, method });
    /** Lets more come than is served, for half a second. */
    const saturate = async () => {
      const wires: NotedWire[] = [];
      for (let turn = 0; turn < 60; turn++) {
        for (let n = 0; n < 5; n++) wires.push(ask());
        time.now += 10;
        await nextTurn();
      }
      return wires;
    };
    return { ...service, time, bodies, ask, askAs, saturate };
  };
  const statusOf = ({ answers }: NotedWire) => answers.map(({ status }) => status);

  it('have all but a few of their requests refused as they come, before their bodies, and others not', async () => {
    const { ask, saturate, reported, gatekeeper } = busy();
    const wires = await saturate();
    for (const wire of wires.slice(-40)) wire.gone();
    const more = Array.from({ length: 40 }, () => ask('{}', [['x-request-id', 'abc']]));
    const other = ask('{}', [['x-forwarded-for', '198.51.100.1']]);
    await nextTurn();
    const refused = more.filter((wire) => statusOf(wire).includes(503));
    expect(refused.length).toBeGreaterThan(0);
    expect(statusOf(other)).toEqual([]);
    const [answer] = refused[0]?.answers ?? [];
    expect(answer).toMatchObject({ body: '{"error":"overloaded"}', closes: false });
    expect(answer?.headers).toEqual({ 'Retry-After': '1', 'X-Request-Id': 'abc' });
    expect(reported.filter(({ status }) => status === 503).length).toBeGreaterThanOrEqual(refused.length);
    const last = ask('{}', [['connection', 'close']], 'HEAD');
    expect(last.answers).toMatchObject([{ status: 503, isHead: true, closes: true }]);
    // A body that is longer, or whose length is not clear, is read first, so that its sender can read the answer.
    for (const unclear of [ask('x'.repeat(16 * KIB + 1)), ask('{}', [['transfer-encoding', 'chunked']])])
      expect(unclear.done).toEqual(['receive']);
    const twoLengths = ask('{}', [['content-length', '2']]);
    expect(twoLengths.done).not.toContain('write');
    twoLengths.take(Buffer.from('{}'), true);
    await eventually(() => expect(twoLengths.answers).toMatchObject([{ status: 400, closes: true }]));
    // While it drains, that is the reason, and not the load.
    gatekeeper.isDraining = true;
    const drained = ask();
    await eventually(() => expect(drained.answers).toMatchObject([{ body: '{"error":"shutting down"}' }]));
  });

  it('are those of a client who went, not those who wait', async () => {
    const { ask, saturate } = busy();
    await saturate();
    const waiting = Array.from({ length: 40 }, () => ask());
    await nextTurn();
    expect(waiting.flatMap(statusOf)).toEqual([]);
  });

  it('free what they held at once, not when their turn comes', async () => {
    const { ask, gatekeeper } = busy();
    const wires = Array.from({ length: 10 }, () => ask('x'.repeat(900)));
    await nextTurn();
    expect([gatekeeper.pending, gatekeeper.bodyBytes]).toEqual([10, 9000]);
    for (const wire of wires) wire.gone();
    await nextTurn();
    expect([gatekeeper.pending, gatekeeper.bodyBytes]).toEqual([0, 0]);
  });

  it.each(['before', 'in its turn'])('do not end the service where a refusal fails: %s', async (when) => {
    const { ask, time, signatures, gatekeeper } = busy(() => {
      throw new Error('cannot refuse');
    });
    // Too large once it has come, or refused when its turn comes.
    const wire = when === 'before' ? ask('x'.repeat(2000)) : ask();
    await nextTurn();
    time.now += 1001;
    await eventually(() => expect(statusOf(wire)).toEqual([500]));
    signatures.waitMs = 0;
    await eventually(() => expect(gatekeeper.pending).toBe(0));
  });

  it('before the service has their request count under their own address', () => {
    const { gatekeeper, askAs } = busy();
    const noted = vi.spyOn(gatekeeper, 'noteGivenUp');
    askAs({ goneFrom: '192.0.2.7' });
    expect(noted.mock.calls.map(([{ client }]) => client)).toEqual(['192.0.2.7']);
  });

  it('who wait have their bodies copied: the front end uses its memory again', async () => {
    const { ask, bodies, signatures } = busy();
    const wire = ask('{"a":1}');
    expect(bodies).toEqual([]);
    signatures.waitMs = 0;
    await eventually(() => expect(statusOf(wire)).toEqual([200]));
    expect(bodies).toEqual(['{"a":1}']);
  });
});
