import { rejectAfter } from './reject-after.js';

/** Time limit for connecting and for the checks before a Redis is used. No verification waits for these. */
export const CONNECT_TIMEOUT_MS = 5_000;

/** A connection to one Redis primary, or to all primaries of a Redis Cluster. Replies are in RESP 2 form. */
export interface RedisConnection {
  readonly isCluster: boolean;
  /** Whether commands can be sent. A lost connection to a single server is never ready again. */
  readonly isReady: boolean;
  /** Sends a command to the server that holds the key. */
  send(key: string, command: readonly string[]): Promise<unknown>;
  /**
   * One section of INFO, from each primary; `null` where Redis refuses the command.
   *
   * @param isEachNeeded whether to reject if any primary does not answer. Otherwise those are left out, and it rejects
   *   if none answers.
   */
  info(section: string, isEachNeeded: boolean): Promise<(string | null)[]>;
  /**
   * The names that match a pattern, from each primary. Each name in Redis is looked at, some thousands in one step.
   *
   * @param timeoutMs after which it rejects
   */
  scan(pattern: string, timeoutMs: number): Promise<string[]>;
  /** Opens a second connection to the same Redis, for blocking commands. */
  duplicate(): Promise<RedisConnection>;
  close(): Promise<void>;
  /** Closes the connection without waiting for replies. */
  destroy(): void;
}

/** Version 2 of the protocol: all replies are as `send` says. */
const PROTOCOL = { RESP: 2 } as const;

type Package = typeof import('redis');

/** What this file uses of the package `redis`. */
interface Redis extends Pick<Package, 'RedisCluster' | 'ErrorReply'> {
  readonly newClient: ReturnType<typeof clientsOf>;
}

/**
 * Makes the class of all clients, with a function for each of some hundred commands. The `createClient` of the package
 * makes one for each address: 20 ms in which nothing else is done, at each try to connect.
 */
const clientsOf = ({ RedisClient }: Package) => RedisClient.factory(PROTOCOL);

let loaded: Redis | null = null;

/** Why there is no connection although servers may answer. The message says what to do. */
class RedisTargetError extends Error {}

/** How Redis refuses who has not logged in. */
const LOGIN = /^(?:NOAUTH|WRONGPASS)\b/;

/** The error of a connection, in words if it is about user and password. */
function explained(error: unknown): unknown {
  if (!LOGIN.test((error as Error).message)) return error;
  const message =
    'it refuses the user and password of its URL, or needs some; give the right ones, redis://user:password@host';
  return new RedisTargetError(message, { cause: error });
}

/**
 * Connects to the only primary among several servers, or to a Redis Cluster if a server says that it belongs to one.
 *
 * All listed servers are asked for their role, since a fail-over may have made any of them the primary. If two say that
 * they are the primary, neither is used, because one of them has old data.
 *
 * @param list `redis://` or `rediss://` (TLS) URLs, separated by commas. The credentials of the first apply to all.
 * @param onLost called when the connection to a single server or to a cluster node is lost
 * @throws Error that says where there is no connection, why, and what to do: if there is no primary within 5 s, or more
 *   than one, or the package `redis` is not installed
 */
export async function connectRedis(
  list: string,
  onLost: (error: Error) => void = () => undefined,
): Promise<RedisConnection> {
  try {
    return await connectAny(await loadRedis(), splitUrls(list), onLost);
  } catch (error) {
    const advice = error instanceof RedisTargetError ? '' : '; start it, or correct the address';
    throw new Error(`cannot connect to ${placeOf(list)}: ${reasonOf(error)}${advice}`, { cause: error });
  }
}

async function connectAny(redis: Redis, urls: readonly string[], onLost: (error: Error) => void) {
  const opened = await Promise.allSettled(urls.map((url) => connectOne(redis, url, onLost)));
  const found = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const primaries = found.filter(({ facts }) => !/^role:(?!master)/m.test(facts));
  const [primary] = primaries;
  const isCluster = found.some(({ facts }) => /^cluster_enabled:1/m.test(facts));
  const used = isCluster || primaries.length > 1 ? undefined : primary?.connection;
  for (const { connection } of found) if (connection !== used) connection.destroy();
  if (used !== undefined) return used;
  if (isCluster) return connectCluster(redis, urls, onLost);
  if (primary !== undefined)
    throw new RedisTargetError(
      `${primaries.length} of its servers say that they are the primary; make one a replica`,
    );
  const [failed] = opened.flatMap((result) => (result.status === 'rejected' ? [result.reason as Error] : []));
  throw found.length === 0 && failed
    ? failed
    : new RedisTargetError(
        'it is a replica, expected a primary; name the primary, or all servers separated by commas',
      );
}

/** The address of a Redis for messages, without credentials. */
export function placeOf(list: string): string {
  const places = splitUrls(list).map((url) => {
    const { protocol, host } = new URL(url);
    return `${protocol}//${host}`;
  });
  return `Redis at ${places.join(', ')}`;
}

function splitUrls(list: string): string[] {
  return list
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '');
}

/** The reason of an error, for messages. Socket errors may have only a code. */
export function reasonOf(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  return message || code || 'no reason given';
}

