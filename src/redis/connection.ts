import { within } from './within.js';

/** To connect, and for what is asked of a Redis before it is used. No verification waits for either. */
export const PATIENCE_MS = 5_000;

/** A connection to one Redis primary, or to all primaries of a Redis Cluster. Replies come as RESP 2 has them. */
export interface RedisConnection {
  readonly isCluster: boolean;
  /** Whether commands can be sent. A connection to one server is never ready again once it is lost. */
  readonly isReady: boolean;
  /** Sends a command to the server that holds the key. */
  send(key: string, command: readonly string[]): Promise<unknown>;
  /** One section of INFO, from each primary; empty where Redis does not tell. */
  info(section: string): Promise<string[]>;
  /** A second connection to the same place, for a command that blocks. */
  duplicate(): Promise<RedisConnection>;
  close(): Promise<void>;
  /** Ends it without waiting for replies. */
  destroy(): void;
}

/** What {@link connectRedis} is told. */
export interface RedisTarget {
  /** `redis://` or `rediss://` (TLS) URLs, separated by commas; credentials are those of the first. */
  readonly url: string;
  /** Told when a connection to one server is lost, and of nodes of a cluster that are. */
  readonly onLost?: (error: Error) => void;
}

type Redis = typeof import('redis');

/**
 * Connects to the one primary among some servers, or, where a server says that it is part of one, to a Redis Cluster.
 *
 * Of two servers one is named first and the other second, and after a fail-over the second one is the primary: both are
 * asked. Where two of them say that they are the primary, neither is used, because one of them holds old data.
 *
 * @throws Error where there is no primary within 5 s, or more than one, or the package `redis` is not installed
 */
export async function connectRedis({ url, onLost = () => undefined }: RedisTarget): Promise<RedisConnection> {
  const redis = await loadRedis();
  const urls = splitUrls(url);
  const opened = await Promise.allSettled(urls.map((one) => connectOne(redis, one, onLost)));
  const found = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  try {
    if (found.some(({ facts }) => /^cluster_enabled:1/m.test(facts))) {
      for (const { connection } of found) connection.destroy();
      return await connectCluster(redis, urls, onLost);
    }
    const primaries = found.filter(({ facts }) => !/^role:(?!master)/m.test(facts));
    const [primary] = primaries;
    if (primary !== undefined && primaries.length === 1) {
      for (const { connection } of found) if (connection !== primary.connection) connection.destroy();
      return primary.connection;
    }
    if (primaries.length > 1)
      throw new Error(`${primaries.length} of its servers say that they are the primary; make one a replica`);
    const [failed] = opened.flatMap((result) =>
      result.status === 'rejected' ? [result.reason as Error] : [],
    );
    throw found.length === 0 && failed
      ? failed
      : new Error(
          'it is a replica, expected a primary; name the primary, or all servers separated by commas',
        );
  } catch (error) {
    for (const { connection } of found) connection.destroy();
    throw error;
  }
}

/** Where a Redis is, for messages: without credentials. */
export function placeOf(url: string): string {
  const places = splitUrls(url).map((one) => {
    const { protocol, host } = new URL(one);
    return `${protocol}//${host}`;
  });
  return `Redis at ${places.join(', ')}`;
}

/** The URLs of a list. */
export function splitUrls(list: string): string[] {
  return list
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '');
}

/** Why something failed, for messages; errors of sockets may have a code only. */
export function reasonOf(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  return message || code || 'no reason given';
}

async function loadRedis(): Promise<Redis> {
  try {
    return await import('redis');
  } catch (error) {
    throw new Error('the package "redis" is not installed; run `npm install redis`', { cause: error });
  }
}

async function connectOne(
  redis: Redis,
  url: string,
  onLost: (error: Error) => void,
): Promise<{ connection: RedisConnection; facts: string }> {
  const client = newClient(redis, url);
  const connection = await openClient(redis, client, onLost);
  try {
    // All of it: the role is in one section, whether it is a cluster in another.
    const facts = await askInfo(redis, within(PATIENCE_MS, client.info()));
    return { connection, facts: facts ?? '' };
  } catch (error) {
    connection.destroy();
    throw error;
  }
}

async function openClient(
  redis: Redis,
  client: ReturnType<typeof newClient>,
  onLost: (error: Error) => void,
): Promise<RedisConnection> {
  // An emitter without this listener throws. Until it is connected the promise tells.
  let isConnected = false;
  client.on('error', (error: Error) => {
    if (isConnected) onLost(error);
  });
  try {
    await within(PATIENCE_MS, client.connect());
  } catch (error) {
    client.destroy();
    throw error;
  }
  isConnected = true;
  return {
    isCluster: false,
    get isReady() {
      return client.isReady;
    },
    send: (_, command) => client.sendCommand(command),
    info: async (section) => {
      const text = await askInfo(redis, within(PATIENCE_MS, client.info(section)));
      return text === null ? [] : [text];
    },
    duplicate: () => openClient(redis, client.duplicate(), onLost),
    close: async () => {
      if (client.isReady) await client.close();
      else client.destroy();
    },
    destroy: () => {
      if (client.isOpen) client.destroy();
    },
  };
}

async function connectCluster(
  redis: Redis,
  urls: readonly string[],
  onLost: (error: Error) => void,
): Promise<RedisConnection> {
  const { protocol, username, password } = new URL(urls[0] as string);
  const cluster = redis.createCluster({
    rootNodes: urls.map((url) => ({ url })),
    RESP: 2,
    defaults: {
      ...(username === '' ? {} : { username: decodeURIComponent(username) }),
      ...(password === '' ? {} : { password: decodeURIComponent(password) }),
      disableOfflineQueue: true,
      socket:
        protocol === 'rediss:' ? { tls: true, connectTimeout: PATIENCE_MS } : { connectTimeout: PATIENCE_MS },
    },
  });
  cluster.on('error', onLost);
  cluster.on('node-error', onLost);
  try {
    await within(PATIENCE_MS, cluster.connect());
  } catch (error) {
    cluster.destroy();
    throw error;
  }
  return {
    isCluster: true,
    get isReady() {
      return cluster.isReady;
    },
    send: (key, command) => cluster.sendCommand(key, false, [...command]),
    info: async (section) => {
      const texts = await Promise.all(
        cluster.masters.map(async (node) => {
          const client = await cluster.nodeClient(node);
          return askInfo(redis, within(PATIENCE_MS, client.info(section)));
        }),
      );
      return texts.filter((text) => text !== null);
    },
    duplicate: () => connectCluster(redis, urls, onLost),
    close: () => cluster.close(),
    destroy: () => {
      if (cluster.isOpen) cluster.destroy();
    },
  };
}

/** @returns null where Redis refuses to tell, as some providers have it */
async function askInfo(redis: Redis, asking: Promise<string>): Promise<string | null> {
  try {
    return await asking;
  } catch (error) {
    if (error instanceof redis.ErrorReply) return null;
    throw error;
  }
}

function newClient(redis: Redis, url: string) {
  return redis.createClient({
    url,
    RESP: 2,
    // Without it, commands wait in a queue for Redis to come back, and calls with them.
    disableOfflineQueue: true,
    // Whoever uses it connects anew, and looks again which server is the primary.
    socket: { connectTimeout: PATIENCE_MS, reconnectStrategy: false },
  });
}
