import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { tmpdir } from 'node:os';
import { liveCall, liveChain } from '../middleware/call.js';
import { makeChain, type TestBundle } from '../support/chain.js';
import type { Property } from './property.js';
import type { Subject } from './subject.js';

type Grown = { readonly bundle: TestBundle; readonly body?: unknown };

const names = (n: number, form: (at: number) => string) => Array.from({ length: n }, (_, at) => form(at));
const members = (n: number, value: unknown = 1) =>
  Object.fromEntries(names(n, (at) => `m${at}.x`).map((name) => [name, value]));

/** Makes a call under two receipts with these policies, and with these claims in both. */
function under(parent: object, child: object, args: object, claims: object = {}): Grown {
  const now = Math.floor(Date.now() / 1000);
  const both = { iat: now - 60, nbf: now - 60, exp: now + 3600, ...claims };
  return {
    bundle: liveCall(makeChain(2, { 0: { ...both, policy: parent }, 1: { ...both, policy: child } }), args),
  };
}

/** Every part of a request that can be made longer. Parts that depend on each other grow together. */
const PLACES: Readonly<Record<string, { readonly max: number; readonly grow: (n: number) => Grown }>> = {
  ...Object.fromEntries(
    ['allowed_tools', 'allowed_data_classes', 'allowed_resources'].map((name) => [
      `${name} of parent and child`,
      {
        max: 16_000,
        grow: (n: number) =>
          under(
            { [name]: [...names(n, (at) => `a${at}`), 'search'] },
            { [name]: names(n, (at) => `a${at}`).reverse() },
            { tool: 'a1' },
          ),
      },
    ]),
  ),
  'prefixes of parent and child': {
    max: 16_000,
    grow: (n) =>
      under(
        { allowed_resources: names(n, (at) => `p${at}/*`) },
        { allowed_resources: names(n, (at) => `p${n - at - 1}/x`) },
        {},
      ),
  },
  'prefixes and a resource': {
    max: 16_000,
    grow: (n) =>
      under(
        { allowed_resources: names(n, (at) => `p${at}/*`) },
        { allowed_resources: names(n, (at) => `p${at}/*`) },
        { resource_uri: `p/${'a/'.repeat(n)}` },
      ),
  },
  'resources with segments': {
    max: 4_000,
    grow: (n) =>
      under(
        { allowed_resources: ['p/*'] },
        { allowed_resources: names(20, (at) => `p/${'a/'.repeat(n)}${at}`) },
        {},
      ),
  },
  'unknown members of parent and child': { max: 64_000, grow: (n) => under(members(n), members(n), {}) },
  'a command': { max: 4_096_000, grow: (n) => under({}, {}, {}, { cmd: '/a'.repeat(n) }) },
  'a jti': { max: 1_024_000, grow: (n) => under({}, {}, {}, { jti: `dr:${'a'.repeat(n)}` }) },
  'an issuer': { max: 64_000, grow: (n) => under({}, {}, {}, { aud: `did:key:z6Mk${'z'.repeat(n)}` }) },
  'arguments and body': {
    max: 64_000,
    grow: (n) => ({
      bundle: liveCall(liveChain(1), { tool: 'search', ...members(n) }),
      body: { ...members(n), tool: 'search' },
    }),
  },
  'a nested body': {
    max: 256_000,
    grow: (n) => ({
      bundle: liveCall(liveChain(1), { tool: 'search' }),
      body: JSON.parse(`${'['.repeat(Math.min(n, 3_000))}${']'.repeat(Math.min(n, 3_000))}`) as unknown,
    }),
  },
  'the references of an invocation': {
    max: 16_000,
    grow: (n) => ({
      bundle: liveCall(
        liveChain(1),
        { tool: 'search' },
        { dr_chain: names(n, (at) => `sha256:${String(at).padStart(64, '0')}`) },
      ),
    }),
  },
  'a list of receipts': {
    max: 64_000,
    grow: (n) => {
      const bundle = liveCall(liveChain(1), { tool: 'search' });
      return { bundle: { ...bundle, receipts: names(n, () => bundle.receipts[0] ?? '') } };
    },
  },
  'members of a consent': { max: 64_000, grow: (n) => under({}, {}, {}, { drs_consent: members(n, {}) }) },
};

