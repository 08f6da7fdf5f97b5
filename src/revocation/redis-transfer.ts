import { readFile } from 'node:fs/promises';
import { connectRedis, type RedisConnection } from '../redis/connection.js';
import { lockFile } from './file-lock.js';
import { IndexLines } from './index-lines.js';
import { IndexSet } from './index-set.js';
import { checkRedis } from './redis-checks.js';
import { BEGINNING, RedisLog } from './redis-log.js';
import { RevocationStoreError } from './store-error.js';

const BATCH = 1_000;
const REPLICATE_MS = 5_000;

/** Where {@link importRevocations} writes. */
export interface ImportOptions {
  /** As `REDIS_URL`. */
  readonly url: string;
  /** Replicas that must have everything before it counts as imported. */
  readonly minReplicas: number;
}

/** What an import did. */
export interface ImportReport {
  /** Indices in the file. */
  readonly indices: number;
  /** Those of them that Redis did not have. */
  readonly recorded: number;
}

/**
 * Records what a file of revoked indices holds in Redis. Instances that run take it over at once. Repeat it after a
 * failure: what is there already is not recorded again.
 *
 * @throws {@link RevocationStoreError} `locked` where a service has the file open, `unreadable` where a line is damaged;
 *   then nothing was recorded
 * @throws Error where Redis fails
 */
export async function importRevocations(path: string, options: ImportOptions): Promise<ImportReport> {
  const lock = await lockFile(path);
  try {
    const indices = await readIndices(path);
    const connection = await connectRedis({ url: options.url });
    try {
      await checkRedis(connection, options.minReplicas, { info: ignore, warn: ignore, error: ignore });
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
    if (damaged > 0) throw new Error(`${damaged} entries of the revocations in Redis are no indices`);
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
    refuse('its last line has no line feed, so it was never acknowledged: end it or delete it');
  return indices;
}

const ignore = () => undefined;
