import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Histogram } from 'hdr-histogram-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measurePair } from '../../bench/compare/pair.js';
import { checkAnswers } from '../../bench/load/measure-load.js';
import { runClosedLoop, runOpenLoop, type LoadResult, type Target } from '../../bench/load/open-loop.js';
import { ROOT } from '../../bench/run/programs.js';
import { Workloads, type Workload } from '../../bench/workload/workload.js';

// The generators are separate programs, which run from the build of `npm run bench`.
const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-test-'));
const servers: Server[] = [];
const now = () => Number(process.hrtime.bigint()) / 1e6;

afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  rmSync(directory, { recursive: true });
});

// Long enough that the server closes no connection while the machine pauses.
const IDLE_MS = 600_000;

async function listen(handler: RequestListener): Promise<number> {
  const server = createServer({ keepAliveTimeout: IDLE_MS }, handler)
    .setTimeout(IDLE_MS)
    .listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const isRight = () => 'right';

/** Requests whose bodies are their own numbers. */
function numbered(count: number, answerOf: (number: number) => string): Workload {
  const file = path.join(directory, `numbered-${count}`);
  const exchanges = Array.from({ length: count }, (_, number) =>
    JSON.stringify({ body: String(number), answer: answerOf(number) }),
  );
  writeFileSync(file, exchanges.join('\n'));
  const about = { traffic: 'warm', depth: 1, start: 0, path: '/verify', bodyBytes: 4 } as const;
  return { ...about, file, marker: 'right' };
}

async function numberIn(request: AsyncIterable<Buffer>): Promise<number> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Number(Buffer.concat(chunks).toString());
}

describe('the open-loop generator', () => {
  const RATE = 400;
  const SECONDS = 4;
  const COUNT = RATE * SECONDS;
  const STALLED = 600;
  const STALL_MS = 1000;
  /** 50 ms for most requests, 100 ms for one in ten, 200 ms for one in a hundred. */
  const delayOf = (number: number) => (number % 100 === 50 ? 200 : number % 10 === 0 ? 100 : 50);

  const arrivedAt = new Map<number, number>();
  const answeredAt = new Map<number, number>();
  let latencies: Histogram;
  let wrong: number;
  let startedAt: number;

  beforeAll(async () => {
    let stalledUntil = 0;
    const port = await listen((request, response) => {
      void (async () => {
        const number = await numberIn(request);
        arrivedAt.set(number, now());
        if (number === STALLED) stalledUntil = now() + STALL_MS;
        // Nothing leaves while the server stalls, whenever it arrived.
        for (let wait = delayOf(number); wait > 0; wait = stalledUntil - now()) {
          await new Promise((resolve) => setTimeout(resolve, wait));
        }
        answeredAt.set(number, now());
        response.end('right');
      })();
    });
    const result = await runOpenLoop(numbered(COUNT, isRight), {
      port,
      connections: 64,
      seconds: SECONDS,
      warmUpSeconds: 0,
      rate: RATE,
    });
    ({ latencies, wrong, startedAt } = result);
  });

  // Only limits from below: how much later than the server an answer is seen here is for the machine to say. That
  // nothing is counted that did not happen is shown in virtual time (open-loop-core.test.ts).

  /** Recorded by the server: the intended send time of each request, and when its answer was sent, in ms. */
  const trueLatencies = () =>
    Array.from(
      { length: COUNT },
      (_, n) => (answeredAt.get(n) ?? Number.NaN) - (startedAt + (n / RATE) * 1000),
    ).sort((a, b) => a - b);
  const truth = (percentile: number) =>
    trueLatencies()[Math.ceil((percentile / 100) * COUNT) - 1] ?? Number.NaN;

  it('sends every request once and takes every answer', () => {
    expect(latencies.totalCount).toBe(COUNT);
    expect(answeredAt.size).toBe(COUNT);
    expect(wrong).toBe(0);
  });

  it.each([50, 99, 99.9, 100])(
    'reports for the percentile %d at least what the server saw, counted from the intended time',
    (at) => {
      const reported = (at === 100 ? latencies.maxValue : latencies.getValueAtPercentile(at)) / 1000;
      // The histogram keeps three digits.
      expect(reported).toBeGreaterThan(truth(at) * 0.998 - 0.1);
    },
  );

  it('counts the stall for all that should have been sent meanwhile', () => {
    // 400 requests were due in that second; each waited for the rest of it.
    expect(latencies.maxValue / 1000).toBeGreaterThan(STALL_MS);
    expect(latencies.getValueAtPercentile(99) / 1000).toBeGreaterThan(0.9 * STALL_MS);
    expect(latencies.getValueAtPercentile(90) / 1000).toBeGreaterThan(0.5 * STALL_MS);
    // A generator that waits for answers sees only those that are under way, one for each connection.
    const middle = (arrivedAt.get(STALLED) ?? Number.NaN) + 0.5 * STALL_MS;
    const isWaiting = (n: number, since: number) => since <= middle && middle < (answeredAt.get(n) ?? 0);
    const underway = [...arrivedAt].filter(([n, at]) => isWaiting(n, at));
    expect(underway.length).toBeLessThanOrEqual(64);
    const due = Array.from({ length: COUNT }, (_, n) => startedAt + (n / RATE) * 1000);
    expect(due.filter((at, n) => isWaiting(n, at)).length).toBeGreaterThan(180);
  });
});

