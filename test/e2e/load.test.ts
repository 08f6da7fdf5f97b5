import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Verdict } from '../../src/index.js';
import { invoke, makeBundle, makeChain, type TestBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { fewer } from '../support/front-end.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

interface Expected {
  readonly bundle: unknown;
  readonly says: string;
}

const summary = ({ valid, context, error, binding }: Verdict) =>
  valid ? `${context.chain_depth} ${context.root_principal} ${binding ?? ''}` : error.code;

/** Bundles of many kinds. Each has its own verdict, so that mixed-up answers are noticed. */
function mixedBundles(count: number): Expected[] {
  const broken = (bundle: TestBundle) => {
    const signature = bundle.invocation.lastIndexOf('.') + 1;
    const first = bundle.invocation[signature] === 'A' ? 'B' : 'A';
    return {
      ...bundle,
      invocation: bundle.invocation.slice(0, signature) + first + bundle.invocation.slice(signature + 1),
    };
  };
  return Array.from({ length: count }, (_, index): Expected => {
    const chain = makeChain(1 + (index % 6));
    const root = chain.parties[0]?.did ?? '';
    const bundle = invoke(chain);
    switch (index % 5) {
      case 0:
        return { bundle: broken(bundle), says: 'INVALID_INVOCATION_SIGNATURE' };
      case 1:
        return {
          bundle: { ...bundle, body: { tool: 'x' } },
          says: `${chain.receipts.length} ${root} mismatch`,
        };
      case 2:
        return { bundle: invoke(chain, { args: { tool: 'x' } }), says: 'POLICY_VIOLATION' };
      default:
        return { bundle, says: `${chain.receipts.length} ${root} ` };
    }
  });
}

// Made once, since signing them takes longer than verifying them. Each service that gets them is new.
// 100 bring some 430 signatures, more than the workers take at a time.
const BUNDLES = mixedBundles(100);
const LONG_BUNDLES = Array.from({ length: 10 }, () => JSON.stringify(makeBundle(16)));

async function expectAll(service: RunningService, expected: readonly Expected[]): Promise<void> {
  const answers = await Promise.all(
    expected.map(async ({ bundle }) =>
      summary((await (await service.post('/verify', JSON.stringify(bundle))).json()) as Verdict),
    ),
  );
  expect(answers).toEqual(expected.map(({ says }) => says));
}

/** Thread ids of a process, main thread excluded. */
const threadsOf = (pid: number) =>
  readdirSync(`/proc/${pid}/task`)
    .map(Number)
    .filter((id) => id !== pid);

describe('correctness under load', () => {
  it.each(fewer(['0', '2'], ['1']))(
    'keeps 100 concurrent requests apart with WORKER_THREADS=%s',
    async (workers) => {
      const service = await startService({ WORKER_THREADS: workers });
      try {
        const expected = BUNDLES;
        await expectAll(service, expected);
        await expectAll(service, expected);
        const metrics = await (await fetch(`${service.url}/metrics`)).text();
        expect(metricOf(metrics, 'drs_verify_pending')).toBe(0);
        expect(metricOf(metrics, 'drs_signatures_pending')).toBe(0);
      } finally {
        expect(await service.stop()).toBe(0);
      }
    },
  );
});

// At once: most of it is waiting for batches that are not returned.
describe.concurrent('workers that cannot start', () => {
  // Where the workers leave it a core, the main thread helps.
  it.each(fewer(['1', '2'], ['1']))(
    'leave the work to the main thread, WORKER_THREADS=%s',
    async (workers) => {
      const service = await startService({
        WORKER_THREADS: workers,
        RECEIPT_CACHE_BYTES: '0',
        NODE_OPTIONS: `--import ${new URL('../support/crash-workers.mjs', import.meta.url).href}`,
        CRASH_AT_BATCH: '0',
      });
      try {
        const expected = BUNDLES.slice(0, 60);
        for (let round = 0; round < 3; round++) await expectAll(service, expected);
        const metrics = await (await fetch(`${service.url}/metrics`)).text();
        expect(metricOf(metrics, 'drs_signatures_pending')).toBe(0);
        // It notices at the latest when batches are not returned.
        await eventually(() =>
          expect(JSON.stringify(service.log)).toContain('until it does, the main thread verifies'),
        );
        await expectAll(service, expected);
      } finally {
        expect(await service.stop()).toBe(0);
      }
    },
  );
});

describe('a worker that dies', () => {
  it.each(fewer(['1', '2'], ['1']))(
    'loses and passes no request, is counted and replaced, WORKER_THREADS=%s',
    async (workers) => {
      // The worker is ended from inside by a signal only it gets: the module that crashes it is preloaded here.
      const service = await startService({
        WORKER_THREADS: workers,
        RECEIPT_CACHE_BYTES: '0',
        NODE_OPTIONS: `--import ${new URL('../support/crash-workers.mjs', import.meta.url).href}`,
        CRASH_AT_BATCH: '4',
      });
      try {
        const expected = BUNDLES;
        // The system decides how much work the workers get, so continue until enough of them have died.
        for (let repeated = 0; repeated <= 2;) {
          await expectAll(service, expected);
          const metrics = await (await fetch(`${service.url}/metrics`)).text();
          repeated = metricOf(metrics, 'drs_signature_batches_repeated_total');
        }
        expect(JSON.stringify(service.log)).toContain('worker ended on its own');
        await eventually(async () => {
          const metrics = await (await fetch(`${service.url}/metrics`)).text();
          expect(metricOf(metrics, 'drs_signature_worker_deaths_total')).toBeGreaterThan(0);
          expect(metricOf(metrics, 'drs_signature_workers')).toBe(Number(workers));
        });
        expect(threadsOf(service.child.pid as number).length).toBeGreaterThan(0);
        expect(readFileSync(`/proc/${service.child.pid as number}/status`, 'utf8')).toContain('State:');
      } finally {
        expect(await service.stop()).toBe(0);
      }
    },
  );
});

describe('overload', () => {
  it('is shed at once, and what is let in is checked right', async () => {
    // A limit so low that every burst exceeds it, on any machine.
    const service = await startService({
      ...{ WORKER_THREADS: '1', RECEIPT_CACHE_BYTES: '0', MAX_PENDING: '4' },
    });
    try {
      const answers: string[] = [];
      const ask = async (_: unknown, at: number) => {
        const response = await service.post('/verify', LONG_BUNDLES[at % 10] as string);
        const text = await response.text();
        if (response.status !== 200)
          answers.push(`${response.status} ${response.headers.get('retry-after') ?? ''} ${text}`);
        else answers.push((JSON.parse(text) as Verdict).valid ? 'valid' : text);
      };
      // A burst may come so slowly that none of it waits.
      await eventually(async () => {
        await Promise.all(Array.from({ length: 200 }, ask));
        expect(new Set(answers)).toEqual(new Set(['valid', '503 1 {"error":"overloaded"}']));
      });
      expect((await fetch(`${service.url}/healthz`)).status).toBe(200);
      // Nothing is left over: single requests are served again.
      await expect
        .poll(async () => (await service.post('/verify', LONG_BUNDLES[0] as string)).status)
        .toBe(200);
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      expect(metricOf(metrics, 'drs_verify_pending')).toBe(0);
      expect(metricOf(metrics, 'drs_http_body_bytes')).toBe(0);
      const shed = answers.filter((answer) => answer !== 'valid').length;
      expect(metricOf(metrics, 'drs_verify_rejections_total{reason="overloaded"}')).toBeGreaterThanOrEqual(
        shed,
      );
    } finally {
      expect(await service.stop()).toBe(0);
    }
  });
});

describe('clients in flight', () => {
  let service: RunningService;
  // One for each: where callers have given up, those who come next may be refused for it.
  beforeEach(async () => {
    service = await startService({ RECEIPT_CACHE_BYTES: '0', WORKER_THREADS: '1' });
  });
  afterEach(() => service.stop());

  it('have no signatures spent on them when they have gone', async () => {
    const [bundle = ''] = LONG_BUNDLES;
    const abort = new AbortController();
    const gone = Array.from({ length: 300 }, () =>
      fetch(`${service.url}/verify`, { method: 'POST', body: bundle, signal: abort.signal }).then(
        (response) => response.text(),
        () => undefined,
      ),
    );
    // The first of them is answered, and all others are on their way.
    await Promise.any(gone);
    abort.abort();
    await Promise.all(gone);
    await expect
      .poll(async () => metricOf(await (await fetch(`${service.url}/metrics`)).text(), 'drs_verify_pending'))
      .toBe(0);
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    const verified = ['main', 'worker'].reduce(
      (sum, thread) => sum + metricOf(metrics, `drs_signatures_total{thread="${thread}"}`),
      0,
    );
    expect(verified).toBeLessThan(300 * 17);
    expect(metricOf(metrics, 'drs_signatures_pending')).toBe(0);
  });

  it('are answered when the service is asked to stop', async () => {
    const [bundle = ''] = LONG_BUNDLES;
    const answers = Array.from({ length: 60 }, async () => {
      const response = await service.post('/verify', bundle);
      return [response.status, (await response.json()) as Verdict | { error: string }] as const;
    });
    const outcomes = Promise.allSettled(answers);
    await answers[0];
    expect(await service.stop()).toBe(0);
    const settled = await outcomes;
    let checked = 0;
    for (const outcome of settled) {
      // A request that had not arrived yet may be refused or find the port closed; none may be answered wrongly.
      if (outcome.status === 'rejected') continue;
      const [status, answer] = outcome.value;
      if (status === 200) {
        checked++;
        expect(answer).toMatchObject({ valid: true });
      } else expect([status, answer]).toEqual([503, { error: 'shutting down' }]);
    }
    expect(checked).toBeGreaterThan(0);
    expect(service.log.map(({ msg }) => msg)).toEqual(expect.arrayContaining(['listening', 'stopped']));
  });
});
