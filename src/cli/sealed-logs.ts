import { Buffer } from 'node:buffer';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough, pipeline, type Readable } from 'node:stream';
import { pipeline as finished } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { Command } from 'commander';
import { readCheckpoint, type Checkpoint } from '../log/checkpoint.js';
import { checkProof, LogCheck, LogProver, redacted, type Place } from '../log/check.js';
import { readCheckpointLine } from '../log/sealer.js';
import { isJsonObject, type JsonObject } from '../protocol/json.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { linesOf, sayTo, write } from '../relay/lines.js';
import { readJson } from '../relay/message.js';
import { CommandError, EXIT } from './command-error.js';
import { readText, unreadable, writeResult } from './files.js';
import { readDid } from './key-file.js';
import { bold, green, printable, red } from './terminal.js';

/** Longer than any line that is written: a statement of 64 KiB takes six bytes for each of its own at most. */
export const MAX_LINE_BYTES = 512 * 1024;

interface KeyOption {
  readonly key: string;
}

/** Adds what is done with sealed logs. @param hasAll whether all of some texts stand in a line */
export function defineSealed(
  log: Command,
  hasAll: (line: JsonObject, texts: readonly string[]) => boolean,
): void {
  const key = ['--key <did|file>', 'whose checkpoints count: the public key of DECISION_LOG_KEY'] as const;
  log
    .command('check')
    .summary('whether a sealed log is whole, and unchanged')
    .description(
      'Finds lines of a sealed log that were changed, removed, added, swapped or doubled, and files that are missing.',
    )
    .argument('<file...>', 'its files in any order, packed ones as *.gz')
    .requiredOption(...key)
    .option('--known <file>', 'a checkpoint that you have kept: the log must still begin as it did then')
    .action(check);
  log
    .command('prove')
    .summary('one line, and the proof that it stands in a sealed log')
    .argument('<id>', 'the number (seq), requestId or jti of the line')
    .argument('<file...>', 'files of the log, packed ones as *.gz')
    .requiredOption(...key)
    .option('-o, --out <file>', 'where the proof goes (default: standard output)')
    .action(prove);
  log
    .command('redact')
    .summary('a copy of a log without what it says of somebody')
    .description(
      'Writes copies of files in which a line that names somebody has only its number, time, code and hash. `check` still holds.',
    )
    .argument('<file...>', 'files of the log, packed ones as *.gz')
    .requiredOption('--with <text>', 'a DID, name, id or digest that stands in the lines')
    .requiredOption('--into <folder>', 'where the copies go, under the same names')
    .action(async (files: readonly string[], { with: text, into }: { with: string; into: string }) => {
      await mkdir(into, { recursive: true });
      let count = 0;
      for (const file of files) {
        const isPacked = file.endsWith('.gz');
        const out = new PassThrough();
        const say = sayTo(out);
        const copy = createWriteStream(path.join(into, path.basename(file)), { flags: 'wx', mode: 0o640 });
        const copied = isPacked ? finished(out, createGzip(), copy) : finished(out, copy);
        copied.catch(() => undefined);
        for await (const bytes of linesIn(file)) {
          const line = readJson(bytes.toString());
          const isMeant = isJsonObject(line) && hasAll(line, [text]);
          if (isMeant) count++;
          await say(isMeant ? redacted(bytes, line) : bytes);
        }
        out.end();
        await copied.catch((error: unknown) => {
          throw new CommandError(
            `cannot write the copy of ${file}: ${(error as Error).message}`,
            'choose an empty folder',
          );
        });
      }
      process.stderr.write(`${count} lines redacted; what is kept of the old files still has them\n`);
    });
}

/** The lines of a file. @throws CommandError if it cannot be read, or has a line longer than any that is written */
async function* linesIn(file: string): AsyncGenerator<Buffer> {
  try {
    const input: Readable = createReadStream(file);
    const unpacked = file.endsWith('.gz') ? pipeline(input, createGunzip(), () => undefined) : input;
    for await (const lines of linesOf(unpacked, MAX_LINE_BYTES))
      for (const { bytes, isTooLong } of lines) {
        if (isTooLong) throw new Error(`a line is longer than ${MAX_LINE_BYTES} bytes`);
        yield bytes;
      }
  } catch (error) {
    throw unreadable(file, 'a log', error);
  }
}

async function readPublicKey(didOrFile: string): Promise<Uint8Array> {
  return DEFAULT_KEYS.publicKeyOf(await readDid(didOrFile)) as Uint8Array;
}