describe('a client that gives up', () => {
  it('closes its connection, comes back on a new one, and is counted apart from refusals', async () => {
    let count = 0;
    const port = await listen((request, response) => {
      request.resume();
      request.on('end', () => {
        count++;
        // Every tenth gets no answer at all, every fifth but those a refusal.
        if (count % 10 === 0) return;
        response.statusCode = count % 5 === 0 ? 503 : 200;
        response.end('right');
      });
    });
    const { answered, refused, timedOut, wrong } = await runOpenLoop(numbered(300, isRight), {
      ...{ port, connections: 4, rate: 100, seconds: 3, warmUpSeconds: 0, patienceMs: 1000, mayRefuse: true },
    });
    // On a busy machine more may be given up; nothing is lost, and nothing is taken for what it is not.
    expect([answered + refused + timedOut, wrong]).toEqual([300, 0]);
    expect(timedOut).toBeGreaterThan(0);
  });
});

describe('a wrong answer', () => {
  /** Answers correctly, except every n-th time. */
  async function liar(every: number): Promise<number> {
    let count = 0;
    return listen((request, response) => {
      request.resume();
      request.on('end', () => response.end(++count % every === 0 ? 'wrong' : 'right'));
    });
  }

  /** Runs again if the machine was too busy for two answers in a second. */
  async function load(run: (workload: Workload, target: Target) => Promise<LoadResult>, port: number) {
    for (;;) {
      const result = await run(numbered(300, isRight), { port, connections: 4, seconds: 1 });
      if (result.answered > 2) return result;
    }
  }

  const openLoop = (workload: Workload, target: Target) =>
    runOpenLoop(workload, { ...target, rate: 500, warmUpSeconds: 0.5 });

  it.each([
    ['the closed loop', runClosedLoop],
    ['the open loop', openLoop],
  ] as const)(
    'is noticed by %s',
    async (_, run: (workload: Workload, target: Target) => Promise<LoadResult>) => {
      const result = await load(run, await liar(2));
      expect(result.wrong).toBeGreaterThanOrEqual(1);
      expect(result.firstWrong).toContain('wrong');
    },
  );

  it('is noticed when answers are compared to the letter', async () => {
    const exchanges = Array.from({ length: 250 }, (_, number) => ({ body: String(number), answer: 'right' }));
    const { wrong, firstWrong } = await checkAnswers(await liar(100), exchanges);
    expect(wrong).toBe(2);
    expect(firstWrong).toContain('wrong');
  });
});

describe('a connection of our own', () => {
  const answerOf = (number: number) => `right ${'x'.repeat(100 * number)}`;

  it('puts an answer together that comes in pieces, beside others', async () => {
    const port = await listen((request, response) => {
      void (async () => {
        const answer = answerOf(await numberIn(request));
        response.writeHead(200, { 'Content-Length': answer.length });
        for (let at = 0; at < answer.length; at += 400) {
          response.write(answer.slice(at, at + 400));
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
        response.end();
      })();
    });
    const workload = numbered(40, answerOf);
    const { answered, wrong, firstWrong } = await runOpenLoop(workload, {
      ...{ port, connections: 4, seconds: 20, warmUpSeconds: 0, clients: { requests: 40 } },
    });
    expect([answered, wrong, firstWrong]).toEqual([40, 0, '']);
  });

  it('tells when the service closes it', async () => {
    const port = await listen((request) => {
      request.resume();
      request.on('end', () => request.socket.end());
    });
    const { wrong, firstWrong } = await runOpenLoop(numbered(40, isRight), {
      ...{ port, connections: 4, seconds: 1, warmUpSeconds: 0, clients: { requests: null } },
    });
    expect(wrong).toBeGreaterThan(0);
    expect(firstWrong).toBe('the service closed the connection');
  });
});

it('a refused request is checked again', async () => {
  const exchanges = Array.from({ length: 40 }, (_, number) => ({ body: String(number), answer: 'right' }));
  let refusals = 12;
  const port = await listen((request, response) => {
    request.resume();
    request.on('end', () => {
      response.statusCode = refusals-- > 0 ? 503 : 200;
      response.end(response.statusCode === 503 ? 'overloaded' : 'right');
    });
  });
  const { answered, wrong, firstWrong } = await checkAnswers(port, exchanges);
  expect([answered, wrong, firstWrong]).toEqual([40, 0, '']);
});

it('a pair of real services under slices: what is planted in one is found', async () => {
  // The build that the other tests start, too.
  const planted = path.join(ROOT, '.build/test/bench/planted-process.js');
  const tree = { name: 'this', folder: ROOT };
  const { measured } = await measurePair(
    [tree, tree],
    { traffic: 'warm', depth: 2 },
    new Workloads(directory),
    { precision: 10, isSwapped: true, nodeArgs: [[], ['--import', planted]], workers: 0, minQuads: 2 },
  );
  expect(measured.cpu.effect).toBeGreaterThan(Math.log(1.5));
  expect(measured['latency p50']?.effect).toBeGreaterThan(Math.log(1.5));
  expect(measured.cpu.means[1]).toBeGreaterThan(measured.cpu.means[0]);
});

it.each([0, 2_000])('a pair of real services is ended where its time is over after %i ms', async (ms) => {
  const tree = { name: 'this', folder: ROOT };
  // It would be measured for as long as it may, and settles when its processes have ended.
  const plan = { precision: 0, isSwapped: false, time: AbortSignal.timeout(ms) };
  const pair = measurePair([tree, tree], { traffic: 'warm', depth: 1 }, new Workloads(directory), plan);
  await expect(pair).rejects.toThrow();
  expect(plan.time.aborted).toBe(true);
});
