import { open, realpath } from 'node:fs/promises';
import { RedisLink } from '../../redis/link.js';
import { lockFile } from '../../files/file-lock.js';
import { readLines } from '../../files/locked-file.js';
import { Entries } from '../entries.js';
import { ENTRY_FILE, takeEntries } from './entry-file.js';
import { BEGINNING, partsOf, RedisLog } from './redis-log.js';
import { needsOf, type RedisStoreOptions } from './redis-store.js';
import { RevocationStoreError } from './revocation-store.js';

const REPLICATE_MS = 2_500;

/**
 * Copies a file of revocations to Redis; running instances apply them at once. After a failure, call it again: none is added twice.
 *
 * @param path a file as `REVOCATION_STORE_PATH` has it, or of JSON lines as `GET /admin/revocations` lists them
 * @returns the number of entries in the file, and of those that said something new to Redis
 * @throws {@link RevocationStoreError} `locked` if a service has it open, `unreadable` if a line is damaged; then nothing was recorded
 * @throws Error if Redis fails
 */
export async function importRevocations(path: string, options: RedisStoreOptions) {
  // A file that is not there fails here, before its lock is made.
  const file = await realpath(path);
  const lock = await lockFile(file, ENTRY_FILE);
  try {
    const { entries, isCut } = await readEntries(file);
    if (isCut)
      throw new RevocationStoreError(
        'unreadable',
        `${file}: its last line has no line feed: complete it and add the line feed, or delete it. Nothing was imported`,
      );
    const link = new RedisLink(needsOf(options));
    try {
      const log = new RedisLog(await link.open());
      const known = new Entries();
      for await (const page of log.pagesAfter(BEGINNING)) for (const { entry } of page) known.add(entry);
      const missing = [...entries.values()].filter((entry) => !known.covers(entry));
      for (const part of partsOf(missing)) await log.append(part);
      if (missing.length > 0) await log.replicate(options.minReplicas, REPLICATE_MS);
      return { entries: entries.size, recorded: missing.length };
    } finally {
      link.close();
    }
  } finally {
    await lock.close();
  }
}

/**
 * Reads a file of revocations.
 *
 * @returns `isCut`: its last line has no line feed, and is no entry
 * @throws {@link RevocationStoreError} `unreadable` if a line is damaged
 */
export async function readEntries(path: string) {
  const entries = new Entries();
  const handle = await open(path);
  try {
    const take = takeEntries((entry) => entries.add(entry));
    const { tail } = await readLines(handle, path, ENTRY_FILE, take);
    return { entries, isCut: tail.length > 0 };
  } finally {
    await handle.close();
  }
}
