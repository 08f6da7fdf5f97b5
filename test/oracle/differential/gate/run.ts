import { TOOLS } from '../run.js';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { decide, Replays } from '../../gate.js';
import { NOW, SERVERS, STATUS_LIST_BITS } from '../../generator/forest.js';
import { didOf, KEYS } from '../../generator/keys.js';
import { SPARE_SECS } from '../../../../src/usage/counters.js';
import type { Revoked } from '../request.js';
import { Random } from '../../generator/random.js';
import type { Revocation } from '../../oracle.js';
import { verifyRemembered as verifySignature } from '../signatures.js';
import { gateRequests, type GateRequest } from './requests.js';
import { ROUTES, type GateWorld as World } from './routes.js';
import { lineOf, openDoors, type GateDoor } from './doors.js';

/** One thing that happens to all gates. */
export type GateStep =
  | {
      readonly kind: 'ask';
      readonly requests: readonly GateRequest[];
      readonly together: boolean;
      readonly aborted: boolean;
    }
  | { readonly kind: 'clock'; readonly now: number }
  | { readonly kind: 'revoke'; readonly target: Revoked }
  /** A new status list. The clock is set to a time at which no copy of the old list is usable. */
  | { readonly kind: 'list'; readonly remote: string; readonly now: number };

export interface GateDifference {
  readonly way: string;
  readonly world: World;
  readonly request: GateRequest;
  readonly expected: string;
  readonly actual: string;
  readonly steps: readonly GateStep[];
}

export interface GateRunOptions {
  readonly decisions: number;
  readonly seed: number;
  readonly epoch?: number;
  readonly firstEpoch?: number;
  readonly onDifference: (difference: GateDifference) => void;
  readonly onProgress?: (decisions: number, epoch: number) => void;
}

export interface GateRunResult {
  decisions: number;
  readonly lines: Map<string, number>;
  /** How many decisions each door made, how many of them allowed a call, and which requests it could not carry. */
  readonly doors: Map<string, number>;
  differences: number;
}

/** Compares every way to ask a gate with the oracle, with jumping clocks, changing lists and replays. */
export async function runGates(options: GateRunOptions): Promise<GateRunResult> {
  const result: GateRunResult = { decisions: 0, lines: new Map(), doors: new Map(), differences: 0 };
  for (let epoch = options.firstEpoch ?? 0; result.decisions < options.decisions; epoch++) {
    const random = new Random(options.seed * 1_000_003 + epoch);
    const world = WORLDS[epoch % WORLDS.length] as World;
    const steps: GateStep[] = [];
    const end = Math.min(options.decisions, result.decisions + (options.epoch ?? 20_000));
    const game = await Game.open(world, result.doors);
    try {
      const next = stepsOf(random, world);
      while (result.decisions < end) {
        const step = next();
        steps.push(step);
        const played = await game.play(step);
        result.decisions += played.length;
        for (const { expected, actual, ...found } of played) {
          // A context may hold any text.
          const [name = ''] = expected.split(' {');
          count(result.lines, name);
          count(result.doors, `${found.way}: decisions`);
          if (name === 'allow') count(result.doors, `${found.way}: allowed`);
          if (expected === actual) continue;
          result.differences++;
          options.onDifference({ ...found, expected, actual, world, steps: [...steps] });
        }
      }
    } finally {
      await game.close();
    }
    options.onProgress?.(result.decisions, epoch);
  }
  return result;
}

const LIST = 'ff00000000000000000000000000000000000000000000000000000000000000';
const WORLDS: readonly World[] = [
  { name: 'plain', settings: {}, remote: 'none', routes: ROUTES },
  { name: 'tools', settings: { tools: TOOLS }, remote: 'none', routes: ROUTES },
  { name: 'list', settings: {}, remote: Uint8Array.from(Buffer.from(LIST, 'hex')) },
  {
    name: 'strict',
    settings: {
      trustedRoots: [didOf(0), { did: didOf(1), name: 'Zoë', labels: { team: 'sales' } }, didOf(2)],
      serverIdentity: SERVERS[0] ?? '',
      ...{ clockSkewSecs: 100, expiryGraceSecs: 50 },
      maxChainDepth: 4,
    },
    remote: 'none',
    routes: ROUTES,
  },
];

