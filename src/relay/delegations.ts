import { statSync } from 'node:fs';
import type { Explained } from '../gate/codes.js';
import { IssueError, type Signer } from '../issue/index.js';
import { readChain } from '../issue/chain.js';
import { signCall } from '../middleware/delegation.js';
import type { JsonObject } from '../protocol/json.js';

/** What {@link openDelegations} needs. */
export interface DelegationsOptions {
  readonly key: Signer;
  /** Names of chain files, in the order in which they are tried. */
  readonly files: readonly string[];
  /** Reads the receipts of a file. */
  readonly read: (file: string) => Promise<readonly string[]>;
  readonly toolServer: string;
}

/**
 * Signs one call under the first delegation that allows it. All signing is done here. Somebody else's key may take
 * minutes: an agent may ask a person.
 *
 * @param what is called, in words, such as `the tool "search"`
 * @returns the encoded bundle; or why no delegation allows the call, and what to do
 */
export type SignCall = (command: string, args: JsonObject, what: string) => Promise<string | Explained>;

/**
 * Signs under the delegations in files. Each file is read for each call: what counts is what it has then. Rejects if one
 * holds no chain for this key.
 */
export async function openDelegations(options: DelegationsOptions): Promise<SignCall> {
  const { key, files, toolServer } = options;
  for (const file of files) await readFor(file, options);
  return async (command, args, what) => {
    const refused: Explained[] = [];
    for (const file of files) {
      let issuer = '';
      try {
        const found = await readFor(file, options);
        ({ issuer } = found);
        return await signCall({ key, chain: found.chain, toolServer }, command, args);
      } catch (error) {
        if (!(error instanceof IssueError)) throw error;
        const { code, message, suggestion } = error;
        // The key does not sign, whatever is delegated to it.
        if (code === 'INVALID_KEY')
          return { code, message: `not sent, since it was not signed: ${message}`, suggestion };
        const [, member = 'tool', claimed] = /^Invocation: args\.(\w+) is (\S+?),? /.exec(message) ?? [];
        // By what has failed.
        const remedy =
          code !== 'POLICY_VIOLATION' && code !== 'COMMAND_MISMATCH'
            ? suggestion
            : member === 'tool'
              ? `Ask ${issuer} to delegate ${what} to ${key.did} under the command ${command}, and name the new chain with one more --chain.`
              : claimed === 'missing'
                ? `Add ${member} to the arguments: ${what} is delegated, for calls that state it.`
                : `Call with another ${member}, or ask ${issuer} for a wider delegation: ${what} itself is delegated.`;
        refused.push({ code, message: `${file}: ${message}`, suggestion: remedy });
      }
    }
    const [first] = refused;
    if (first === undefined) throw new Error('there is no chain');
    const reasons = refused.map(({ message }) => message).join('; ');
    return { ...first, message: `not sent, since no delegation allows it: ${reasons}` };
  };
}

/** The chain in a file, and who issued its last receipt. Rejects with an IssueError if it is none for this key. */
async function readFor(file: string, { key: { did }, read }: DelegationsOptions) {
  const unusable = (found: string, hint: string) => new IssueError('INVALID_OPTION', found, hint);
  // A pipe can be read once, and a device without end.
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
    throw unusable(`${file} is not a file, expected a chain`, 'write the chain into a file');
  const chain = await read(file).catch((error: unknown) => {
    throw unusable((error as Error).message, 'name the file that has the chain for this key');
  });
  const [root, ...rest] = readChain(chain);
  const { aud, iss: issuer } = (rest.at(-1) ?? root).claims;
  if (aud === did) return { chain, issuer };
  throw unusable(
    `the chain in ${file} ends at ${aud}, and this key is ${did}`,
    'give the key of the last delegate, or have the chain delegated to this key',
  );
}
