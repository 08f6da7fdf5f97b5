import { Agent, request } from 'node:http';
import { randomUUID } from 'node:crypto';
import { invoke, makeChain, type Chain, type Overrides, type TestBundle } from '../support/chain.js';

/** The kinds of calls. The kind decides which answers are allowed. */
export type Kind = 'good' | 'forged' | 'policy' | 'expired' | 'revoked' | 'replayed';

/** A delegation that is used for calls. */
export interface Delegation {
  readonly chain: Chain;
  /** `null`: it cannot be revoked. */
  readonly index: number | null;
  /** When its revocation was acknowledged, in milliseconds of `performance.now()`. */
  revokedAt: number;
}

/** The answer to one call. */
export interface Answer {
  readonly status: number;
  readonly valid: boolean;
  readonly code: string;
}

/** An answer that must never occur. */
export interface Violation {
  readonly what: string;
  readonly kind: Kind;
  readonly afterMs: number;
}

const SHARES: readonly (readonly [Kind, number])[] = [
  ['forged', 0.03],
  ['policy', 0.03],
  ['expired', 0.02],
  ['revoked', 0.05],
  ['replayed', 0.03],
];

/** Options of the traffic. */
export interface TrafficOptions {
  readonly url: string;
  /** Calls per second at the start. They are sent on time, whether or not earlier ones were answered. */
  readonly rate: number;
  readonly depths?: readonly number[];
  /** Seconds by which the clock of the service is ahead of ours, if a fault changes it. */
  readonly aheadSecs?: () => number;
  /** Whether the service must refuse an invocation that it accepted before. */
  readonly isReplayRefused?: boolean;
  readonly connections?: number;
  /** Calls that wait for an answer at the same time; those beyond are left out, and counted. */
  readonly maxUnderWay?: number;
  readonly timeoutMs?: number;
}

/**
 * Sends calls of every kind to a service at a constant rate, and checks every answer. A call that is forged, expired,
 * outside its policy, revoked or repeated must never get `valid: true`, whatever else goes wrong.
 */
export class Traffic {
  readonly delegations: Delegation[] = [];
  readonly violations: Violation[] = [];
  readonly counts: Record<string, number> = {};
  /** Latencies in milliseconds of good calls with a verdict, since the last {@link takeLatencies}. */
  #latencies: number[] = [];
  /** When a good call last got `valid: true`. */
  lastValidAt = 0;
  /** Calls that were not sent, because too many others waited. */
  leftOut = 0;
  /** Calls per second; may be changed at any time. */
  rate: number;
  #firstValidSince = { asked: Infinity, seen: Infinity };
  readonly #options: Required<TrafficOptions>;
  #agent: Agent;
  #timer: NodeJS.Timeout | undefined;
  #underWay = 0;
  #accepted: TestBundle[] = [];
  #nextIndex = 1;

