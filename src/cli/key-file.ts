import { randomBytes } from 'node:crypto';
import { open, stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { ReadStream, WriteStream } from 'node:tty';
import { decodeBase64url, encodeBase64url } from '#platform';
import type { Command } from 'commander';
import { didOfJwk, importKey, IssueError, signAs, type Signer } from '../issue/index.js';
import { SigningKey } from '../issue/signing-key.js';
import { isJsonObject, type JsonObject } from '../protocol/json.js';
import { DID_FORMS, isDid } from '../protocol/key-resolver.js';
import { readJson } from '../relay/message.js';
import { sodium } from '../signatures/sodium.js';
import { CommandError } from './command-error.js';
import { readText } from './files.js';

export interface KeyFileOptions {
  /** The file with the passphrase, if the key is encrypted. */
  readonly passphraseFile?: string | undefined;
  /** Whether to refuse a file that others can read (default); `group`: the group of the file may. */
  readonly isPrivate?: true | 'group';
}

/** Reads a private key file as `npx drs-verify keygen` writes it: a JWK, as it is or encrypted. */
export async function readKeyFile(
  file: string,
  { passphraseFile, isPrivate }: KeyFileOptions = {},
): Promise<SigningKey> {
  const read = await readJwk(file, 'a private key (JWK)', (json) =>
    isJsonObject(json) && Object.hasOwn(json, 'encrypted') ? json : importKey(json),
  );
  // Windows has no such permissions.
  const mode = process.platform === 'win32' || file === '-' ? 0 : (await stat(file)).mode & 0o777;
  if ((mode & (isPrivate === 'group' ? 0o037 : 0o077)) !== 0)
    throw new CommandError(
      `others can read the private key ${file}: its permissions are ${mode.toString(8).padStart(4, '0')}, expected 0600`,
      `run: chmod 600 ${file}; for a Secret of Kubernetes with fsGroup, \`sign\` has --key-of-group`,
    );
  if (read instanceof SigningKey) return read;
  return importKey(decryptKey(read, await readPassphrase(file, passphraseFile), file));
}

/** Reads a key. An error says which file it is about: most commands read several keys. */
async function readJwk<T>(file: string, what: string, read: (json: unknown) => T): Promise<T> {
  const value = readJson(await readText(file, what));
  // Do not show the parser's message: it quotes the content, which may be secret.
  if (value === undefined)
    throw new CommandError(
      `${file} is not JSON, expected ${what}`,
      'make a key with `npx drs-verify keygen -o <file>`',
    );
  try {
    return read(value);
  } catch (error) {
    if (!(error instanceof IssueError)) throw error;
    throw new CommandError(`${file}: ${error.message}`, error.suggestion);
  }
}

// RFC 9106 §4 recommends these where memory is scarce. A file cannot ask for others, which could take all memory.
const PASSES = 3;
const MEMORY_BYTES = 64 * 1024 * 1024;
/** How a key is encrypted, in words by which its owner can decrypt it with libsodium alone. */
const ENCRYPTED =
  'libsodium: crypto_pwhash (argon2id13, 3 passes, 64 MiB) of the passphrase is the key of crypto_secretbox; ' +
  '"key" is the salt (16 bytes), the nonce (24 bytes) and the box, in base64url';
const { crypto_pwhash_SALTBYTES: SALT_BYTES, crypto_secretbox_NONCEBYTES: NONCE_BYTES } = sodium;
const HEAD_BYTES = SALT_BYTES + NONCE_BYTES;

/** The text of a file with a private key that only the passphrase opens. */
export function encryptKey(key: SigningKey, passphrase: string): string {
  const jwk = Buffer.from(JSON.stringify(key.toJwk()));
  const head = randomBytes(HEAD_BYTES);
  const box = Buffer.alloc(jwk.length + sodium.crypto_secretbox_MACBYTES);
  sodium.crypto_secretbox_easy(box, jwk, head.subarray(SALT_BYTES), boxKeyOf(passphrase, head));
  const text = encodeBase64url(Buffer.concat([head, box]));
  return `${JSON.stringify({ encrypted: ENCRYPTED, key: text }, null, 2)}\n`;
}

function decryptKey(json: JsonObject, passphrase: string, file: string): unknown {
  const { encrypted, key, ...others } = json;
  if (encrypted !== ENCRYPTED || typeof key !== 'string' || Object.keys(others).length > 0)
    throw new CommandError(
      `${file} is encrypted in another way than \`npx drs-verify keygen\` does it`,
      'use the key file as it was written',
    );
  const bytes = Buffer.from(decodeBase64url(key) ?? []);
  const jwk = Buffer.alloc(Math.max(0, bytes.length - HEAD_BYTES - sodium.crypto_secretbox_MACBYTES));
  const [head, box] = [bytes.subarray(0, HEAD_BYTES), bytes.subarray(HEAD_BYTES)];
  const isOpen =
    jwk.length > 0 &&
    sodium.crypto_secretbox_open_easy(jwk, box, head.subarray(SALT_BYTES), boxKeyOf(passphrase, head));
  if (isOpen) return JSON.parse(jwk.toString());
  throw new CommandError(
    `cannot decrypt ${file}: the passphrase is wrong, or the file was changed`,
    'check the passphrase',
  );
}

/** @param head begins with the salt */
function boxKeyOf(passphrase: string, head: Buffer): Buffer {
  const key = Buffer.alloc(sodium.crypto_secretbox_KEYBYTES);
  const salt = head.subarray(0, SALT_BYTES);
  const { crypto_pwhash_ALG_ARGON2ID13: ARGON2ID } = sodium;
  sodium.crypto_pwhash(key, Buffer.from(passphrase), salt, PASSES, MEMORY_BYTES, ARGON2ID);
  return key;
}

export interface KeyOptions {
  readonly key?: string;
  readonly agent?: string | true;
  readonly agentSocket?: string;
  readonly as?: string;
}

export function addKeyOptions(command: Command): Command {
  return command
    .option('--key <file>', 'your private key')
    .option(
      '--agent [comment|did]',
      'sign with this Ed25519 key of your ssh-agent instead; without a value, with its only one',
    )
    .option('--agent-socket <path>', 'where that ssh-agent listens (default: SSH_AUTH_SOCK)')
    .option('--as <did>', 'sign as this did:web, whose document has the key: did:web:acme.example#2027');
}

/**
 * Whoever signs: a key file, or a key of the `ssh-agent`.
 *
 * @param file how a key file is read
 */
export async function readSigner(options: KeyOptions, file?: KeyFileOptions): Promise<Signer> {
  const signer = await readOwnSigner(options, file);
  return options.as === undefined ? signer : signAs(signer, options.as);
}

async function readOwnSigner(
  { key, agent, agentSocket: socket }: KeyOptions,
  file?: KeyFileOptions,
): Promise<Signer> {
  if ((key === undefined) === (agent === undefined)) {
    throw new CommandError(
      key === undefined ? 'there is no key to sign with' : 'there are two keys to sign with',
      'give either --key <file>, or --agent for a key of your ssh-agent',
    );
  }
  if (key !== undefined) {
    if (socket !== undefined)
      throw new CommandError('--agent-socket is for --agent, not for --key', 'leave it out');
    return readKeyFile(key, file);
  }
  if (file?.passphraseFile !== undefined)
    throw new CommandError('--passphrase-file is for --key, not for --agent', 'leave it out');
  const { sshAgentSigner } = await import('../issue/ssh-agent.js');
  return sshAgentSigner({
    ...(typeof agent === 'string' && { key: agent }),
    ...(socket !== undefined && { socket }),
  });
}

/**
 * The DID of a party, given as a DID or as the name of a key file, public or private.
 *
 * @example await readDid('did:key:z6Mk…');
 * @example await readDid('bot.pub');
 */
export async function readDid(didOrFile: string): Promise<string> {
  if (!didOrFile.startsWith('did:')) return readJwk(didOrFile, 'a key (JWK)', didOfJwk);
  if (isDid(didOrFile)) return didOrFile;
  throw new CommandError(
    `${didOrFile} is not ${DID_FORMS}`,
    'give the DID that `npx drs-verify keygen` printed, or the name of a .pub file',
  );
}

/**
 * The passphrase of an encrypted key: from the file that is given, else from `DRS_KEY_PASSPHRASE`, else from the
 * terminal. Standard input is never read, since it may belong to a protocol.
 *
 * @param keyFile the name of the key, for the question and for errors
 */
async function readPassphrase(keyFile: string, passphraseFile?: string): Promise<string> {
  const { DRS_KEY_PASSPHRASE: given = '' } = process.env;
  // No child process inherits it.
  delete process.env['DRS_KEY_PASSPHRASE'];
  if (passphraseFile !== undefined) return readPassphraseFile(passphraseFile);
  if (given !== '') return given;
  const terminal = await open('/dev/tty', 'r+').catch(() => null);
  if (terminal === null)
    throw new CommandError(
      `${keyFile} is encrypted, and there is no terminal to ask for its passphrase`,
      'name a file that has it with --passphrase-file, or set DRS_KEY_PASSPHRASE',
    );
  const input = new ReadStream(terminal.fd);
  const output = new WriteStream(terminal.fd);
  output.write(`Passphrase of ${keyFile}: `);
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

export async function readPassphraseFile(file: string): Promise<string> {
  if (file === '-')
    throw new CommandError('a passphrase is not read from standard input', 'name a file that has it');
  const text = await readText(file, 'a passphrase');
  if (text === '') throw new CommandError(`${file} is empty, expected a passphrase`, 'write one into it');
  return text;
}