const STEPS = [256, 64, 16, 4, 1];
/** The limit for the growth of time with four times the input. Quadratic growth would be 16. */
const MAX_RATIO = 10;
const MIN_MILLISECONDS = 60;

async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  let least = Infinity;
  for (let times = 0; times < 2; times++) {
    const start = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(start);
    least = Math.min(least, (user + system) / 1000);
    if (least < MIN_MILLISECONDS) break;
  }
  return least;
}

/** The time of every check is O(n log n) in its input at most, and every input gets a verdict. */
export const growth: Property = {
  name: 'work grows with its input',
  async check(subject) {
    const found: string[] = [];
    const verifier = await subject.verifier({ receiptCacheBytes: 0 });
    for (const [place, { max, grow }] of Object.entries(PLACES)) {
      let before = Infinity;
      for (const step of STEPS) {
        const { bundle, body } = grow(Math.ceil(max / step));
        let rejected: Error | undefined;
        const took = await cpuOf(() =>
          verifier.verify(bundle, { body }).catch((error: unknown) => {
            rejected = error instanceof Error ? error : new Error('something that is no Error');
          }),
        );
        if (rejected !== undefined) {
          found.push(
            `${place}, ${max / step} of them: verify() rejects with ${rejected.message.slice(0, 120)}`,
          );
          break;
        }
        if (took > MIN_MILLISECONDS && took > MAX_RATIO * Math.max(before, 2)) {
          found.push(
            `${place}: ${before.toFixed(0)} ms, then ${took.toFixed(0)} ms for four times as many (${max / step})`,
          );
          break;
        }
        before = took;
      }
    }
    await verifier.close();
    return found;
  },
};

/** Everything that is reserved for a request is given back, above all the count of waiting requests. */
export const pending: Property = {
  name: 'pending counts return to zero',
  async check(subject) {
    const found: string[] = [];
    const service = await subject.serve({
      MAX_PENDING: '3',
      MAX_BODY_BYTES: '40000000',
      MAX_BODY_MEMORY: '1000000000',
    });
    if (service === undefined) return ['the service does not start'];
    const sound = liveCall(liveChain(1), { tool: 'search' });
    for (const [place, { max, grow }] of Object.entries(PLACES)) {
      if (max < 1_000_000) continue;
      const { bundle } = grow(max);
      for (let times = 0; times < 4; times++) {
        const answer = await service.post('/verify', bundle).catch(() => undefined);
        await answer?.text();
      }
      const { status } = await service.post('/verify', sound);
      if (status !== 200) {
        found.push(`after ${place} a sound request gets ${status}`);
        break;
      }
    }
    // Requests whose clients disconnect while they are being read, or are waiting.
    for (let times = 0; times < 8; times++)
      await fetch(`${service.url}/verify`, {
        method: 'POST',
        body: JSON.stringify({ x: 'x'.repeat(3_000_000) }),
        signal: AbortSignal.timeout(times * 3),
      }).catch(() => undefined);
    const { status } = await service.post('/verify', sound);
    if (status !== 200) found.push(`after aborted requests a sound one gets ${status}`);
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    const waiting = /^drs_(?:verify_)?pending(?:_requests)?(?:\{\})? (\d+)/m.exec(metrics)?.[1];
    if (waiting !== undefined && waiting !== '0')
      found.push(`${waiting} requests wait forever, according to /metrics`);
    await service.stop();
    return found;
  },
};

/** The commands report what is wrong with a bundle of any size, and do not crash. */
export const commands: Property = {
  name: 'commands survive any bundle',
  async check(subject: Subject) {
    const found: string[] = [];
    for (const [place, { max, grow }] of Object.entries(PLACES)) {
      const file = path.join(tmpdir(), `drs-property-${process.pid}.json`);
      writeFileSync(
        file,
        JSON.stringify(grow(place.startsWith('unknown members') ? 150_000 : Math.min(max, 4_000)).bundle),
      );
      const { code, output } = await subject.run(['audit', file]);
      if (code === null || code > 3 || /RangeError|TypeError|at .*\.js:\d+/.test(output))
        found.push(`audit of ${place}: exit code ${code}, ${/\w*Error[^\n]{0,80}/.exec(output)?.[0] ?? ''}`);
    }
    return found;
  },
};