  constructor(options: TrafficOptions) {
    this.#options = {
      depths: [1, 2, 3, 5],
      aheadSecs: () => 0,
      isReplayRefused: false,
      connections: 32,
      maxUnderWay: Infinity,
      timeoutMs: 15_000,
      ...options,
    };
    this.rate = options.rate;
    this.#agent = this.#newAgent();
    for (let at = 0; at < 40; at++) this.add();
  }

  #newAgent(): Agent {
    return new Agent({ keepAlive: true, maxSockets: this.#options.connections });
  }

  /** Adds a delegation. Each has its own status list index, unless one is given. */
  add(isRevocable = true, given?: number): Delegation {
    const depth = pick(this.#options.depths);
    const now = this.#now();
    const index = isRevocable ? (given ?? this.#nextIndex++ % 130_000) : null;
    const times = { exp: now + 7200, iat: now - 60, nbf: now - 7200 };
    const root = { ...times, ...(index === null ? {} : { drs_status_list_index: index }) };
    const overrides = Object.fromEntries(
      Array.from({ length: depth }, (_, at) => [at, at === 0 ? root : times]),
    );
    const delegation = { chain: makeChain(depth, overrides), index, revokedAt: Infinity };
    this.delegations.push(delegation);
    return delegation;
  }

  /** Removes the oldest delegations, so that at most a number of them is left. */
  keep(count: number): void {
    this.delegations.splice(0, Math.max(0, this.delegations.length - count));
  }

  #now(): number {
    return Math.floor(Date.now() / 1000 + this.#options.aheadSecs());
  }

  start(): void {
    let due = 0;
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      // If this process itself was suspended, the calls that it missed are left out: they would be a flood.
      due = Math.min(due + ((now - last) / 1000) * this.rate, this.rate);
      last = now;
      for (; due > 0; due--) {
        if (this.#underWay < this.#options.maxUnderWay) void this.send();
        else this.leftOut++;
      }
    }, 5);
  }

  /** Stops sending calls. */
  pause(): void {
    clearInterval(this.#timer);
  }

  async stop(): Promise<void> {
    this.pause();
    const end = performance.now() + this.#options.timeoutMs + 1000;
    while (this.#underWay > 0 && performance.now() < end) await sleep(20);
    this.#agent.destroy();
  }

  /** Closes every connection as soon as it has no call; the next calls open new ones. */
  reconnect(): void {
    const old = this.#agent;
    this.#agent = this.#newAgent();
    old.maxFreeSockets = 0;
    for (const sockets of Object.values(old.freeSockets))
      for (const socket of sockets ?? []) socket.destroy();
    setTimeout(() => old.destroy(), this.#options.timeoutMs).unref();
  }

  takeLatencies(): number[] {
    const taken = this.#latencies;
    this.#latencies = [];
    return taken;
  }

  /** Resolves with the milliseconds until a good call, sent from now on, gets `valid: true`. */
  async untilValid(limitMs: number): Promise<number> {
    const asked = performance.now();
    this.#firstValidSince = { asked, seen: Infinity };
    while (this.#firstValidSince.seen === Infinity && performance.now() - asked < limitMs) await sleep(5);
    return this.#firstValidSince.seen - asked;
  }

  /** Sends one call, of a random kind by default, and checks its answer. */
  async send(kind: Kind = kindAtRandom()): Promise<Answer | null> {
    const made = this.#make(kind);
    if (made === null) return kind === 'good' ? null : this.send('good');
    return this.#ask(kind, made.bundle, made.delegation);
  }

  /** Makes one call under a delegation. Everything else in it is valid. */
  async call(delegation: Delegation): Promise<Answer | null> {
    const overrides = { iat: this.#now(), jti: `inv:${randomUUID()}` };
    return this.#ask('good', invoke(delegation.chain, overrides), delegation);
  }

  async #ask(kind: Kind, bundle: TestBundle, delegation: Delegation | null): Promise<Answer | null> {
    const sent = performance.now();
    // Only revocations that were acknowledged before the call was sent must be in force.
    const isRevoked = delegation !== null && delegation.revokedAt < sent;
    this.#underWay++;
    const answer = await post(
      this.#agent,
      `${this.#options.url}/verify`,
      JSON.stringify(bundle),
      this.#options.timeoutMs,
    );
    this.#underWay--;
    const taken = performance.now() - sent;
    const name =
      answer === null ? 'no answer' : answer.valid ? 'valid' : answer.code || String(answer.status);
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    if (answer === null) return null;
    if (answer.valid && (kind !== 'good' || isRevoked)) {
      this.violations.push({ what: 'a wrong valid: true', kind, afterMs: sent });
    }
    if (kind === 'good' && !isRevoked && answer.valid) {
      this.#latencies.push(taken);
      this.lastValidAt = performance.now();
      const since = this.#firstValidSince;
      if (sent >= since.asked) since.seen = Math.min(since.seen, this.lastValidAt);
      if (this.#options.isReplayRefused && this.#accepted.length < 500) this.#accepted.push(bundle);
    }
    return answer;
  }

  #make(kind: Kind): { bundle: TestBundle; delegation: Delegation | null } | null {
    const now = this.#now();
    const of = (delegation: Delegation, overrides: Overrides = {}) => ({
      bundle: invoke(delegation.chain, { iat: now, jti: `inv:${randomUUID()}`, ...overrides }),
      delegation,
    });
    if (kind === 'replayed') {
      const bundle = this.#accepted.shift();
      return bundle === undefined ? null : { bundle, delegation: null };
    }
    const sent = performance.now();
    const wanted = this.delegations.filter(({ revokedAt }) => revokedAt < sent === (kind === 'revoked'));
    if (wanted.length === 0) return null;
    const made = of(pick(wanted));
    switch (kind) {
      case 'good':
      case 'revoked':
        return made;
      case 'policy':
        return of(pick(wanted), { args: { tool: 'delete', estimated_cost_usd: 0.01 } });
      case 'expired': {
        const times = { exp: now - 3600, iat: now - 7200, nbf: now - 7200 };
        const chain = makeChain(1, { 0: times });
        return { bundle: invoke(chain, { iat: now - 3700, jti: `inv:${randomUUID()}` }), delegation: null };
      }
      case 'forged': {
        const { bundle } = made;
        const cut = bundle.invocation.lastIndexOf('.') + 1;
        const signature = Buffer.from(bundle.invocation.slice(cut), 'base64url');
        const at = Math.floor(Math.random() * signature.length);
        signature[at] = (signature[at] ?? 0) ^ 1;
        return {
          bundle: {
            ...bundle,
            invocation: bundle.invocation.slice(0, cut) + signature.toString('base64url'),
          },
          delegation: made.delegation,
        };
      }
    }
  }
}

/** Posts JSON. @returns `null` if no complete answer came */
async function post(
  agent: Agent | undefined,
  url: string,
  body: string,
  timeoutMs: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer | null> {
  return new Promise((resolve) => {
    const sent = request(
      url,
      {
        method: 'POST',
        agent,
        timeout: timeoutMs,
        headers: {
          'Content-Type': 'application/json',
          'Content-Length': Buffer.byteLength(body),
          ...headers,
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.once('error', () => resolve(null));
        response.once('end', () => {
          try {
            const said = JSON.parse(Buffer.concat(chunks).toString()) as {
              valid?: unknown;
              error?: { code?: string } | string;
            };
            const code = typeof said.error === 'string' ? said.error : (said.error?.code ?? '');
            resolve({ status: response.statusCode ?? 0, valid: said.valid === true, code });
          } catch {
            resolve(null);
          }
        });
      },
    );
    sent.once('timeout', () => sent.destroy(new Error('no answer in time')));
    sent.once('error', () => resolve(null));
    sent.end(body);
  });
}

/** Asks for a revocation. @returns whether it was acknowledged */
export async function revoke(
  url: string,
  token: string,
  delegation: Delegation,
  timeoutMs = 10_000,
): Promise<boolean> {
  const answer = await post(
    undefined,
    `${url}/admin/revoke`,
    JSON.stringify({ status_list_index: delegation.index }),
    timeoutMs,
    { Authorization: `Bearer ${token}` },
  );
  if (answer?.status !== 200) return false;
  delegation.revokedAt = Math.min(delegation.revokedAt, performance.now());
  return true;
}

export const sleep = async (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function pick<T>(items: readonly T[]): T {
  return items[Math.floor(Math.random() * items.length)] as T;
}

function kindAtRandom(): Kind {
  let at = Math.random();
  for (const [kind, share] of SHARES) if ((at -= share) < 0) return kind;
  return 'good';
}
