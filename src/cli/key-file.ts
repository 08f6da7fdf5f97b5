import { didOfJwk, importKey, type SigningKey } from '../issue/index.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { CommandError } from './command-error.js';
import { readText } from './files.js';

/** Reads a private key file as `npx drs-verify keygen` writes it. */
export async function readKeyFile(file: string): Promise<SigningKey> {
  return importKey(await readJwk(file, 'a private key (JWK)'));
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