/** Files in the order of the checkpoints with which they begin. */
async function inOrder(files: readonly string[], key: Uint8Array): Promise<readonly string[]> {
  const starts = new Map<string, number>();
  for (const file of files)
    for await (const line of linesIn(file)) {
      const seal = readCheckpointLine(line, key);
      starts.set(file, seal === null || seal === 'forged' ? -1 : seal.size);
      break;
    }
  return files.toSorted((one, other) => (starts.get(one) ?? -1) - (starts.get(other) ?? -1));
}

async function check(
  files: readonly string[],
  { key: given, known }: KeyOption & { known?: string },
): Promise<void> {
  const key = await readPublicKey(given);
  const log = new LogCheck(key, known === undefined ? null : await readKnown(known, key));
  let place: Place = { file: files[0] as string, line: 1 };
  for (const file of await inOrder(files, key)) {
    let line = 0;
    for await (const bytes of linesIn(file)) log.take(bytes, (place = { file, line: ++line }));
  }
  log.end(place);
  const { faults, holds, origin, unsealed } = log;
  const said = [
    ...holds
      .filter(({ from, to }) => to > from)
      .map(
        ({ from, to }) =>
          `${bold(green('holds'))}  lines ${from} to ${to - 1} of ${printable(origin ?? '')}\n`,
      ),
    ...(holds[0] !== undefined && holds[0].from > 0
      ? [`  lines 0 to ${holds[0].from - 1} are not in these files\n`]
      : []),
    ...(log.redacted > 0
      ? [`  ${log.redacted} lines are redacted: their number, time and code are not proved\n`]
      : []),
    ...(unsealed > 0 ? [`  ${unsealed} lines at the end are not sealed yet\n`] : []),
    ...faults.map(
      ({ file, line, problem }) => `${bold(red('wrong'))}  ${printable(`${file}:${line}: ${problem}`)}\n`,
    ),
  ];
  await write(process.stdout, said.join(''));
  if (faults.length > 0) process.exitCode = EXIT.no;
}

/** A checkpoint as a note, or as a line of a log. */
async function readKnown(file: string, key: Uint8Array): Promise<Checkpoint> {
  const text = await readText(file, 'a checkpoint');
  const line = readCheckpointLine(Buffer.from(text.trim()), key);
  const known = line === null || line === 'forged' ? readCheckpoint(`${text.trimEnd()}\n`, key) : line;
  if (known !== null) return known;
  throw new CommandError(
    `${file} is no checkpoint that this key has signed`,
    'give a line of a log that begins with {"checkpoint": or its note',
  );
}

async function prove(
  id: string,
  files: readonly string[],
  { key: given, out }: KeyOption & { out?: string },
): Promise<void> {
  const key = await readPublicKey(given);
  const prover = new LogProver(key);
  const isWanted = (bytes: Buffer) => {
    if (prover.isWaiting || !bytes.includes(id)) return false;
    const line = readJson(bytes.toString());
    const { requestId, jti, seq } = isJsonObject(line) ? line : {};
    return [requestId, jti, typeof seq === 'number' ? `${seq}` : null].includes(id);
  };
  for (const file of await inOrder(files, key))
    for await (const bytes of linesIn(file)) {
      const proof = prover.take(bytes, isWanted(bytes));
      if (proof === null) continue;
      if (proof === 'broken')
        throw new CommandError(
          'the log does not hold at this line',
          '`drs-verify log check` says what is wrong',
          EXIT.no,
        );
      await writeResult(out, `${JSON.stringify(proof, null, 2)}\n`);
      return;
    }
  if (prover.isWaiting)
    throw new CommandError(
      'the line is not sealed yet',
      'try again in a minute: then there is a checkpoint',
      EXIT.no,
    );
  throw new CommandError(`no line has ${id} as seq, requestId or jti`, 'give all files of the log', EXIT.no);
}

/** What a proof of `log prove` proves. @returns `null` if it is no such text */
export async function readProof(text: string, didOrFile: string) {
  const read = readJson(text);
  const { line: sealed, proof } = isJsonObject(read) ? read : {};
  if (typeof sealed !== 'string' || typeof proof !== 'string') return null;
  const checkpoint = checkProof({ line: sealed, proof }, await readPublicKey(didOrFile));
  const line = readJson(sealed);
  return isJsonObject(line) ? { line, checkpoint } : null;
}
