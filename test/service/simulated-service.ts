import { Backlog, type BacklogLimits } from '../../src/service/load/backlog.js';

/** Processor time of the main thread in milliseconds, as measured on a machine where a signature takes 0.08. */
const READ_MS = 0.012;
const QUEUE_MS = 0.003;
const REFUSE_MS = 0.012;
const ACCEPT_MS = 0.04;
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
  readonly isNew: boolean;
  isOver: boolean;
}

/** How requests ended, and when. */
export interface Outcomes {
  readonly served: readonly { readonly client: number; readonly at: number; readonly took: number }[];
  readonly refused: readonly { readonly client: number; readonly at: number; readonly took: number }[];
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
  const { clients = 0, requestsEach = Infinity, patienceMs = Infinity, rate = 0 } = crowd;
  const left = new Array<number>(clients).fill(requestsEach);
  const served: Outcomes['served'][number][] = [];
  const refused: Outcomes['refused'][number][] = [];
  let gaveUp = 0;
  let longestTurnMs = 0;
  const arrivals = new Heap<{ at: number; asked: Asked | null }>();
  const impatient = new Heap<{ at: number; asked: Asked }>();
  const ask = (client: number, at: number, isNew: boolean) => {
    if (client >= 0 && (left[client] as number) <= 0) return;
    if (client >= 0) left[client] = (left[client] as number) - 1;
    const asked: Asked = { client, at, isNew, isOver: false };
    arrivals.push({ at: at + NETWORK_MS, asked });
    if (patienceMs < Infinity) impatient.push({ at: at + patienceMs, asked });
  };
  for (let client = 0; client < clients; client++) ask(client, 0, false);
  if (rate > 0) for (let at = 0; at < milliseconds; at += 1 / rate) ask(-1, at, false);
  const answer = (asked: Asked, isServed: boolean) => {
    now += isServed ? cost(served.length) : REFUSE_MS;
    if (asked.isOver) return;
    asked.isOver = true;
    (isServed ? served : refused).push({ client: asked.client, at: now, took: now - asked.at });
    if (asked.client >= 0) ask(asked.client, now + NETWORK_MS, false);
  };
  const giveUp = () => {
    for (let next = impatient.first; next !== undefined && next.at <= now; next = impatient.first) {
      impatient.pop();
      const { asked } = next;
      if (asked.isOver) continue;
      asked.isOver = true;
      gaveUp++;
      ask(asked.client, next.at, true);
    }
  };
  let stall = 0;
  while (now < milliseconds) {
    const startedAt = now;
    for (let next = stalls[stall]; next !== undefined && next[0] <= now; next = stalls[++stall])
      now += next[1];
    giveUp();
    const until = now;
    for (let next = arrivals.first; next !== undefined && next.at <= until; next = arrivals.first) {
      arrivals.pop();
      const { asked } = next;
      if (asked === null) continue;
      if (asked.isNew) now += ACCEPT_MS;
      if (asked.isOver) continue;
      now += READ_MS;
      if (backlog.hasTime()) answer(asked, true);
      else {
        now += QUEUE_MS;
        const isWaiting = backlog.add(address(asked.client), (isLate) => {
          if (!asked.isOver) answer(asked, !isLate);
        });
        if (!isWaiting) answer(asked, false);
      }
    }
    const turns = deferred;
    deferred = [];
    for (const turn of turns) turn();
    const due = paused as { at: number; turn: () => void } | null;
    if (due !== null && due.at <= now) {
      paused = null;
      due.turn();
    }
    longestTurnMs = Math.max(longestTurnMs, now - startedAt);
    if (deferred.length > 0) continue;
    const next = Math.min(
      arrivals.first?.at ?? Infinity,
      impatient.first?.at ?? Infinity,
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
