import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import net from 'node:net';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import {
  makeChain,
  party,
  signJwt,
  childClaims,
  rootClaims,
  type Chain,
  type Party,
  type TestBundle,
} from '../support/chain.js';
import type { Property } from './property.js';
import { sleep, type Service, type Verifier } from './subject.js';

/** Changes everything in a value that can be changed. */
function scribble(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const item of Object.values(value)) scribble(item);
  const target = value as Record<string, unknown>;
  try {
    if (Array.isArray(value)) value.push('*');
    else
      for (const name of Object.keys(target))
        target[name] = typeof target[name] === 'number' ? 1e9 : target[name];
  } catch {
    // It is frozen, which is fine too.
  }
}

/** A caller that changes an answer cannot change later answers. */
export const shared: Property = {
  name: 'answers share nothing with later answers',
  async check(subject) {
    const found: string[] = [];
    const verifier = await subject.verifier();
    const chain = liveChain(2, { policy: { allowed_tools: ['search'], max_cost_usd: 1, 'x.y': { a: [1] } } });
    const ask = (args: object) => verifier.verify(liveCall(chain, args), { body: args, details: true });
    const before = JSON.stringify((await ask({ tool: 'search' })).context);
    for (let times = 0; times < 3; times++) {
      scribble(await ask({ tool: 'search' }));
      const after = JSON.stringify((await ask({ tool: 'search' })).context);
      if (after !== before) found.push(`a context became ${after.slice(0, 200)}`);
      for (const args of [{ tool: 'delete' }, { tool: 'search', estimated_cost_usd: 5 }])
        if ((await ask(args)).valid) found.push(`${JSON.stringify(args)} became valid`);
    }
    await verifier.close();
    return found;
  },
};

const collect = () => (globalThis as { gc?: () => void }).gc?.();
const heap = () => {
  collect();
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return (heapUsed + arrayBuffers) / 2 ** 20;
};

/** The receipt cache never holds more memory than it was given, for any receipts. */
export const cacheMemory: Property = {
  name: 'the cache holds no more than it was given',
  async check(subject) {
    const found: string[] = [];
    const limitMib = 6;
    const shapes: Record<string, (at: number) => readonly TestBundle[]> = {
      'many small nodes': (at) =>
        callsTwice(
          makeChain(1, { 0: { ...now(), 'x.y': JSON.parse(`[${'[],'.repeat(6000)}${at}]`) as unknown } }),
        ),
      'many members': (at) =>
        callsTwice(
          makeChain(1, {
            0: {
              ...now(),
              'x.y': Object.fromEntries(Array.from({ length: 1500 }, (_, n) => [`m${at}-${n}`, n])),
            },
          }),
        ),
      'a policy of many members': (at) =>
        callsTwice(
          makeChain(1, {
            0: {
              ...now(),
              policy: Object.fromEntries(Array.from({ length: 1500 }, (_, n) => [`m${at}.${n}`, [n]])),
            },
          }),
        ),
      'long chains with a leaf of their own': (at) =>
        callsTwice(
          makeChain(
            8,
            Object.fromEntries(
              Array.from({ length: 8 }, (_, n) => [
                n,
                { ...now(), 'x.y': `${at}-${n}-${'x'.repeat(4_000)}` },
              ]),
            ),
          ),
        ),
      'many short ones': (at) => callsTwice(makeChain(2, { 0: { ...now(), jti: `dr:${at}` }, 1: now() })),
    };
    for (const [shape, make] of Object.entries(shapes)) {
      const verifier = await subject.verifier({ receiptCacheBytes: limitMib * 2 ** 20 });
      await ask(verifier, make(-1));
      const before = heap();
      const count = shape.startsWith('many short') ? 600 : 250;
      for (let at = 0; at < count; at++) await ask(verifier, make(at));
      const grown = heap() - before;
      if (grown > 2 * limitMib + 4)
        found.push(`${shape}: ${grown.toFixed(0)} MiB of heap in a cache of ${limitMib} MiB`);
      await verifier.close();
    }
    return found;
  },
};

