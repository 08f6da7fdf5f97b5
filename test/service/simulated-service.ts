import { Backlog, type BacklogLimits } from '../../src/service/load/backlog.js';
import type { Place } from '../../src/service/load/lanes.js';

/** Processor time of the main thread in milliseconds, as measured on a machine where a signature takes 0.08. */
export const READ_MS = 0.012;
export const QUEUE_MS = 0.003;
const REFUSE_MS = 0.012;
/** Of a request that is refused as it comes, besides reading it. */
export const REFUSE_AT_ONCE_MS = 0.004;
const ACCEPT_MS = 0.04;
const CLOSE_MS = 0.03;
const NETWORK_MS = 0.1;

/** Clients that ask a simulated service. */
export interface Crowd {
  /** Clients that each wait for their answer before they ask again. */
  readonly clients?: number;
  /** How often each of them asks. */
  readonly requestsEach?: number;
  /** Milliseconds after which a client closes its connection and asks again over a new one. */
  readonly patienceMs?: number;
  /** Requests per millisecond of other clients that wait for nothing. */
  readonly rate?: number;
  /** So many requests at once, at a time, each over a connection of its own, which is closed before the answer or not. */
  readonly bursts?: readonly { readonly at: number; readonly requests: number; readonly isClosed: boolean }[];
  /** Callers who share connections. Their patience counts from when they ask, also while they wait for a connection. */
  readonly pool?: Pool;
}

/** A pool of connections. One whose caller gave up is closed, and replaced by a new one. */
export interface Pool {
  readonly connections: number;
  /** Asked per millisecond. */
  readonly rate: number;
  readonly patienceMs: number;
  /** When another rate follows, and which. */
  readonly untilMs?: number;
  readonly then?: { readonly rate: number };
  /** Share of the callers whose patience ends at once. */
  readonly impatientShare?: number;
  /** Whether those who give up leave their connections open. */
  readonly stays?: boolean;
}

export interface Simulation extends Crowd {
  /** Processor time of a request that is served, by how many were served before. */
  readonly cost: (served: number) => number;
  readonly milliseconds: number;
  readonly limits: BacklogLimits;
  /** Moments at which the process stands still, and for how long. */
  readonly stalls?: readonly (readonly [at: number, milliseconds: number])[];
  /** Address of a client, by its number; -1 for those of the open rate. Default: all have the same. */
  readonly address?: (client: number) => string;
}

interface Asked {
  readonly client: number;
  readonly at: number;
  readonly sentAt: number;
  readonly isNew: boolean;
  /** Whether it has its answer, or its caller has given up. */
  isOver: boolean;
  /** Whether the service has read that its connection is closed. */
  hasGone: boolean;
  /** The turn in which it was read. */
  readIn: number;
  /** Where it waits in the service, or has waited. */
  place: Place | null;
}

interface Ended {
  readonly client: number;
  readonly at: number;
  /** Milliseconds since it was asked, and since it was sent, which differ in a pool. */
  readonly took: number;
  readonly tookThere: number;
}

/** How requests ended, and when. */
export interface Outcomes {
  readonly served: readonly Ended[];
  readonly refused: readonly Ended[];
  readonly gaveUp: number;
  /** The longest turn of the event loop. */
  readonly longestTurnMs: number;
}

/**
 * Runs a backlog in a simulated event loop: a turn reads what has arrived, then runs what was deferred. Time passes only
 * by the work that is done, so results depend on no machine.
 */