async function loadRedis(): Promise<Redis> {
  if (loaded !== null) return loaded;
  try {
    const redis = await import('redis');
    const { RedisCluster, ErrorReply } = redis;
    return (loaded = { RedisCluster, ErrorReply, newClient: clientsOf(redis) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new RedisTargetError('the package "redis" is not installed; `npm install redis@6.3.1` adds it', {
      cause: error,
    });
  }
}

type Client = ReturnType<Redis['newClient']>;

async function connectOne(
  redis: Redis,
  url: string,
  onLost: (error: Error) => void,
): Promise<{ connection: RedisConnection; facts: string }> {
  const client = redis.newClient({
    ...PROTOCOL,
    url,
    // With a queue, commands (and verifications) would wait until Redis is back.
    disableOfflineQueue: true,
    // The caller reconnects, and asks again which server is the primary.
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: false },
  });
  const connection = await openClient(redis, client, onLost);
  try {
    // All sections: one has the role, another says whether it is a cluster.
    return { connection, facts: (await askInfo(redis, client)) ?? '' };
  } catch (error) {
    connection.destroy();
    throw error;
  }
}

async function openClient(
  redis: Redis,
  client: Client,
  onLost: (error: Error) => void,
): Promise<RedisConnection> {
  // Without a listener, an emitter throws errors. Until it is connected, the promise reports them.
  let isConnected = false;
  client.on('error', (error: Error) => {
    if (isConnected) onLost(error);
  });
  try {
    await rejectAfter(CONNECT_TIMEOUT_MS, client.connect());
  } catch (error) {
    client.destroy();
    throw explained(error);
  }
  isConnected = true;
  return connectionOver(redis, client, {
    isCluster: false,
    primaries: () => [Promise.resolve(client)],
    send: (_, command) => client.sendCommand(command),
    duplicate: () => openClient(redis, client.duplicate(), onLost),
  });
}

async function connectCluster(
  redis: Redis,
  urls: readonly string[],
  onLost: (error: Error) => void,
): Promise<RedisConnection> {
  const { protocol, username, password } = new URL(urls[0] as string);
  const socket = { connectTimeout: CONNECT_TIMEOUT_MS };
  const cluster = redis.RedisCluster.factory(PROTOCOL)({
    ...PROTOCOL,
    rootNodes: urls.map((url) => ({ url })),
    defaults: {
      ...(username === '' ? {} : { username: decodeURIComponent(username) }),
      ...(password === '' ? {} : { password: decodeURIComponent(password) }),
      disableOfflineQueue: true,
      socket: protocol === 'rediss:' ? { ...socket, tls: true } : socket,
    },
  });
  cluster.on('error', onLost);
  cluster.on('node-error', onLost);
  try {
    await rejectAfter(CONNECT_TIMEOUT_MS, cluster.connect());
  } catch (error) {
    cluster.destroy();
    throw error;
  }
  return connectionOver(redis, cluster, {
    isCluster: true,
    primaries: () =>
      cluster.masters.map((node) =>
        rejectAfter(CONNECT_TIMEOUT_MS, Promise.resolve(cluster.nodeClient(node) as unknown as Client)),
      ),
    send: (key, command) => cluster.sendCommand(key, false, [...command]),
    duplicate: () => connectCluster(redis, urls, onLost),
  });
}

/** What a client of one server and one of a cluster have in common. */
function connectionOver(
  redis: Redis,
  client: {
    readonly isReady: boolean;
    readonly isOpen: boolean;
    close(): Promise<unknown>;
    destroy(): void;
  },
  own: Pick<RedisConnection, 'isCluster' | 'send' | 'duplicate'> & { primaries(): Promise<Client>[] },
): RedisConnection {
  const destroy = () => {
    if (client.isOpen) client.destroy();
  };
  return {
    ...own,
    get isReady() {
      return client.isReady;
    },
    info: async (section, isEachNeeded) => {
      const asking = own.primaries().map(async (one) => askInfo(redis, await one, section));
      const answers = await Promise.allSettled(asking);
      const texts = answers.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      return isEachNeeded || texts.length === 0 ? Promise.all(asking) : texts;
    },
    scan: async (pattern, timeoutMs) => {
      const scans = own.primaries().map(async (one) => scanAll(await one, pattern, timeoutMs));
      return (await Promise.all(scans)).flat();
    },
    close: async () => {
      if (client.isReady) await client.close();
      else destroy();
    },
    destroy,
  };
}

/** Names in one step of a scan: one millisecond for Redis, in which it does nothing else. */
const SCAN_COUNT = 5_000;

/** The names in one server that match a pattern. */
async function scanAll(client: Client, pattern: string, timeoutMs: number): Promise<string[]> {
  const deadline = performance.now() + timeoutMs;
  const found = new Set<string>();
  let cursor = '0';
  do {
    const left = deadline - performance.now();
    if (left <= 0) throw new Error(`not all names could be looked at within ${timeoutMs} ms`);
    const step = client.sendCommand(['SCAN', cursor, 'MATCH', pattern, 'COUNT', String(SCAN_COUNT)]);
    const [next, names] = (await rejectAfter<unknown>(left, step)) as [string, string[]];
    for (const name of names) found.add(name);
    cursor = next;
  } while (cursor !== '0');
  return [...found];
}

/** @returns `null` if Redis refuses the command, as with some providers */
async function askInfo(redis: Redis, client: Client, ...section: string[]): Promise<string | null> {
  try {
    return await rejectAfter(CONNECT_TIMEOUT_MS, client.info(...section));
  } catch (error) {
    if (error instanceof redis.ErrorReply && !LOGIN.test(error.message)) return null;
    throw explained(error);
  }
}
