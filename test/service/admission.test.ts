import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { Admission, MAX_TYPICAL_BYTES, type AdmissionLimits } from '../../src/service/load/admission.js';
import { Backlog } from '../../src/service/load/backlog.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { Connections } from '../../src/service/load/connections.js';
import { loadFrontEnd } from '../../src/service/http/load-front-end.js';
import { openGate } from '../../src/service/routes/gate-decider.js';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';
import { RefusalLog } from '../../src/service/observe/logs/refusal-log.js';
import { VerdictLogs } from '../../src/service/observe/logs/verdict-logs.js';
import { Routes } from '../../src/service/routes/routes.js';
import { WorkDropped } from '../../src/signatures/signature-verifier.js';
import type { Engine } from '../../src/verifier/engine.js';
import type { Judgement, Call } from '../../src/verify/judge.js';
import { eventually } from '../support/eventually.js';
import { connectRaw } from '../support/raw-http.js';
import { STILL_LOOP } from './still-loop.js';

const KIB = 1024;
// Text and parsed form, for each byte of a body.
const EXPANSION = 16;

const SENDER = { clientAddress: '192.0.2.1' };

const admissionOf = (limits: AdmissionLimits) =>
  new Admission(
    limits,
    new Backlog({ ...limits, queueBurstMs: 60_000, queueTargetMs: 60_000 }, { waitMs: 0 }, STILL_LOOP),
  );

