import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { exportRevocations, importRevocations } from '../../revocation/store/redis-transfer.js';
import { RevocationStoreError } from '../../revocation/store/revocation-store.js';
import { adminHeaders, adminRefusal } from '../admin.js';
import { CommandError } from '../command-error.js';
import { unreadable } from '../files.js';
import { getFromService, parseJson } from '../service.js';

const DEFAULT_URL = 'redis://127.0.0.1:6379';

/** `drs revocations` */
export function addRevocations(program: Command): void {
  const command = program
    .command('revocations')
    .summary('list local revocations; move them from a file to Redis, and back')
    .description(
      'Lists the local revocations of a service, or moves them between the file of REVOCATION_STORE_PATH and the Redis at REDIS_URL (default: redis://127.0.0.1:6379), where REVOCATION_STORE=redis has them.',
    );
  command
    .command('list')
    .summary('print what is revoked locally, when and why')
    .description(
      'Prints the local revocations of the service at DRS_VERIFY_URL (default: http://127.0.0.1:8080) or DRS_ADMIN_URL, a JSON object a line. Needs DRS_ADMIN_TOKEN or DRS_ADMIN_TOKEN_FILE, as `drs-verify revoke` does.',
    )
    .addHelpText('after', '\nExample:\n  DRS_ADMIN_TOKEN=… npx drs-verify revocations list')
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
    .action(async (file: string) => {
      const report = await orCommandError(() =>
        importRevocations(file, { url: readUrl(), minReplicas: readMinReplicas() }),
      );
      process.stdout.write(`imported: ${report.recorded} of ${report.entries} entries were new to Redis\n`);
    });
  command
    .command('export')
    .summary('print the entries that are in Redis')
    .description('Prints the entries that are in Redis, one a line, as REVOCATION_STORE_PATH takes them.')
    .addHelpText('after', '\nExample:\n  npx drs-verify revocations export > revoked.txt')
    .action(async () => {
      const lines = await orCommandError(() => exportRevocations(readUrl()));
      process.stdout.write(lines.join(''));
    });
}

async function printList(): Promise<void> {
  const response = await getFromService('/admin/revocations', adminHeaders());
  if (response.status !== 200 || response.body === null) {
    const text = await response.text();
    throw adminRefusal({ status: response.status, text, body: parseJson(text) });
  }
  try {
    await pipeline(Readable.fromWeb(response.body), process.stdout, { end: false });
  } catch (error) {
    throw new CommandError(`the list broke off: ${(error as Error).message}`, 'try again');
  }
}

function readUrl(): string {
  const url = process.env['REDIS_URL']?.trim() || DEFAULT_URL;
  if (url.split(',').every((one) => /^rediss?:\/\//.test(one.trim()) && URL.canParse(one.trim()))) return url;
  // Do not quote the URL: it may contain a password.
  throw new CommandError('REDIS_URL is not a redis:// or rediss:// URL', 'set it as the service has it');
}

function readMinReplicas(): number {
  const text = process.env['REVOCATION_MIN_REPLICAS']?.trim() || '0';
  if (/^\d{1,2}$/.test(text)) return Number(text);
  throw new CommandError(
    'REVOCATION_MIN_REPLICAS is not a number from 0 to 16',
    'set it as the service has it',
  );
}

async function orCommandError<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof RevocationStoreError)
      throw new CommandError(error.message, 'nothing was changed; try again');
    const { message, path } = error as NodeJS.ErrnoException;
    if (path !== undefined) throw unreadable(path, 'revocations', error);
    throw new CommandError(message, 'look at the Redis of REDIS_URL; then try again');
  }
}
