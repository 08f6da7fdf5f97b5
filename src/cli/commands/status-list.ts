import { Option, type Command } from 'commander';
import { createStatusList, DEFAULT_STATUS_LIST_ENTRIES } from '../../revocation/lists/make-status-list.js';
import { openStatusList, setRevoked, signStatusList } from '../../revocation/lists/make-status-list.js';
import type { EditableStatusList } from '../../revocation/lists/make-status-list.js';
import { CommandError } from '../command-error.js';
import { readText, replaceFile, writeResult } from '../files.js';
import { readKeyFile } from '../key-file.js';
import { parseIndex, parseTime } from '../options.js';

export const help = `
Any server of files can serve it.

Examples, in one terminal:
  npx drs-verify status-list create --key org.key --id http://127.0.0.1:8090/list.jwt -o list.jwt
  python3 -m http.server -b 127.0.0.1 8090
in a second one:
  STATUS_LIST_BASE_URL=http://127.0.0.1:8090/list.jwt STATUS_LIST_ISSUER=did:key:z6Mk… \\
    STATUS_CACHE_TTL_SECS=5 npx drs-verify serve
and in a third one, to revoke the receipts that were issued with --status-index 52014:
  npx drs-verify status-list revoke --key org.key list.jwt 52014`;

export function define(command: Command): void {
  command.description(
    'A W3C Bitstring Status List, as a signed credential (vc+jwt), or a Token Status List of the IETF (statuslist+jwt): what a service reads from STATUS_LIST_BASE_URL (W3C alone), or as its row of a root says, to learn what is revoked.',
  );

  command
    .command('create')
    .summary('make a list in which nothing is revoked')
    .requiredOption('--key <file>', "the issuer's private key")
    .requiredOption('--id <url>', 'the URL under which the list will be served')
    .addOption(new Option('--form <form>', 'w3c or token').choices(['w3c', 'token']).default('w3c'))
    .option('--entries <count>', 'how many entries it has', parseIndex, DEFAULT_STATUS_LIST_ENTRIES)
    .option('--expires <time>', 'after it, verifiers refuse the list (default: never)', parseTime)
    .option('-o, --out <file>', 'where to write the list (default: standard output)')
    .option('--force', 'replace the file where it exists')
    .action(async ({ key, id, form, entries, expires, out, force }: CreateOptions) => {
      if (!URL.canParse(id))
        throw new CommandError(
          `--id is ${JSON.stringify(id)}, expected a URL`,
          'give the one under which the list will be served, such as https://lists.example/1',
        );
      const hint = 'give --entries as a multiple of 8';
      const list = await orCommandError(() => createStatusList({ id, entries, form }), hint);
      const note = `: ${entries} entries, none revoked`;
      await writeResult(out, await sign(list, key, expires), { force, note });
    });

  for (const name of ['revoke', 'reinstate']) {
    const revoked = name === 'revoke';
    command
      .command(name)
      .summary(revoked ? 'mark entries as revoked' : 'mark entries as no longer revoked')
      .requiredOption('--key <file>', "the issuer's private key")
      .option('--expires <time>', 'after it, verifiers refuse the list (default: never)', parseTime)
      .argument('<list_file>', 'the list, as `npx drs-verify status-list create` wrote it; it is replaced')
      .argument('<index...>', 'status list indices', (text, all: number[] | undefined) => [
        ...(all ?? []),
        parseIndex(text),
      ])
      .action(async (file: string, indices: number[], { key, expires }: ChangeOptions) => {
        const text = await readText(file, 'a status list (vc+jwt or statuslist+jwt)');
        const hint = 'make one with `npx drs-verify status-list create`';
        const list = await orCommandError(() => openStatusList(text), hint, `${file} is not a status list: `);
        for (const index of indices)
          await orCommandError(() => setRevoked(list, index, revoked), 'give indices that the list has');
        await replaceFile(file, await sign(list, key, expires));
        process.stderr.write(`${file}: ${revoked ? 'revoked' : 'reinstated'} ${indices.join(', ')}\n`);
      });
  }
}

interface CreateOptions {
  readonly key: string;
  readonly id: string;
  readonly form: 'w3c' | 'token';
  readonly entries: number;
  readonly expires?: number;
  readonly out?: string;
  readonly force?: boolean;
}

type ChangeOptions = Pick<CreateOptions, 'key' | 'expires'>;

async function sign(list: EditableStatusList, keyFile: string, expires: number | undefined): Promise<string> {
  const signer = await readKeyFile(keyFile);
  if ((list.issuer ?? signer.did) !== signer.did)
    throw new CommandError(
      `the list is by ${list.issuer}, and this key is ${signer.did}: who trusts its issuer would refuse it`,
      "give the issuer's key, or create a new list with this one",
    );
  const validUntil = expires !== undefined ? { validUntil: new Date(expires * 1000) } : {};
  const jwt = await orCommandError(
    () => signStatusList(list, { signer, validFrom: new Date(), ...validUntil }),
    'reinstate the entries of receipts that have expired',
  );
  return `${jwt}\n`;
}

async function orCommandError<T>(action: () => T | Promise<T>, hint: string, what = ''): Promise<T> {
  try {
    return await action();
  } catch (error) {
    const { name, message } = error as Error;
    if (!['RangeError', 'SyntaxError', 'StatusListError'].includes(name)) throw error;
    throw new CommandError(what + message, hint);
  }
}