describe('admission', () => {
  it('lets in as many as may wait, and takes each back once', () => {
    const admission = admissionOf({ maxPending: 2, maxBodyMemory: 1024 * KIB });
    const [first, second] = [admission.enter(100), admission.enter(100)];
    expect([admission.enter(100), admission.pending]).toEqual([null, 2]);
    expect(admission.hasRoomFor(1, SENDER)).toBe(false);
    first?.release();
    first?.release();
    expect([admission.pending, admission.memory.bytes]).toEqual([1, 100 * EXPANSION]);
    second?.release();
    expect([admission.pending, admission.memory.bytes]).toEqual([0, 0]);
  });

  it('lets in what fits into the memory, counting what is parsed', () => {
    const admission = admissionOf({ maxPending: 1000, maxBodyMemory: 1024 * KIB });
    const tickets = [];
    for (let ticket = admission.enter(KIB); ticket !== null; ticket = admission.enter(KIB))
      tickets.push(ticket);
    expect(tickets).toHaveLength(1024 / EXPANSION);
    expect(admission.memory.bytes).toBe(1024 * KIB);
    expect(admission.memory.take(1)).toBe(false);
    for (const ticket of tickets) ticket.release();
    expect(admission.memory.bytes).toBe(0);
  });

  it('leaves half of the memory to bodies that are not being read', () => {
    const admission = admissionOf({ maxPending: 1000, maxBodyMemory: 1024 * KIB });
    expect(admission.memory.take(512 * KIB)).toBe(true);
    expect([admission.memory.take(1), admission.memory.bytes]).toEqual([false, 512 * KIB]);
    // A large one is not worth reading, a small one may come in one piece.
    expect([16 * KIB + 1, 16 * KIB].map((bytes) => admission.hasRoomFor(bytes, SENDER))).toEqual([
      false,
      true,
    ]);
    expect(admission.enter(4 * KIB)).not.toBeNull();
    admission.memory.give(512 * KIB);
    expect(admission.memory.take(1)).toBe(true);
  });

  it('lets in a body that would take more than the memory by itself, but no two', () => {
    const admission = admissionOf({ maxPending: 1000, maxBodyMemory: 1024 * KIB });
    const size = 100 * KIB;
    expect(size * EXPANSION).toBeGreaterThan(1024 * KIB);
    expect([admission.enter(size), admission.enter(size), admission.enter(size)]).toEqual([
      expect.anything(),
      expect.anything(),
      null,
    ]);
  });

  it('lets what waits for the status list leave its place to others, up to half of all', () => {
    const admission = admissionOf({ maxPending: 4, maxBodyMemory: 1024 * KIB });
    const tickets = Array.from({ length: 4 }, () => admission.enter(100));
    expect(admission.enter(100)).toBeNull();
    expect(tickets.map((ticket) => ticket?.park())).toEqual([true, true, false, false]);
    expect(tickets[0]?.park()).toBe(false);
    const others = [admission.enter(100), admission.enter(100)];
    expect([...others, admission.enter(100)].map((ticket) => ticket !== null)).toEqual([true, true, false]);
    expect(admission.pending).toBe(6);
    for (const ticket of [...tickets, ...others, ...tickets]) ticket?.release();
    expect([admission.pending, admission.memory.bytes]).toEqual([0, 0]);
    expect(admission.enter(100)).not.toBeNull();
  });

  it('parks a request once, and none that has ended', () => {
    const admission = admissionOf({ maxPending: 10, maxBodyMemory: 1024 * KIB });
    const ticket = admission.enter(100);
    expect([ticket?.park(), ticket?.park(), admission.pending]).toEqual([true, false, 1]);
    ticket?.release();
    expect([ticket?.park(), admission.pending]).toEqual([false, 0]);
  });

  it('keeps no memory for what may not wait, and counts what waits', () => {
    const admission = admissionOf({ maxPending: 4, maxBodyMemory: 64_000 });
    const wait = (client: string) => admission.wait(client, 8_000, () => undefined);
    // A client may have half of the places.
    expect([wait('a'), wait('a'), wait('a'), wait('a'), wait('a')]).toEqual([
      ...[true, true, false, false, false],
    ]);
    expect([wait('b'), admission.enter(1) !== null, admission.enter(1)]).toEqual([true, true, null]);
  });

  it('lets requests wait for the status list however many did before', () => {
    const admission = admissionOf({ maxPending: 4, maxBodyMemory: 64_000 });
    for (let request = 0; request < 10; request++) {
      const ticket = admission.enter(1_000);
      expect([request, ticket?.park()]).toEqual([request, true]);
      ticket?.release();
    }
  });

  it('runs at once what may, and says so', async () => {
    const admission = admissionOf({ maxPending: 1, maxBodyMemory: 1024 * KIB });
    const runs: string[] = [];
    const run = (name: string, bytes: number) =>
      admission.run(
        () => 'a',
        bytes,
        0,
        (isLate) => runs.push(`${name} ${isLate ? 'late' : 'in time'}`),
      );
    expect(run('largest typical', MAX_TYPICAL_BYTES)).toBe(true);
    expect(run('large', MAX_TYPICAL_BYTES + 1)).toBe(false);
    expect(runs).toEqual(['largest typical in time']);
    await eventually(() => expect(runs.at(-1)).toBe('large in time'));
    expect(admission.wait('a', 0, () => undefined)).toBe(true);
    // There is no room to wait, so it is refused at once.
    expect([run('crowded', 1), runs.at(-1)]).toEqual([true, 'crowded late']);
  });

  it('counts a large body that came whole while it waits, and refuses it without the memory', async () => {
    const admission = admissionOf({ maxPending: 10, maxBodyMemory: 1024 * KIB });
    const runs: boolean[] = [];
    const run = (bytes: number) =>
      admission.run(
        () => 'a',
        bytes,
        bytes,
        (isLate) => runs.push(isLate),
      );
    expect([run(512 * KIB), runs, admission.memory.bytes]).toEqual([false, [], 512 * KIB]);
    expect([run(100 * KIB), runs, admission.memory.bytes]).toEqual([true, [true], 512 * KIB]);
    await eventually(() => expect([runs, admission.memory.bytes]).toEqual([[true, false], 0]));
  });

  it('takes memory back on every path, and never twice', () => {
    const admission = admissionOf({ maxPending: 4, maxBodyMemory: 64_000 });
    const [first, second] = [admission.enter(3_000), admission.enter(3_000)];
    expect(admission.memory.bytes).toBeGreaterThan(0);
    expect(admission.enter(3_000)).toBeNull();
    expect([first?.park(), second?.park()]).toEqual([true, false]);
    first?.release();
    first?.release();
    expect(admission.enter(1_000)).not.toBeNull();
    second?.release();
    expect(admission.pending).toBe(1);
  });
});

