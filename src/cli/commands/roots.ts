import { InvalidArgumentError, type Command } from 'commander';
import type { TrustedRoot } from '../../trust/read-root.js';
import { readTrustedRoots } from '../../trust/trusted-roots.js';
import { CommandError, EXIT } from '../command-error.js';
import { readDid } from '../key-file.js';
import { addPolicyOptions, readPolicy, type PolicyOptions } from '../policy-options.js';
import { addEntry, openRootsFile, placeOf, readEntries, removeEntries, toCheckError } from '../roots-file.js';
import { printable } from '../terminal.js';

interface FileOptions {
  readonly file?: string;
}

interface AddOptions extends PolicyOptions, FileOptions {
  readonly name?: string;
  readonly notBefore?: string;
  readonly notAfter?: string;
  readonly label?: Record<string, string>;
}

/** `drs roots` */
export function addRoots(program: Command): void {
  const command = program
    .command('roots')
    .summary('say whom to trust, by name and how far')
    .description(
      'Works on the file of trusted roots (--file, or TRUSTED_ROOTS_FILE). A running service reads a change within a few seconds.',
    );
  addPolicyOptions(
    withFile(
      command
        .command('add')
        .summary('trust a principal')
        .description(
          'Adds a principal behind the others, and makes the file if there is none. The policy is what it may delegate at most.',
        )
        .argument('<did|file>', 'the principal: its DID or its .pub file'),
    )
      .option('--name <text>', 'what people and tools call the principal')
      .option('--not-before <time>', 'the first day, such as 2026-11-01, or a time (RFC 3339)')
      .option('--not-after <time>', 'the last day, or a time')
      .option('--label <name=text>', 'a label for tools; repeat for more', collectLabel),
  )
    .addHelpText(
      'after',
      '\nExample:\n  npx drs-verify roots add alice.pub --file roots.json --name alice@example.com --tool search --max-cost 20 --label team=sales',
    )
    .action(add);
  withFile(
    command
      .command('remove')
      .summary('trust a principal no more')
      .description(
        'Removes a principal by its DID, or all with a name: its delegations end at the next call.',
      )
      .argument('<did|name|file>', 'the principal: its DID, its .pub file or its name'),
  ).action(remove);
  withFile(
    command.command('list').summary('show who is trusted').description('Shows the principals, one a line.'),
  ).action(list);
  withFile(
    command
      .command('check')
      .summary('find faults')
      .description(
        'Checks a file, or a directory of files, and names each fault with its line. Exits with 1 if there is one.',
      ),
  ).action(async ({ file }: FileOptions) => {
    const place = placeOf(file);
    const roots = await readTrustedRoots(place).catch((error: unknown) => {
      throw toCheckError(error);
    });
    process.stdout.write(`${printable(place)} is in order: ${roots.size} trusted roots\n`);
  });
}

function withFile(command: Command): Command {
  return command.option('--file <path>', 'the file (default: TRUSTED_ROOTS_FILE)');
}

async function add(didOrFile: string, options: AddOptions): Promise<void> {
  const { name, notBefore, notAfter, label: labels } = options;
  const did = await readDid(didOrFile);
  const policy = await readPolicy(options);
  const entry: TrustedRoot = {
    did,
    ...(name !== undefined && { name }),
    ...(notBefore !== undefined && { not_before: notBefore }),
    ...(notAfter !== undefined && { not_after: notAfter }),
    ...(Object.keys(policy).length > 0 && { policy }),
    ...(labels !== undefined && { labels }),
  };
  const change = await openRootsFile(placeOf(options.file));
  await addEntry(change, entry);
  process.stdout.write(`added ${printable(name ?? did)} to ${printable(change.file)}\n`);
}

async function remove(meant: string, { file }: FileOptions): Promise<void> {
  const change = await openRootsFile(placeOf(file));
  const isDid = meant.startsWith('did:');
  const did = isDid || meant.endsWith('.pub') ? await readDid(meant) : null;
  const removed = await removeEntries(change, (entry) =>
    did === null ? entry.name === meant : entry.did === did,
  );
  if (removed.length === 0)
    throw new CommandError(
      `${change.file} has no ${did === null ? 'principal with the name' : 'principal'} ${JSON.stringify(did ?? meant)}`,
      '`drs-verify roots list` shows who is there',
      EXIT.no,
    );
  for (const entry of removed)
    process.stdout.write(`removed ${printable(entry.name ?? '')} ${entry.did}`.replace('  ', ' ') + '\n');
}

async function list({ file }: FileOptions): Promise<void> {
  for (const { entry } of await readEntries(placeOf(file)))
    process.stdout.write(`${printable(lineOf(entry))}\n`);
}

function lineOf({ did, name, not_before, not_after, policy, labels }: TrustedRoot): string {
  const parts = [name ?? '-', did];
  if (not_before !== undefined) parts.push(`from ${not_before}`);
  if (not_after !== undefined) parts.push(`to ${not_after}`);
  if (policy !== undefined) parts.push(JSON.stringify(policy));
  if (labels !== undefined) parts.push(...Object.entries(labels).map(([label, text]) => `${label}=${text}`));
  return parts.join('  ');
}

function collectLabel(text: string, previous: Record<string, string> = {}): Record<string, string> {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new InvalidArgumentError('Expected name=text.');
  if (Object.hasOwn(previous, name)) throw new InvalidArgumentError(`The label ${name} is given twice.`);
  return { ...previous, [name]: value };
}
