import { open, type FileHandle } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { ReadStream, WriteStream } from 'node:tty';
import { CommandError } from './command-error.js';
import { readText } from './files.js';

/**
 * The passphrase of an encrypted key: from the file that is given, else from `DRS_KEY_PASSPHRASE`, else from the
 * terminal. Standard input is never read, since it may belong to a protocol.
 *
 * @param keyFile the name of the key, for the question and for errors
 */
export async function readPassphrase(keyFile: string, passphraseFile?: string): Promise<string> {
  const given = takePassphrase();
  if (passphraseFile !== undefined) return readPassphraseFile(passphraseFile);
  if (given !== undefined) return given;
  const terminal = await openTerminal();
  if (terminal === null)
    throw new CommandError(
      `${keyFile} is encrypted, and there is no terminal to ask for its passphrase`,
      `name a file that has it with --passphrase-file, or set DRS_KEY_PASSPHRASE`,
    );
  return ask(terminal, `Passphrase of ${keyFile}: `);
}

/** The passphrase in a file: its text without the line end. */
export async function readPassphraseFile(file: string): Promise<string> {
  if (file === '-')
    throw new CommandError('a passphrase is not read from standard input', 'name a file that has it');
  const text = (await readText(file, 'a passphrase')).replace(/\r?\n$/, '');
  if (text === '') throw new CommandError(`${file} is empty, expected a passphrase`, 'write one into it');
  return text;
}

/** Takes the passphrase out of the environment, so that no child process inherits it. */
function takePassphrase(): string | undefined {
  const { DRS_KEY_PASSPHRASE: value } = process.env;
  delete process.env['DRS_KEY_PASSPHRASE'];
  return value === '' ? undefined : value;
}

/** The terminal that controls this process; `null` if there is none. */
async function openTerminal(): Promise<FileHandle | null> {
  try {
    return await open('/dev/tty', 'r+');
  } catch {
    return null;
  }
}

async function ask(terminal: FileHandle, question: string): Promise<string> {
  const input = new ReadStream(terminal.fd);
  const output = new WriteStream(terminal.fd);
  output.write(question);
  // As a terminal without output, readline turns the echo off and shows nothing of what is typed.
  const lines = createInterface({ input, terminal: true });
  try {
    return await new Promise((resolve, reject) => {
      lines.once('line', resolve);
      const stopped = () => reject(new CommandError('no passphrase was typed', 'run the command again'));
      lines.once('SIGINT', stopped).once('close', stopped);
    });
  } finally {
    lines.close();
    output.write('\n');
    input.destroy();
    output.destroy();
  }
}
