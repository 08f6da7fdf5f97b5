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
  /** Tells the operator something. */
  readonly note: (message: string) => void;
}

/**
 * Signs one call under the first delegation that allows it. All signing is done here. Somebody else's key may take
 * minutes: an agent may ask a person.
 *
 * @param what is called, in words, such as `the tool "search"`
 * @returns the encoded bundle; or why no delegation allows the call, and what to do
 */
export type SignCall = (command: string, args: JsonObject, what: string) => Promise<string | Explained>;

/** A chain as it was last read well. */
interface ChainFile {
  readonly file: string;
  chain: readonly string[];
  /** Who issued the last receipt. */
  issuer: string;
  /** Tells whether the file was changed. */
  stamp: string;
}

/**
 * Reads the delegations of an agent from files. Each file is read again when it has changed. While it cannot be used, what
 * it had before counts. Rejects if one holds no chain for this key.
 */
export async function openDelegations(options: DelegationsOptions): Promise<SignCall> {
  const { key, note, toolServer } = options;
  const files: ChainFile[] = [];
  for (const file of options.files)
    files.push({ file, stamp: stampOf(file), ...(await readFor(file, options)) });
  return async (command, args, what) => {
    const refused: (readonly [ChainFile, IssueError])[] = [];
    for (const file of files) {
      const stamp = stampOf(file.file);
      const isChanged = stamp !== file.stamp;
      // Also for a file that cannot be used: it is said once, and tried again when it has changed again.
      file.stamp = stamp;
      try {
        if (isChanged) {
          Object.assign(file, await readFor(file.file, options));
          note(`read ${file.file} again: it has changed`);
        }
      } catch (error) {
        note(`${(error as Error).message}; the delegation that it had before counts on`);
      }
      try {
        return await signCall({ key, chain: file.chain, toolServer }, command, args);
      } catch (error) {
        if (!(error instanceof IssueError)) throw error;
        const { code, message, suggestion } = error;
        // The key does not sign, whatever is delegated to it.
        if (code === 'INVALID_KEY')
          return { code, message: `not sent, since it was not signed: ${message}`, suggestion };
        refused.push([file, error]);
      }
    }
    const [first] = refused;
    if (first === undefined) throw new Error('there is no chain');
    const reasons = refused.map(([{ file }, { message }]) => `${file}: ${message}`);
    const message = `not sent, since no delegation allows it: ${reasons.join('; ')}`;
    const [{ issuer }, { code, message: found, suggestion }] = first;
    const [, member = 'tool', claimed] = /^Invocation: args\.(\w+) is (\S+?),? /.exec(found) ?? [];
    // By what has failed.
    const remedy =
      code !== 'POLICY_VIOLATION' && code !== 'COMMAND_MISMATCH'
        ? suggestion
        : member === 'tool'
          ? `Ask ${issuer} to delegate ${what} to ${key.did} under the command ${command}, and name the new chain with one more --chain.`
          : claimed === 'missing'
            ? `Add ${member} to the arguments: ${what} is delegated, for calls that state it.`
            : `Call with another ${member}, or ask ${issuer} for a wider delegation: ${what} itself is delegated.`;
    return { code, message, suggestion: remedy };
  };
}

/** The chain in a file, and who issued its last receipt. Rejects if it is none for this key. */
async function readFor(file: string, { key: { did }, read }: DelegationsOptions) {
  // A pipe can be read once, and a device without end.
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
    throw unusable(`${file} is not a file, expected a chain`, 'write the chain into a file');
  const chain = await read(file);
  const [root, ...rest] = readChain(chain);
  const { aud, iss: issuer } = (rest.at(-1) ?? root).claims;
  if (aud === did) return { chain, issuer };
  throw unusable(
    `the chain in ${file} ends at ${aud}, and this key is ${did}`,
    'give the key of the last delegate, or have the chain delegated to this key',
  );
}

function unusable(message: string, hint: string): IssueError {
  return new IssueError('INVALID_OPTION', message, hint);
}

/** Differs if a file was written, replaced, made or removed. */
function stampOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  return found === undefined
    ? 'none'
    : `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
}
