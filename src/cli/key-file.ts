import type { Command } from 'commander';
import { didOfJwk, importKey, type AnySigner, type SigningKey } from '../issue/index.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { CommandError } from './command-error.js';
import { readText } from './files.js';

/** Reads a private key file as `npx drs-verify keygen` writes it. */
export async function readKeyFile(file: string): Promise<SigningKey> {
  return importKey(await readJwk(file, 'a private key (JWK)'));
}

/** The values of the options that {@link addKeyOptions} adds. */
export interface KeyOptions {
  readonly key?: string;
  readonly agent?: string | true;
}

/** Adds the options that say who signs. */
export function addKeyOptions(command: Command): Command {
  return command
    .option('--key <file>', 'your private key')
    .option(
      '--agent [comment|did]',
      'sign with this Ed25519 key of your ssh-agent instead; without a value, with its only one',
    );
}

/** Whoever signs: a key file, or a key of the `ssh-agent`. */
export async function readSigner({ key, agent }: KeyOptions): Promise<AnySigner> {
  if ((key === undefined) === (agent === undefined)) {
    throw new CommandError(
      key === undefined ? 'there is no key to sign with' : 'there are two keys to sign with',
      'give either --key <file>, or --agent for a key of your ssh-agent',
    );
  }
  if (key !== undefined) return readKeyFile(key);
  const { sshAgentSigner } = await import('../issue/ssh-agent.js');
  return sshAgentSigner(typeof agent === 'string' ? { key: agent } : {});
}

/**
 * The DID of a party, given as a DID or as the name of a key file, public or private.
 *
 * @example await readDid('did:key:z6Mk…');
 * @example await readDid('bot.pub');
 */
export async function readDid(didOrFile: string): Promise<string> {
  if (!didOrFile.startsWith('did:')) return didOfJwk(await readJwk(didOrFile, 'a key (JWK)'));
  if (DEFAULT_KEYS.publicKeyOf(didOrFile) !== null) return didOrFile;
  throw new CommandError(
    `${didOrFile} is not ${DEFAULT_KEYS.expected}`,
    'give the DID that `npx drs-verify keygen` printed, or the name of a .pub file',
  );
}

async function readJwk(file: string, what: string): Promise<unknown> {
  const text = await readText(file, what);
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
