import type { EventEmitter } from 'node:events';

/** Time limit for connecting and for the checks before a Redis is used. No verification waits for these. */
export const CONNECT_TIMEOUT_MS = 5_000;

/** A connection to one Redis primary, or to all primaries of a Redis Cluster. Replies are in RESP 2 form. */
export interface RedisConnection {
  readonly isCluster: boolean;
  /** INFO of a primary, as it was connected; empty where Redis refuses the command. */
  facts: string;
  /** Called when the connection, which is then of no more use, or that to a node of a cluster is lost. */
  onLost: (error: Error) => void;
  /** Sends a command to the server that holds the key. */
  send(key: string, command: readonly string[]): Promise<unknown>;
  /** INFO of each primary that answers; `null` where Redis refuses the command. Rejects if none answers. */
  info(): Promise<(string | null)[]>;
  /** A name that matches a pattern, of any primary. Redis looks at every name, some thousands in one step. */
  find(pattern: string): Promise<string | undefined>;
  /** Opens a second connection to the same Redis, for blocking commands. */
  duplicate(): Promise<RedisConnection>;
  /** Closes the connection without waiting for replies. */
  destroy(): void;
}

/** Version 2 of the protocol: all replies are as `send` says. */
const PROTOCOL = { RESP: 2 } as const;

async function load() {
  try {
    const { RedisClient, RedisCluster, ErrorReply } = await import('redis');
    // The class of all clients has a function for each of some hundred commands. The `createClient` of the package makes
    // one for each address: 20 ms in which nothing else is done, at each try to connect.
    return { RedisCluster, ErrorReply, newClient: RedisClient.factory(PROTOCOL) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error('the package "redis" is not installed; `npm install redis@6.3.1` adds it', {
      cause: error,
    });
  }
}

type Redis = Awaited<ReturnType<typeof load>>;
let loaded: Redis | null = null;

/**
 * Connects to the only primary among several servers, or to a Redis Cluster if a server says that it belongs to one.
 *
 * All listed servers are asked for their role, since a fail-over may have made any of them the primary. If two say that
 * they are the primary, neither is used, because one of them has old data.
 *
 * @param list `redis://` or `rediss://` (TLS) URLs, separated by commas. The credentials of the first apply to all.
 * @throws Error that says where, why, and what to do: no primary within 5 s, or more than one, or no package `redis`
 */
export async function connectRedis(list: string): Promise<RedisConnection> {
  try {
    const redis = (loaded ??= await load());
    const urls = splitUrls(list);
    const opened = await Promise.allSettled(urls.map((url) => connectOne(redis, url)));
    const found = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const isCluster = found.some(({ facts }) => /^cluster_enabled:1/m.test(facts));
    const primaries = found.filter(({ facts }) => !/^role:(?!master)/m.test(facts));
    const used = isCluster || primaries.length > 1 ? undefined : primaries[0];
    for (const connection of found) if (connection !== used) connection.destroy();
    if (used !== undefined) return used;
    if (isCluster) return await connectCluster(redis, urls);
    if (found.length === 0) throw (opened[0] as PromiseRejectedResult).reason as Error;
    const says = `${primaries.length} of its servers say that they are the primary, expected one`;
    throw new Error(`${says}: name all of them, separated by commas, and make the others replicas`);
  } catch (error) {
    throw new Error(`cannot connect to ${placeOf(list)}: ${reasonOf(error)}`, { cause: error });
  }
}

/** The address of a Redis for messages, without credentials. */
export function placeOf(list: string): string {
  const urls = splitUrls(list).map((url) => new URL(url));
  return `Redis at ${urls.map(({ protocol, host }) => `${protocol}//${host}`).join(', ')}`;
}

const splitUrls = (list: string) => list.split(/[\s,]+/).filter((url) => url !== '');

/** The reason of an error, for messages. Socket errors may have only a code. */
export function reasonOf(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  return message || code || 'no reason given';
}

type Send = (command: readonly string[]) => Promise<unknown>;

function connectOne(redis: Redis, url: string): Promise<RedisConnection> {
  const client = redis.newClient({
    ...PROTOCOL,
    url,
    // With a queue, commands (and verifications) would wait until Redis is back.
    disableOfflineQueue: true,
    // Its own limit costs an AbortSignal a command, and holds only until that is written: `rejectAfter` bounds each. A cluster
    // keeps it, since a node that hangs does not end the connection: what is queued for it would grow for ever.
    commandOptions: { timeout: 0 },
    // The caller reconnects, and asks again which server is the primary.
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: false },
  });
  const send: Send = (command) => client.sendCommand(command);
  return open(redis, client, {
    isCluster: false,
    primaries: () => [send],
    send: (_, command) => send(command),
    duplicate: () => connectOne(redis, url),
  });
}