/** The steps of an epoch. */
function stepsOf(random: Random, world: World): () => GateStep {
  const request = gateRequests(random, world.routes);
  let base = NOW;
  let now = NOW;
  let jumps = 0;
  return () => {
    const kind = random.next();
    if (kind < 0.01)
      return {
        kind: 'revoke',
        target: random.chance(0.05) ? didOf(random.below(KEYS)) : random.below(STATUS_LIST_BITS),
      };
    if (kind < 0.02 && world.remote !== 'none') {
      // Jump forth and back. Far behind, a gate may call anything lost.
      jumps++;
      base += jumps % 2 === 0 ? -random.pick([400, 400, 400, 2_000]) : 10_000;
      now = base;
      const bits = Uint8Array.from({ length: STATUS_LIST_BITS / 8 }, () =>
        random.chance(0.3) ? 1 << random.below(8) : 0,
      );
      return {
        kind: 'list',
        remote: random.chance(0.15) ? 'unavailable' : Buffer.from(bits).toString('hex'),
        now,
      };
    }
    if (kind < 0.15) {
      now = base + random.pick([0, 0, 1, -1, 10, 11, -10, -11, 20, 61, -61]);
      return { kind: 'clock', now };
    }
    const fresh = Array.from({ length: 1 + random.below(3) }, () => request(now));
    const requests = random.shuffled(
      fresh.flatMap((one) => Array<GateRequest>(random.pick([1, 1, 2])).fill(one)),
    );
    return { kind: 'ask', requests, together: random.chance(0.4), aborted: random.chance(0.03) };
  };
}

/** @see Replays.isLost */
interface Expected {
  readonly line: string;
  readonly isLost: boolean;
}

type Played = Pick<GateDifference, 'way' | 'request' | 'expected' | 'actual'>;

const realNow = Date.now;

/** Gates and oracle in the same state. It controls the clock of this process until it is closed. */
export class Game {
  readonly #world: World;
  readonly #host: ListHost;
  readonly #doors: Awaited<ReturnType<typeof openDoors>>;
  readonly #replays = new Map<string, Replays>();
  readonly #counts: Map<string, number>;
  readonly #local = new Set<Revoked>();
  #remote: Revocation['remote'];
  #now = NOW;
  #latest = NOW;

  private constructor(
    world: World,
    host: ListHost,
    doors: Awaited<ReturnType<typeof openDoors>>,
    counts: Map<string, number>,
  ) {
    this.#counts = counts;
    this.#world = world;
    this.#host = host;
    this.#doors = doors;
    this.#remote = world.remote;
  }

  /** @param counts where it counts the requests that doors cannot carry */
  static async open(world: World, counts = new Map<string, number>()): Promise<Game> {
    setClock(NOW);
    const host = await openHost(world.remote);
    return new Game(world, host, await openDoors(world, host.url), counts);
  }

  async close(): Promise<void> {
    await this.#doors.close();
    await this.#host.close();
    Date.now = realNow;
  }