export function simulate({
  cost,
  milliseconds,
  limits,
  stalls = [],
  address = () => 'x',
  ...crowd
}: Simulation): Outcomes {
  let now = 0;
  let deferred: (() => void)[] = [];
  let paused: { at: number; turn: () => void } | null = null;
  const backlog = new Backlog(
    limits,
    { waitMs: 0 },
    {
      now: () => now,
      defer: (turn) => deferred.push(turn),
      pause: (turn) => (paused = { at: now + 1, turn }),
    },
  );
  const { clients = 0, requestsEach = Infinity, patienceMs = Infinity, rate = 0, pool, bursts = [] } = crowd;
  const left = new Array<number>(clients).fill(requestsEach);
  const served: Outcomes['served'][number][] = [];
  const refused: Outcomes['refused'][number][] = [];
  let gaveUp = 0;
  let longestTurnMs = 0;
  const arrivals = new Heap<{ at: number; asked: Asked; isClose?: true }>();
  const impatient = new Heap<{ at: number; asked: Asked }>();
  const ask = (client: number, at: number, isNew: boolean): Asked | null => {
    if (client >= 0 && (left[client] as number) <= 0) return null;
    if (client >= 0) left[client] = (left[client] as number) - 1;
    const asked: Asked = {
      client,
      at,
      sentAt: at,
      isNew,
      isOver: false,
      hasGone: false,
      readIn: -1,
      place: null,
    };
    arrivals.push({ at: at + NETWORK_MS, asked });
    if (patienceMs < Infinity) impatient.push({ at: at + patienceMs, asked });
    return asked;
  };
  // Callers of the pool wait for a connection, oldest first; those of its clients have the number -2.
  const callers: number[] = [];
  let sent = 0;
  const free = { old: pool?.connections ?? 0, fresh: 0 };
  const sendWaiting = () => {
    if (pool === undefined) return;
    while (free.old + free.fresh > 0 && callers.length > 0) {
      const at = callers.shift() as number;
      if (at + pool.patienceMs <= now) gaveUp++;
      else {
        const isNew = free.old === 0;
        if (isNew) free.fresh--;
        else free.old--;
        const asked: Asked = {
          client: -2,
          at,
          sentAt: now,
          isNew,
          isOver: false,
          hasGone: false,
          readIn: -1,
          place: null,
        };
        arrivals.push({ at: now + NETWORK_MS, asked });
        const isImpatient = sent++ % 1000 < 1000 * (pool.impatientShare ?? 0);
        impatient.push({ at: isImpatient ? now + NETWORK_MS / 2 : at + pool.patienceMs, asked });
      }
    }
  };
  const askFromPool = () => {
    if (pool === undefined) return;
    for (
      ;
      askedAt <= now;
      askedAt += 1 / (askedAt < (pool.untilMs ?? Infinity) ? pool : (pool.then ?? pool)).rate
    )
      callers.push(askedAt);
    while (callers[0] !== undefined && callers[0] + pool.patienceMs <= now) {
      callers.shift();
      gaveUp++;
    }
    sendWaiting();
  };
  let askedAt = pool === undefined ? Infinity : 0;
  for (let client = 0; client < clients; client++) ask(client, 0, false);
  for (const { at, requests, isClosed } of bursts)
    for (let n = 0; n < requests; n++) {
      const asked = ask(-1, at, true);
      if (isClosed && asked !== null) impatient.push({ at: at + 1.5 * NETWORK_MS, asked });
    }
  if (rate > 0) for (let at = 0; at < milliseconds; at += 1 / rate) ask(-1, at, false);
  const answer = (asked: Asked, costMs: number, isServed = false) => {
    now += costMs;
    asked.place = null;
    // The answer to a caller who has given up goes nowhere, and nothing tells the service.
    if (asked.isOver) return;
    asked.isOver = true;
    (isServed ? served : refused).push({
      ...{ client: asked.client, at: now, took: now - asked.at, tookThere: now - asked.sentAt },
    });
    if (asked.client >= 0) ask(asked.client, now + NETWORK_MS, false);
    if (asked.client === -2) free.old++;
  };
  /** Those who give up by now close their connections, of which the service reads after what they sent. */
  const giveUp = () => {
    for (let next = impatient.first; next !== undefined && next.at <= now; next = impatient.first) {
      impatient.pop();
      const { asked } = next;
      if (asked.isOver) continue;
      asked.isOver = true;
      gaveUp++;
      if (pool?.stays !== true) arrivals.push({ at: next.at + NETWORK_MS, asked, isClose: true });
      if (asked.client === -2) free.fresh++;
      else if (asked.client >= 0) ask(asked.client, next.at, true);
    }
  };
  const arrive = (asked: Asked) => {
    if (asked.isNew) now += ACCEPT_MS;
    now += READ_MS;
    asked.readIn = turn;
    const client = address(asked.client);
    if (backlog.isRefusing && backlog.refuses(client)) answer(asked, REFUSE_AT_ONCE_MS);
    else if (backlog.hasTime({ client })) answer(asked, cost(served.length), true);
    else {
      now += QUEUE_MS;
      asked.place = backlog.add(client, (isRefused) => {
        if (asked.hasGone) return;
        if (isRefused) answer(asked, REFUSE_MS);
        else answer(asked, cost(served.length), true);
      });
      if (asked.place === null) answer(asked, REFUSE_MS);
    }
  };
  let [stall, turn] = [0, 0];
  while (now < milliseconds) {
    const startedAt = now;
    for (let next = stalls[stall]; next !== undefined && next[0] <= now; next = stalls[++stall])
      now += next[1];
    giveUp();
    askFromPool();
    const until = now;
    const came: { asked: Asked; isClose?: true }[] = [];
    for (let next = arrivals.first; next !== undefined && next.at <= until; next = arrivals.first) {
      arrivals.pop();
      came.push(next);
    }
    for (const { asked, isClose } of came) {
      if (isClose !== true) arrive(asked);
      // What a connection has sent is read in one turn, and that it is closed in the next.
      else if (asked.readIn === turn) arrivals.push({ at: now, asked, isClose });
      else {
        now += CLOSE_MS;
        asked.hasGone = true;
        if (asked.place !== null) backlog.gaveUp({ client: address(asked.client) }, asked.place);
      }
    }
    const due = deferred;
    deferred = [];
    for (const task of due) task();
    turn++;
    const later = paused as { at: number; turn: () => void } | null;
    if (later !== null && later.at <= now) {
      paused = null;
      later.turn();
    }
    longestTurnMs = Math.max(longestTurnMs, now - startedAt);
    if (deferred.length > 0) continue;
    const next = Math.min(
      arrivals.first?.at ?? Infinity,
      impatient.first?.at ?? Infinity,
      askedAt,
      (paused as { at: number } | null)?.at ?? Infinity,
    );
    if (next === Infinity) break;
    now = Math.max(now, next);
  }
  return { served, refused, gaveUp, longestTurnMs };
}

/** The earliest first. */
class Heap<Item extends { readonly at: number }> {
  readonly #items: Item[] = [];

  get first(): Item | undefined {
    return this.#items[0];
  }

  push(item: Item): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((items[parent] as Item).at <= item.at) break;
      items[at] = items[parent] as Item;
      at = parent;
    }
    items[at] = item;
  }

  pop(): void {
    const items = this.#items;
    const last = items.pop();
    if (last === undefined || items.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && (items[child + 1] as Item).at < (items[child] as Item).at) child++;
      if ((items[child] as Item).at >= last.at) break;
      items[at] = items[child] as Item;
      at = child;
    }
    items[at] = last;
  }
}