function connectCluster(redis: Redis, urls: readonly string[]): Promise<RedisConnection> {
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
  return open(redis, cluster, {
    isCluster: true,
    primaries: () =>
      cluster.masters.map((node) => async (command) => (await cluster.nodeClient(node)).sendCommand(command)),
    send: (key, command) => cluster.sendCommand(key, false, [...command]),
    duplicate: () => connectCluster(redis, urls),
  });
}

async function open(
  { ErrorReply }: Redis,
  client: EventEmitter & { readonly isOpen: boolean; connect(): Promise<unknown>; destroy(): void },
  own: Pick<RedisConnection, 'isCluster' | 'send' | 'duplicate'> & { primaries(): Send[] },
): Promise<RedisConnection> {
  const connection: RedisConnection = {
    ...own,
    facts: '',
    onLost: () => undefined,
    info: async () => {
      const asking = own.primaries().map((send) => rejectAfter(CONNECT_TIMEOUT_MS, send(['INFO'])));
      const answers = await Promise.allSettled(asking);
      const texts = answers.flatMap((one) => {
        if (one.status === 'fulfilled') return [String(one.value)];
        // Some providers refuse INFO. A client that has not logged in is refused everything.
        const isRefused = one.reason instanceof ErrorReply && !one.reason.message.startsWith('NOAUTH');
        return isRefused ? [null] : [];
      });
      if (texts.length === 0) await Promise.all(asking);
      return texts;
    },
    find: async (pattern) => {
      const names = await Promise.all(own.primaries().map((send) => findName(send, pattern)));
      return names.find((name) => name !== undefined);
    },
    destroy: () => {
      if (client.isOpen) client.destroy();
    },
  };
  // Without a listener, an emitter throws errors.
  client.on('error', (error: Error) => connection.onLost(error));
  try {
    await rejectAfter(CONNECT_TIMEOUT_MS, client.connect());
    connection.facts = (await connection.info())[0] ?? '';
    return connection;
  } catch (error) {
    connection.destroy();
    const message = `${reasonOf(error)}; start it, or correct its URL, redis://user:password@host`;
    throw new Error(message, { cause: error });
  }
}

async function findName(send: Send, pattern: string): Promise<string | undefined> {
  const deadline = performance.now() + CONNECT_TIMEOUT_MS;
  for (let cursor = '0'; ;) {
    const left = deadline - performance.now();
    if (left <= 0) throw new Error(`not all names could be looked at within ${CONNECT_TIMEOUT_MS} ms`);
    // So many take Redis a millisecond, in which it does nothing else.
    const step = await rejectAfter(left, send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', '5000']));
    const [next, [name]] = step as [string, string[]];
    if (name !== undefined || next === '0') return name;
    cursor = next;
  }
}

/**
 * Settles like the promise of a command that was just handed to a client, or rejects when the time is over.
 *
 * A busy thread does not use up the time: it begins when the client has sent the command, and an answer already here counts.
 */
export async function rejectAfter<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let sent: NodeJS.Immediate | undefined;
  const timeout = new Promise<never>((_, reject) => {
    // In a turn of the event loop, timers run before sockets are read, and setImmediate runs after.
    const giveUp = () => setImmediate(() => reject(new Error(`no answer within ${timeoutMs} ms`)));
    // The client sends in a setImmediate, too, which was queued before this one.
    sent = setImmediate(() => (timer = setTimeout(giveUp, timeoutMs)));
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearImmediate(sent);
    clearTimeout(timer);
  }
}