  /** Whether a door refuses because of what it forgot while the clock was ahead: an invocation, or a counter (docs/spec/usage.md). */
  #hasForgotten({ line, isLost }: Expected, actual: string): boolean {
    if (actual !== 'deny 503 REPLAY_STORE_UNAVAILABLE') return false;
    if (isLost && /^allow|REPLAY_DETECTED$|LIMIT_REACHED$/.test(line)) return true;
    return /^allow|LIMIT_REACHED$/.test(line) && this.#latest - this.#now > SPARE_SECS;
  }

  async play(step: GateStep): Promise<Played[]> {
    switch (step.kind) {
      case 'clock':
        this.#setNow(step.now);
        return [];
      case 'revoke':
        await this.#doors.revoke(step.target);
        this.#local.add(step.target);
        return [];
      case 'list':
        this.#remote =
          step.remote === 'unavailable' ? step.remote : Uint8Array.from(Buffer.from(step.remote, 'hex'));
        // A fetch that is under way would bring the old list to the new time.
        await this.#host.isIdle();
        this.#host.serve(this.#remote);
        this.#setNow(step.now);
        return [];
      case 'ask':
        if (!step.together && !step.aborted) return this.#inOrder(step.requests);
        // Which of several calls takes what is left of a limit is not specified.
        return [
          ...(await this.#together(step.requests.filter((request) => !this.#isLimited(request)))),
          ...(await this.#inOrder(step.requests.filter((request) => this.#isLimited(request)))),
        ];
    }
  }

  #setNow(now: number): void {
    this.#latest = Math.max(this.#latest, now);
    setClock((this.#now = now));
  }

  #isLimited(request: GateRequest): boolean {
    return this.#doors.doors.some((door) => {
      const seen = door.sees(request);
      if (seen === undefined || typeof seen === 'number') return false;
      const { settings } = this.#world;
      const revocation = { remote: this.#remote, local: this.#local };
      const answer = decide({ ...seen, now: this.#now, settings, revocation, verifySignature });
      return answer.decision === 'allow' && 'unenforced' in answer.context;
    });
  }

  async #inOrder(requests: readonly GateRequest[]): Promise<Played[]> {
    const played: Played[] = [];
    for (const request of requests)
      for (const door of this.#inTurn([request])) {
        const expected = this.#expected(door, request);
        if (expected === undefined) continue;
        const actual = await askOf(door, request);
        const { line } = expected;
        if (!this.#hasForgotten(expected, actual))
          played.push({ way: door.name, request, expected: line, actual });
        else if (line.startsWith('allow')) this.#replays.get(door.scope)?.takeBack();
      }
    return played;
  }

  /** Sends requests at the same time. Any of several equal calls may be the first, so their answers are sorted. */
  async #together(requests: readonly GateRequest[]): Promise<Played[]> {
    const played: Played[] = [];
    for (const door of this.#inTurn(requests)) {
      const expectations = requests.map((request) => [request, this.#expected(door, request)] as const);
      const carried = expectations.flatMap(([request, one]) => (one === undefined ? [] : [request]));
      const expected = expectations.flatMap(([, one]) => one ?? []);
      const actual = await Promise.all(carried.map((request) => askOf(door, request)));
      for (const request of new Set(carried)) {
        const mine = <T>(all: readonly T[]) => all.filter((_, at) => carried[at] === request);
        const wanted = mine(expected).sort((one, other) => (one.line < other.line ? -1 : 1));
        const found = mine(actual).sort();
        for (const [at, one] of wanted.entries()) {
          const line = found[at] ?? '';
          if (!this.#hasForgotten(one, line))
            played.push({ way: door.name, request, expected: one.line, actual: line });
        }
      }
    }
    return played;
  }

  /** Another door is the first for other requests: of those with one store, only the first allows a call. */
  #inTurn(requests: readonly GateRequest[]): readonly GateDoor[] {
    const seed = requests.reduce((sum, { body }) => sum + body.length, 0);
    return new Random(seed).shuffled(this.#doors.doors);
  }

  #expected(door: GateDoor, request: GateRequest): Expected | undefined {
    const seen = door.sees(request);
    if (seen === undefined) {
      count(this.#counts, `${door.name}: left out, ${door.leavesOut?.(request) ?? 'it cannot carry them'}`);
      return undefined;
    }
    if (typeof seen === 'number') return { line: `status ${seen}`, isLost: false };
    const { settings } = this.#world;
    const replays = this.#replays.get(door.scope) ?? new Replays(settings.clockSkewSecs);
    this.#replays.set(door.scope, replays);
    const revocation = { remote: this.#remote, local: this.#local };
    // The others are middleware.
    const asksVerifier = !/^(\/v1\/gate|guard)/.test(door.scope);
    const rest = { revocation, replays, verifySignature, asksVerifier };
    replays.isLost = false;
    const answer = decide({ ...seen, now: this.#now, settings, ...rest });
    return { line: lineOf(answer, door.members), isLost: replays.isLost };
  }
}

const askOf = (door: GateDoor, request: GateRequest) =>
  door.ask(request).catch((error: unknown) => `threw ${String(error)}`);

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

let clockSecs = NOW;
// Always the same function: who keeps it, as the reader of the status list does, sees the clock jump as well.
const gameNow = () => clockSecs * 1000;

function setClock(now: number): void {
  clockSecs = now;
  Date.now = gameNow;
}

interface ListHost {
  readonly url: string | undefined;
  /** Waits until every fetch that it answered is over. */
  isIdle(): Promise<void>;
  serve(remote: Revocation['remote']): void;
  close(): Promise<void>;
}

async function openHost(first: Revocation['remote']): Promise<ListHost> {
  if (first === 'none') {
    const nothing = () => Promise.resolve();
    return { url: undefined, isIdle: nothing, serve: () => undefined, close: nothing };
  }
  let remote: Revocation['remote'] = first;
  const server = createServer((_, response) => {
    if (remote instanceof Uint8Array)
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(remote);
    else response.writeHead(500).end();
  }).listen(0, '127.0.0.1');
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  await once(server, 'listening');
  return {
    // Readers close their connection after each answer.
    async isIdle() {
      for (const socket of open) await once(socket, 'close');
      for (let turn = 0; turn < 3; turn++) await setImmediate();
    },
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/list`,
    serve: (next) => (remote = next),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