/** A fake verifier for requests, since the real one cannot fail on demand. */
type Verify = (request: Call) => Promise<Judgement>;

describe('a fault of the verifier', () => {
  let close = (): void => undefined;
  afterEach(() => close());

  const log = pino({ level: 'silent' });

  async function start(verify: Verify) {
    const admission = admissionOf({ maxPending: 3, maxBodyMemory: 1024 * KIB });
    const engine = { verify } as unknown as Engine;
    const configuration = readConfiguration({});
    const metrics = new Metrics();
    const { decider, signer } = await openGate({ engine, configuration, admission, metrics, log });
    const routes = new Routes({
      engine,
      configuration,
      admission,
      readiness: { reasons: () => [] },
      gate: decider,
      gateReplays: null,
      gateSigner: signer,
      metrics,
      log,
      verdicts: new VerdictLogs(new RefusalLog('off', log), null),
      tracing: null,
      scrape: () => Promise.resolve(''),
    });
    const { open } = await loadFrontEnd('auto');
    const connections = new Connections(Infinity, log);
    const frontEnd = open({ handle: routes.handle, connections, requestTimeoutSecs: 10, certificate: null });
    const port = await frontEnd.listen({ kind: 'tcp', host: '127.0.0.1', port: 0, isShared: false });
    close = () => frontEnd.close();
    const post = async () => {
      const body = JSON.stringify({ invocation: 'x' });
      const response = await fetch(`http://127.0.0.1:${port}/verify`, { method: 'POST', body });
      // The service goes on.
      expect(response.headers.get('connection')).not.toBe('close');
      return `${response.status} ${await response.text()}`;
    };
    return { admission, routes, port, post };
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
    const { admission, routes, post } = await start(verify);
    // More requests than may wait at once: if a count were not given back, the fourth would be refused.
    for (let request = 0; request < 8; request++) expect(await post()).toBe('500 {"error":"internal"}');
    await eventually(() =>
      expect([admission.pending, admission.memory.bytes, routes.open]).toEqual([0, 0, 0]),
    );
  });

  it('asks admission before a request waits for the status list', async () => {
    const waiting: { request: Call; fail: (error: Error) => void }[] = [];
    const { admission, post } = await start(
      (request) => new Promise((_, fail) => waiting.push({ request, fail })),
    );
    const answers = [post(), post(), post()];
    await eventually(() => expect(waiting).toHaveLength(3));
    // Of three places, those that wait may leave one and a half.
    expect(waiting.map(({ request }) => request.mayWait?.())).toEqual([true, true, false]);
    answers.push(post());
    await eventually(() => expect([waiting.length, admission.pending]).toEqual([4, 4]));
    for (const { fail } of waiting) fail(new Error('no verdict'));
    for (const answer of answers) expect(await answer).toBe('500 {"error":"internal"}');
    expect(admission.pending).toBe(0);
  });

  it('leaves what waits where it is until the verifier is done, also when the client has gone', async () => {
    const waiting: { request: Call; fail: (error: Error) => void }[] = [];
    const { admission, port, post } = await start(
      (request) => new Promise((_, fail) => waiting.push({ request, fail })),
    );
    for (let request = 0; request < 3; request++) {
      const { socket } = await connectRaw(port);
      socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}');
      await eventually(() => expect(waiting).toHaveLength(request + 1));
      expect(waiting[request]?.request.isWanted?.()).toBe(true);
      socket.destroy();
    }
    await eventually(() =>
      expect(waiting.map(({ request }) => request.isWanted?.())).toEqual([false, false, false]),
    );
    expect(admission.pending).toBe(3);
    expect(await post()).toBe('503 {"error":"overloaded"}');
    for (const { fail } of waiting) fail(new WorkDropped('nobody waits'));
    await eventually(() => expect([admission.pending, admission.memory.bytes]).toEqual([0, 0]));
  });
});
