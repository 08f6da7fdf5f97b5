import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { importRevocations } from '../../revocation/store/redis-transfer.js';
import { readConfiguration } from '../../service/configuration/configuration.js';
import { CommandError, EXIT, toCommandError } from '../command-error.js';
import { unreadable } from '../files.js';
import { fromService, readAnswer, unexpectedAnswer } from '../service.js';

export function define(command: Command): void {
  command.description(
    'Lists the local revocations of a service, in a form that REVOCATION_STORE_PATH takes; or moves a file into the Redis at REDIS_URL (default: redis://127.0.0.1:6379), where REVOCATION_STORE=redis has them.',
  );
  command
    .command('list')
    .summary('print what is revoked locally, when and why')
    .description(
      'Prints the local revocations of the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) or DRS_ADMIN_URL, a JSON object a line. Needs DRS_ADMIN_TOKEN or DRS_ADMIN_TOKEN_FILE, as `drs-verify revoke` does.',
    )
    .addHelpText('after', '\nExample:\n  DRS_ADMIN_TOKEN=… npx drs-verify revocations list > revoked.txt')
    .action(printList);
  command
    .command('import')
    .summary('record the entries of a file in Redis')
    .description(
      'Records the entries of a file in Redis. Stop the service that has the file open first. Services with REVOCATION_STORE=redis take them over at once. The file is not changed; what Redis has already is left alone.',
    )
    .argument('<file>', 'one entry a line, as REVOCATION_STORE_PATH has them or `list` prints them')
    .addHelpText(
      'after',
      '\nExample:\n  REDIS_URL=redis://10.0.0.5:6379 npx drs-verify revocations import revoked.txt',
    )
    .action(importFile);
}

async function printList(): Promise<void> {
  // The list may take longer than other answers.
  await fromService('/admin/revocations', {}, async (response) => {
    if (response.status !== 200 || response.body === null)
      throw unexpectedAnswer(await readAnswer(response), EXIT.no);
    try {
      await pipeline(Readable.fromWeb(response.body), process.stdout, { end: false });
    } catch (error) {
      throw new CommandError(`the list broke off: ${(error as Error).message}`, 'try again');
    }
  });
}

async function importFile(file: string): Promise<void> {
  const { REDIS_URL, REVOCATION_MIN_REPLICAS } = process.env;
  const env = { REVOCATION_STORE: 'redis', REDIS_URL, REVOCATION_MIN_REPLICAS };
  const { redisUrl: url, revocationMinReplicas: minReplicas } = readConfiguration(env);
  try {
    const { recorded, entries } = await importRevocations(file, { url, minReplicas });
    process.stdout.write(`imported: ${recorded} of ${entries} entries were new to Redis\n`);
  } catch (error) {
    const { message, path } = error as NodeJS.ErrnoException;
    if (toCommandError(error) !== null) throw error;
    if (path !== undefined) throw unreadable(path, 'revocations', error);
    throw new CommandError(message, 'look at the Redis of REDIS_URL; then try again');
  }
}
