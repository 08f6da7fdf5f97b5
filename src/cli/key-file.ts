import { createPrivateKey, type JsonWebKey } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { Command } from 'commander';
import { didOfJwk, importKey, IssueError, type AnySigner, type SigningKey } from '../issue/index.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { CommandError } from './command-error.js';
import { readText } from './files.js';
import { readPassphrase } from './passphrase.js';

/** Options of {@link readKeyFile}. */
export interface KeyFileOptions {
  /** The file with the passphrase, if the key is encrypted. */
  readonly passphraseFile?: string | undefined;
  /** Whether to refuse a file that others can read. */
  readonly isPrivate?: boolean;
}

/** Reads a private key file as `npx drs-verify keygen` writes it: a JWK, or encrypted PKCS#8 in PEM. */
export async function readKeyFile(
  file: string,
  { passphraseFile, isPrivate = false }: KeyFileOptions = {},
): Promise<SigningKey> {
  const text = await readText(file, 'a private key (JWK)');
  const isEncrypted = text.trimStart().startsWith(ENCRYPTED);
  const key = isEncrypted ? null : named(file, () => importKey(jwkOf(text, file, 'a private key (JWK)')));
  if (isPrivate) await requirePrivate(file);
  if (key !== null) return key;
  return importKey(decryptKey(text, await readPassphrase(file, passphraseFile), file));
}

const ENCRYPTED = '-----BEGIN ENCRYPTED PRIVATE KEY-----';

/** A private key as encrypted PKCS#8 in PEM, which OpenSSL reads as well. */
export function encryptKey(key: SigningKey, passphrase: string): string {
  const encryption = { cipher: 'aes-256-cbc', passphrase };
  const jwk = { ...key.toJwk() };
  return createPrivateKey({ key: jwk, format: 'jwk' })
    .export({ type: 'pkcs8', format: 'pem', ...encryption })
    .toString();
}

function decryptKey(pem: string, passphrase: string, file: string): JsonWebKey {
  try {
    return createPrivateKey({ key: pem, format: 'pem', passphrase }).export({ format: 'jwk' });
  } catch {
    // Do not show the message of OpenSSL: it says nothing that helps.
    throw new CommandError(
      `cannot decrypt ${file}: the passphrase is wrong, or the file was changed`,
      'check the passphrase',
    );
  }
}

const OTHERS = 0o077;

async function requirePrivate(file: string): Promise<void> {
  // Windows has no such permissions.
  if (process.platform === 'win32') return;
  const mode = await stat(file).then(
    (found) => found.mode & 0o777,
    // What is wrong is said when the file is read.
    () => 0,
  );
  if ((mode & OTHERS) === 0) return;
  throw new CommandError(
    `others can read the private key ${file}: its permissions are ${mode.toString(8).padStart(4, '0')}, expected 0600`,
    `run: chmod 600 ${file}`,
  );
}

/** The values of the options that {@link addKeyOptions} adds. */
export interface KeyOptions {
  readonly key?: string;
  readonly agent?: string | true;
  readonly agentSocket?: string;
}

/** Adds the options that say who signs. */
export function addKeyOptions(command: Command): Command {
  return command
    .option('--key <file>', 'your private key')
    .option(
      '--agent [comment|did]',
      'sign with this Ed25519 key of your ssh-agent instead; without a value, with its only one',
    )
    .option('--agent-socket <path>', 'where that ssh-agent listens (default: SSH_AUTH_SOCK)');
}

/**
 * Whoever signs: a key file, or a key of the `ssh-agent`.
 *
 * @param file how a key file is read
 */
export async function readSigner(
  { key, agent, agentSocket: socket }: KeyOptions,
  file?: KeyFileOptions,
): Promise<AnySigner> {
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
  if (!didOrFile.startsWith('did:')) {
    const text = await readText(didOrFile, 'a key (JWK)');
    return named(didOrFile, () => didOfJwk(jwkOf(text, didOrFile, 'a key (JWK)')));
  }
  if (DEFAULT_KEYS.publicKeyOf(didOrFile) !== null) return didOrFile;
  throw new CommandError(
    `${didOrFile} is not ${DEFAULT_KEYS.expected}`,
    'give the DID that `npx drs-verify keygen` printed, or the name of a .pub file',
  );
}

/** Says which file a refusal is about: most commands read several keys. */
function named<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof IssueError)) throw error;
    throw new CommandError(`${file}: ${error.message}`, error.suggestion);
  }
}

function jwkOf(text: string, file: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Do not show the parser's message: it quotes the content, which may be secret.
    throw new CommandError(
      `${file} is not JSON, expected ${what}`,
      'make a key with `npx drs-verify keygen -o <file>`',
    );
  }
}
