import { LRUCache } from 'lru-cache';
import { DEFAULT_KEYS, type KeyResolver } from '../../protocol/key-resolver.js';
import { fetchBounded } from '../../trust/safe-fetch.js';
import type { RemoteStatus, RootList, RootLists } from '../../verify/parts.js';
import type { Deps } from '../observer.js';
import { printableUrl } from '../printable-url.js';
import { MAX_ROOT_LIST_BYTES, MAX_WIRE_BYTES } from './credential.js';
import { FetchTurns } from './fetch-turns.js';
import { resolveIssuer } from './list-issuer.js';
import { readStatusList } from './read-status-list.js';
import { readTokenList } from './read-token-list.js';
import { StatusListCache, type FetchedList, type ListTimes } from './status-list-cache.js';
import type { FetchOutcome } from './status-list-error.js';

/** Maximum size of all copies together: all lists of a row fit. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Lists of which something is known, with a copy or without one. */
const MAX_LISTS = 20_000;
/** Bytes of a copy besides its bits. */
const OVERHEAD_BYTES = 1024;
const MAX_NAMES = 20;
/** A list that nobody has needed since does not count as failing any more. */
const FAILING_MS = 300_000;
const ACCEPT = {
  token: 'application/statuslist+jwt',
  w3c: 'application/vc+jwt, application/vc;q=0.9, */*;q=0.8',
};

export interface RootListsOptions extends Pick<ListTimes, 'ttlSecs' | 'maxWaitMs'> {
  readonly clockSkewSecs: number;
  /** How many verifications may wait for lists at once. */
  readonly maxWaiting?: number | undefined;
  readonly keys?: KeyResolver | undefined;
}

/** A list, and the verifications that wait for it. */
interface Known {
  readonly list: StatusListCache;
  waiting: number;
}

/**
 * The lists of roots, in memory: fetched when a verification needs them, and kept fresh while they are used. Nothing is held, and no
 * timer runs, before the first one is needed.
 */
export class RootListCache {
  readonly #options: RootListsOptions;
  readonly #deps: Deps;
  readonly #turns = new FetchTurns();
  readonly #known = new LRUCache<string, Known>({
    maxSize: MAX_LISTS,
    sizeCalculation: () => 1,
    dispose: ({ list }, key) => {
      this.#copies.delete(key);
      this.#failing.delete(key);
      void list.close();
    },
  });
  /** Those with a copy. */
  readonly #copies = new LRUCache<string, StatusListCache>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ bytes }) => bytes + OVERHEAD_BYTES,
    // A new copy in its place is no reason to forget it.
    dispose: (list, _, reason) => {
      if (reason !== 'set') list.drop();
    },
  });
  /** Whose last fetch failed, and when. */
  readonly #failing = new Map<string, { readonly owner: string; readonly at: number }>();
  #waiting = 0;

  constructor(options: RootListsOptions, deps: Deps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Lists with a copy, and their bytes. */
  get stats(): { readonly lists: number; readonly bytes: number } {
    return { lists: this.#copies.size, bytes: this.#copies.calculatedSize };
  }

  /** Whose lists could not be fetched lately, by the names of their rows: at most 20, each with how many. */
  get failing(): ReadonlyMap<string, number> {
    const names = new Map<string, number>();
    for (const [key, { owner, at }] of this.#failing) {
      if (Math.abs(this.#deps.now() - at) > FAILING_MS) this.#failing.delete(key);
      else if (names.has(owner) || names.size < MAX_NAMES) names.set(owner, (names.get(owner) ?? 0) + 1);
    }
    return names;
  }

  /** Call this before a verification that needs these lists. As `StatusListCache.refreshIfStale`, for all of them. */
  refresh(lists: RootLists): Promise<void> | null {
    const waits: Promise<void>[] = [];
    let mayWait = true;
    for (const named of lists) {
      const known = this.#find(named);
      const wait = known.list.refreshIfStale();
      if (wait === null) continue;
      // Of those that may wait, a list leaves as many to others as it takes itself.
      const { maxWaiting = Infinity } = this.#options;
      if (known.waiting >= maxWaiting - this.#waiting) mayWait = false;
      else waits.push(this.#count(known, wait));
    }
    return mayWait && waits.length > 0 ? Promise.all(waits).then(() => undefined) : null;
  }

  /** The status of an index. Never waits. */
  statusOf(named: RootList, index: number): RemoteStatus {
    return this.#find(named).list.statusOf(index);
  }

  async close(): Promise<void> {
    const all = [...this.#known.values()];
    await Promise.all(all.map(({ list }) => list.close()));
  }

  async #count(known: Known, wait: Promise<void>): Promise<void> {
    known.waiting++;
    this.#waiting++;
    await wait;
    known.waiting--;
    this.#waiting--;
  }

  #find(named: RootList): Known {
    const { key } = named;
    this.#copies.get(key);
    const before = this.#known.get(key);
    if (before !== undefined) return before;
    const known = { list: this.#open(named), waiting: 0 };
    this.#known.set(key, known);
    return known;
  }

  #open(root: RootList): StatusListCache {
    const { ttlSecs, maxWaitMs, clockSkewSecs, keys = DEFAULT_KEYS } = this.#options;
    const { key, url, addresses, maxStaleSecs, issuer, form, name: id } = root;
    const limits = { clockSkewSecs, maxBytes: MAX_ROOT_LIST_BYTES };
    const named = { form: 'credential', id, issuer, keys, nameFrom: 'its id in the row', ...limits } as const;
    const read = ({ body, contentType }: FetchedList, nowMs: number) =>
      form === 'token'
        ? readTokenList(body, { name: id, issuer: resolveIssuer(issuer, keys), nowMs, ...limits })
        : readStatusList(body, contentType, { ...named, nowMs });
    const place = new URL(url);
    const options = { accept: ACCEPT[form], maxBytes: MAX_WIRE_BYTES, addresses };
    const list: StatusListCache = new StatusListCache({ ttlSecs, maxStaleSecs, maxWaitMs }, this.#deps, {
      fetch: (asked) => fetchBounded(place, { ...asked, ...options }),
      read: (fetched, nowMs) => this.#turns.read(() => read(fetched, nowMs)),
      isPinned: true,
      facts: { root: root.owner, url: printableUrl(place) },
      isForAll: false,
      inTurn: (stop, work) => this.#turns.take(this.#failing.has(key), stop, work),
      onFetched: (outcome) => this.#note(root, list, outcome),
    });
    return list;
  }

  #note({ key, owner }: RootList, list: StatusListCache, outcome: FetchOutcome): void {
    this.#deps.observer.rootListFetched?.(outcome);
    this.#failing.delete(key);
    // It may have been forgotten meanwhile.
    if (this.#known.peek(key)?.list !== list) return;
    if (outcome === 'updated' || outcome === 'not_modified') this.#copies.set(key, list);
    else this.#failing.set(key, { owner, at: this.#deps.now() });
  }
}
