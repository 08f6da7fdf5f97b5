import { readFile } from 'node:fs/promises';
import { connectRedis, type RedisConnection } from '../../redis/connection.js';
import { lockFile } from './file-lock.js';
import { IndexLines } from './index-lines.js';
import { IndexSet } from './index-set.js';
import { checkRedisFirst } from './redis-checks.js';
import { BEGINNING, RedisLog } from './redis-log.js';
import { RevocationStoreError } from './store-error.js';

const BATCH = 1_000;
const REPLICATE_MS = 5_000;

/** The target of {@link importRevocations}. */
export interface ImportOptions {
  /** In the form of `REDIS_URL`. */
  readonly url: string;
  /** Number of replicas that must have everything before the import counts as done. */
  readonly minReplicas: number;
}

/** The result of an import. */
export interface ImportReport {
  /** Number of indices in the file. */
  readonly indices: number;
  /** Number of those that Redis did not have. */
  readonly recorded: number;
}

/**
 * Copies a file of revoked indices to Redis. Running instances apply them at once. After a failure, call it again:
 * indices that are already in Redis are not recorded twice.
 *
 * @throws {@link RevocationStoreError} `locked` if a service has the file open, `unreadable` if a line is damaged;
 *   then nothing was recorded
 * @throws Error if Redis fails
 */
export async function importRevocations(path: string, options: ImportOptions): Promise<ImportReport> {
  const lock = await lockFile(path);
  try {
    const indices = await readIndices(path);
    const connection = await connectRedis({ url: options.url });
    try {
      await checkRedisFirst(connection, options.minReplicas, { info: ignore, warn: ignore, error: ignore });
      const log = new RedisLog(connection);
      const { known } = await readAll(log);
      const missing = [...indices].filter((index) => !known.has(index));
      for (let at = 0; at < missing.length; at += BATCH) await log.append(missing.slice(at, at + BATCH));
      if (options.minReplicas > 0 && missing.length > 0) {
        const replicas = await log.replicate(options.minReplicas, REPLICATE_MS / 2);
        if (replicas < options.minReplicas)
          throw new Error(`${replicas} replicas have it, expected ${options.minReplicas}; import it again`);
      }
      return { indices: indices.size, recorded: missing.length };
    } finally {
      connection.destroy();
    }
  } finally {
    await lock.release();
  }
}

/** Every revoked index in Redis, ascending. */
export async function exportRevocations(url: string): Promise<number[]> {
  const connection: RedisConnection = await connectRedis({ url });
  try {
    const { known, damaged } = await readAll(new RedisLog(connection));
    if (damaged > 0) throw new Error(`${damaged} entries of the revocations in Redis are not indices`);
    return [...known.values()].sort((one, other) => one - other);
  } finally {
    connection.destroy();
  }
}

async function readAll(log: RedisLog): Promise<{ known: IndexSet; damaged: number }> {
  const known = new IndexSet();
  let damaged = 0;
  let readTo = BEGINNING;
  for (let page = await log.readAfter(readTo); page.length > 0; page = await log.readAfter(readTo)) {
    for (const { id, index } of page) {
      readTo = id;
      if (index === null) damaged++;
      else known.add(index);
    }
  }
  return { known, damaged };
}

async function readIndices(path: string): Promise<Set<number>> {
  const indices = new Set<number>();
  const damagedLines: number[] = [];
  const lines = new IndexLines(
    (index) => indices.add(index),
    (line) => damagedLines.push(line),
  );
  lines.read(await readFile(path));
  const refuse = (problem: string) => {
    throw new RevocationStoreError(
      'unreadable',
      `${path}: ${problem}; correct the file. Nothing was imported`,
    );
  };
  const [damagedLine] = damagedLines;
  if (damagedLine !== undefined) refuse(`line ${damagedLine} is neither an index nor a # comment`);
  if (lines.tailLength > 0)
    refuse(
      'its last line has no line feed: delete the line if it begins with a space (the service did not finish it), ' +
        'otherwise complete it and add the line feed',
    );
  return indices;
}

const ignore = () => undefined;
