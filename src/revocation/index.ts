import { CLOCKS, type RemoteStatus, type RevocationView, type RootLists } from '../verify/parts.js';
import type { RevocationRequest } from './entry.js';
import { LocalStore } from './store/local-store.js';
import type { RevocationObserver } from './observer.js';
import { RedisStore, type RedisStoreOptions } from './store/redis-store.js';
import type { RevocationStore, StoreDeps } from './store/revocation-store.js';
import { operatorsList, type StatusListOptions } from './lists/operators-list.js';
import { RootListCache, type RootListsOptions } from './lists/root-lists.js';
import type { ListUnreadyReason } from './lists/status-list-cache.js';

export {
  membersOf,
  readRevocationRequest,
  toJson,
  type RevocationRequest,
  type RevocationJson,
} from './entry.js';
export type { RevocationLog, RevocationObserver } from './observer.js';
export type { StatusListOptions } from './lists/operators-list.js';
export type { FetchOutcome } from './lists/status-list-error.js';
export { RevocationStoreError } from './store/revocation-store.js';

/** Why an instance is not ready. */
export type UnreadyReason = ListUnreadyReason | 'revocation_store_unreachable';

export interface RevocationOptions extends Pick<StoreDeps, 'maxEntries' | 'log'> {
  /** The file of the local store. Without it and {@link redis}, local revocations are lost with the process. */
  readonly storePath?: string | undefined;
  /** The Redis in which instances share local revocations. Replaces the file. */
  readonly redis?: RedisStoreOptions | undefined;
  /** The remote list. Without it, only the local store counts, and the service is ready at once. */
  readonly statusList?: StatusListOptions | undefined;
  /** How lists of roots are fetched; as in docs/configuration.md by default. */
  readonly rootLists?: Partial<RootListsOptions> | undefined;
  readonly observer?: RevocationObserver | undefined;
  /** Unix milliseconds; the clock of the host by default. */
  readonly now?: (() => number) | undefined;
}

const DEFAULTS: RootListsOptions = { ttlSecs: 300, maxWaitMs: 2_000, clockSkewSecs: CLOCKS.clockSkewSecs };

/** Both sources of revocation, as {@link openRevocation} opens them. */
export type Revocation = Awaited<ReturnType<typeof openRevocation>>;

/**
 * Opens the revocation state: reads the local store and starts fetching the remote list, without waiting for it.
 *
 * @throws {@link RevocationStoreError} if the local store is in use by another process or cannot be read
 */
export async function openRevocation(options: RevocationOptions) {
  const { log, observer = {}, now = Date.now, maxEntries, redis, storePath, statusList } = options;
  const deps = { log, observer, now, maxEntries };
  const list = statusList ? operatorsList(statusList, deps) : null;
  const ofRoots = new RootListCache({ ...DEFAULTS, ...options.rootLists }, deps);
  const store: RevocationStore = redis
    ? await RedisStore.open(redis, deps)
    : await LocalStore.open(storePath, deps);
  list?.start();
  const noteLookUp = (status: RemoteStatus): RemoteStatus => {
    if (status === 'revoked' || status === 'not_revoked' || status === 'suspended')
      observer.lookedUp?.('remote', status !== 'not_revoked');
    return status;
  };
  /** For block F: the copies of the remote lists at this moment, and the local store. */
  const view: RevocationView = {
    remoteStatusOf: (index) => (list === null ? 'not_configured' : noteLookUp(list.statusOf(index))),
    statusIn: (named, index) => noteLookUp(ofRoots.statusOf(named, index)),
    isRevokedLocally(index) {
      const revoked = store.entries.has(index);
      observer.lookedUp?.('local', revoked);
      return revoked;
    },
    get names() {
      return store.entries.names;
    },
    isNameRevoked: (name) => store.entries.has(name),
  };
  return {
    view,
    store,
    /** The operator's list; `null` without one. */
    list,
    /** The lists of roots. */
    ofRoots,
    /** Call this before reading {@link view} for a verification whose chain has an index; see {@link StatusListCache}. */
    refreshIfStale: () => list?.refreshIfStale() ?? null,
    /** The same for lists of a root. */
    refreshLists: (lists: RootLists) => ofRoots.refresh(lists),
    /**
     * Revokes something in the local store.
     *
     * @param asked what `readRevocationRequest` has read
     * @returns resolves when it is on disk, or in Redis and on all ready instances. The next verification respects it
     * @throws {@link RevocationStoreError} if it could not be recorded; then it does not count, unless it is `unconfirmed`
     */
    revoke: (asked: RevocationRequest) => store.record({ ...asked, at: now() }),
    /** What is not checked: the remote list, or what is in Redis meanwhile. Empty if all revocations are checked. */
    unreadyReasons: (): UnreadyReason[] => {
      const ofStore = store.isCurrent ? null : ('revocation_store_unreachable' as const);
      return [list?.unreadyReason ?? null, ofStore].filter((reason) => reason !== null);
    },
    /** Ends fetches and timers, finishes pending writes and releases the file. */
    close: async () => {
      await list?.close();
      await ofRoots.close();
      await store.close();
    },
  };
}