const START = Math.floor(Date.now() / 1000);
/** All receipts have the same window: if a second passed between two receipts, the child would end after its parent. */
const now = () => ({ iat: START - 60, nbf: START - 60, exp: START + 3600 });
const callsTwice = (chain: ReturnType<typeof makeChain>) =>
  [1, 2].map(() => liveCall(chain, { tool: 'search' }));

async function ask(verifier: Verifier, bundles: readonly TestBundle[]): Promise<void> {
  for (const bundle of bundles) await verifier.verify(bundle);
}

const BODIES = 110;

/** Many large bodies at once take bounded memory, and the service still answers. */
export const bodies: Property = {
  name: 'bodies that come at once take bounded memory',
  async check(subject) {
    const found: string[] = [];
    const service = await subject.serve();
    if (service === undefined) return ['the service does not start'];
    // Valid bundles, so that they are parsed and then wait together for a thread.
    const sound = JSON.stringify(liveCall(liveChain(4), { tool: 'search' }));
    const body = `${sound.slice(0, -1)},"body":[${'[],'.repeat(345_000)}0]}`;
    const head = `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const sockets = await Promise.all(
      Array.from({ length: BODIES }, async () => {
        const socket = net.connect(service.port, '127.0.0.1');
        socket.on('error', () => undefined);
        socket.resume();
        await once(socket, 'connect');
        socket.write(head + body.slice(0, -1));
        return socket;
      }),
    );
    await sleep(1500);
    for (const socket of sockets) socket.write('}');
    let highest = 0;
    for (let times = 0; times < 40; times++) {
      highest = Math.max(highest, residentOf(service.pid));
      await sleep(100);
    }
    const isAlive = await service.answers(60_000);
    highest = Math.max(highest, residentOf(service.pid));
    if (!isAlive) found.push(`${BODIES} bodies of 1 MB: /healthz does not answer`);
    if (highest > 700) found.push(`${BODIES} bodies of 1 MB: ${highest} MiB resident`);
    for (const socket of sockets) socket.destroy();
    await service.stop();
    return found;
  },
};

function residentOf(pid: number): number {
  try {
    return Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024);
  } catch {
    return 0;
  }
}

/**
 * A service keeps answering while chains come and go. The requests are those of an honest client: fresh chains, or fresh
 * leaves below known chains, each sent twice, and in all more than the cache takes.
 */
export const churn: Property = {
  name: 'churn never stops a service',
  async check(subject) {
    const found: string[] = [];
    const bytes = 2 ** 22;
    const traffic: Record<string, () => Iterable<TestBundle>> = {
      'more and more principals with long chains': () => freshLeaves(trunks(40, 15, 0)),
      'more and more principals with large roots': () => freshLeaves(trunks(80, 1, bytes / 64)),
      'fresh chains': () => trunks(2_000, 2, 0).map(callBelow),
      'fresh chains with large roots': () => trunks(100, 2, bytes / 64).map(callBelow),
      'fresh chains with huge roots': () => trunks(20, 2, bytes / 8).map(callBelow),
    };
    for (const [kind, bundles] of Object.entries(traffic)) {
      const service = await subject.serve({ RECEIPT_CACHE_BYTES: String(bytes) });
      if (service === undefined) return ['the service does not start'];
      const broken = await sendTwice(service, bundles());
      if (broken !== null) found.push(`${kind}: ${broken}`);
      await service.stop();
    }
    return found;
  },
};

/** What went wrong, or `null`. No machine is so busy that one chain takes twenty seconds. */
async function sendTwice(service: Service, bundles: Iterable<TestBundle>): Promise<string | null> {
  let sent = 0;
  for (const bundle of bundles) {
    const text = JSON.stringify(bundle);
    for (let times = 0; times < 2; times++) {
      sent++;
      const answer = await service
        .post('/verify', text, {}, AbortSignal.timeout(20_000))
        .then((response) => response.text())
        .catch((error: unknown) => String(error));
      if (answer.includes('"valid":true')) continue;
      const alive = (await service.answers()) ? 'answers' : 'does not answer';
      return `request ${sent}: ${answer.slice(0, 100)}; /healthz ${alive} within 20 s`;
    }
  }
  return (await service.answers()) ? null : `/healthz does not answer after ${sent} requests`;
}

/** Chains of as many principals, each with a root of about so many characters more than an ordinary one. */
function trunks(principals: number, depth: number, characters: number): Chain[] {
  // base64url makes four characters of three.
  const filling = characters === 0 ? {} : { 'x.y': 'x'.repeat(0.75 * characters) };
  return Array.from({ length: principals }, () => {
    const parties: Party[] = Array.from({ length: depth + 1 }, party);
    const receipts: string[] = [];
    for (let at = 0; at < depth; at++) {
      const [root, issuer, audience] = [parties[0], parties[at], parties[at + 1]] as [Party, Party, Party];
      const claims =
        at === 0
          ? rootClaims(issuer, audience, { ...now(), ...filling })
          : childClaims(receipts[at - 1] as string, root, issuer, audience, now());
      receipts.push(signJwt(claims, issuer));
    }
    return { parties, receipts };
  });
}

const callBelow = (chain: Chain): TestBundle => liveCall(chain, { tool: 'search' });

/**
 * A fresh leaf for each task, below the chains of some principals. Their number grows by a twentieth each time, so at
 * some time these chains just fill the cache, whatever it counts for a chain.
 */
function* freshLeaves(all: readonly Chain[]): Generator<TestBundle> {
  let task = 0;
  for (let principals = 2; principals <= all.length; principals += Math.ceil(principals / 20))
    for (let round = 0; round < 2; round++)
      for (const { parties, receipts } of all.slice(0, principals)) {
        const [root, issuer, agent] = [parties[0], parties.at(-1), party()] as [Party, Party, Party];
        const claims = { ...now(), jti: `dr:${task++}` };
        const leaf = signJwt(childClaims(receipts.at(-1) as string, root, issuer, agent, claims), issuer);
        yield callBelow({ parties: [root, agent], receipts: [...receipts, leaf] });
      }
}

/** A handler of a call that was not verified finds no context, wherever it is called from. */
export const contexts: Property = {
  name: 'no context reaches a handler without a bundle',
  async check(subject) {
    const middleware = await subject.load<Middleware>('middleware/index.js');
    const verifier = await subject.verifier();
    const says = () => {
      try {
        return JSON.stringify(middleware.drsContext() ?? null);
      } catch {
        return 'null';
      }
    };
    const required = { trustedRoots: 'any', serverIdentity: 'any', replayStore: 'none', tool: 'any' };
    const make = (options: object, handler: () => Promise<Response>) => {
      // The required options depend on the version.
      try {
        return middleware.drsFetch(options, handler);
      } catch {
        return middleware.drsFetch({ ...options, ...required }, handler);
      }
    };
    const inner = make({ verifier, optional: true }, () => Promise.resolve(new Response(says())));
    const found: string[] = [];
    const asked = () => new Request('http://tool.example/', { method: 'POST', body: '{}' });
    const outer = (call: () => Promise<Response>) => make({ verifier }, call);
    const args = { tool: 'search' };
    const waysIn: Record<string, () => Promise<Response>> = {
      'at once': () => inner(asked()),
      'from a timer': () => sleep(1).then(() => inner(asked())),
      'from a promise': () => Promise.resolve().then(() => inner(asked())),
    };
    for (const [way, call] of Object.entries(waysIn)) {
      const request = new Request('http://tool.example/', {
        method: 'POST',
        headers: { 'X-DRS-Bundle': encode(liveCall(liveChain(1), args)), 'content-type': 'application/json' },
        body: JSON.stringify(args),
      });
      const text = await (await outer(call)(request)).text();
      if (text !== 'null')
        found.push(`a handler called ${way} inside a verified one finds ${text.slice(0, 120)}`);
    }
    await verifier.close();
    return found;
  },
};

interface Middleware {
  drsFetch(options: object, handler: () => Promise<Response>): (request: Request) => Promise<Response>;
  drsContext(): unknown;
}
