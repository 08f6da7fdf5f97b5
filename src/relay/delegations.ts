import { statSync } from 'node:fs';
import { IssueError, type Signer } from '../issue/index.js';
import { readChain } from '../issue/chain.js';
import { signCall } from '../middleware/delegation.js';
import type { JsonObject } from '../protocol/json.js';
import type { Refusal } from './message.js';

/** What {@link Delegations} needs. */
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

/** How many reasons an answer names. */
const MAX_REASONS = 4;

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
 * The delegations of an agent, in files. Each file is read again when it has changed. While it cannot be used, what it
 * had before counts.
 */
export class Delegations {
  readonly #options: DelegationsOptions;
  readonly #files: ChainFile[] = [];

  private constructor(options: DelegationsOptions) {
    this.#options = options;
  }

  /** Reads the files. Rejects if one holds no chain for this key. */
  static async open(options: DelegationsOptions): Promise<Delegations> {
    const opened = new Delegations(options);
    for (const file of options.files)
      opened.#files.push({ file, stamp: stampOf(file), ...(await opened.#read(file)) });
    return opened;
  }

  /**
   * Signs one call under the first delegation that allows it. All signing is done here. Somebody else's key may take
   * minutes: an agent may ask a person.
   *
   * @param what is called, in words, such as `the tool "search"`
   * @returns the encoded bundle; or why no delegation allows the call, and what to do
   */
  async sign(command: string, args: JsonObject, what: string): Promise<string | Refusal> {
    const { key, toolServer } = this.#options;
    const refused: (readonly [ChainFile, IssueError])[] = [];
    for (const file of this.#files) {
      await this.#refresh(file);
      try {
        return await signCall({ key, chain: file.chain, toolServer }, command, args);
      } catch (error) {
        if (!(error instanceof IssueError)) throw error;
        const { code, message, suggestion } = error;
        // The key does not sign, whatever is delegated to it.
        if (code === 'INVALID_KEY')
          return { code, detail: `not sent, since it was not signed: ${message}`, suggestion };
        refused.push([file, error]);
      }
    }
    const [first] = refused;
    if (first === undefined) throw new Error('there is no chain');
    const shown = refused.slice(0, MAX_REASONS).map(([{ file }, { message }]) => `${file}: ${message}`);
    const more = refused.length > MAX_REASONS ? ` (and ${refused.length - MAX_REASONS} more)` : '';
    const detail = `not sent, since no delegation allows it: ${shown.join('; ')}${more}`;
    return { code: first[1].code, detail, suggestion: this.#remedy(first, command, what) };
  }

  /** What to do, by what has failed. */
  #remedy(
    [{ issuer }, { code, message, suggestion }]: readonly [ChainFile, IssueError],
    command: string,
    what: string,
  ) {
    const [, member = 'tool', claimed] = /^Invocation: args\.(\w+) is (\S+?),? /.exec(message) ?? [];
    if (code !== 'POLICY_VIOLATION' && code !== 'COMMAND_MISMATCH') return suggestion;
    if (member !== 'tool')
      return claimed === 'missing'
        ? `Add ${member} to the arguments: ${what} is delegated, for calls that state it.`
        : `Call with another ${member}, or ask ${issuer} for a wider delegation: ${what} itself is delegated.`;
    return `Ask ${issuer} to delegate ${what} to ${this.#options.key.did} under the command ${command}, and name the new chain with one more --chain.`;
  }

  async #refresh(chain: ChainFile): Promise<void> {
    const stamp = stampOf(chain.file);
    if (stamp === chain.stamp) return;
    // Also for a file that cannot be used: it is said once, and tried again when it has changed again.
    chain.stamp = stamp;
    try {
      Object.assign(chain, await this.#read(chain.file));
      this.#options.note(`read ${chain.file} again: it has changed`);
    } catch (error) {
      this.#options.note(`${(error as Error).message}; the delegation that it had before counts on`);
    }
  }

  async #read(file: string): Promise<{ chain: readonly string[]; issuer: string }> {
    // A pipe can be read once, and a device without end.
    if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
      throw unusable(`${file} is not a file, expected a chain`, 'write the chain into a file');
    const chain = await this.#options.read(file);
    const [root, ...rest] = readChain(chain);
    const { aud, iss } = (rest.at(-1) ?? root).claims;
    const { did } = this.#options.key;
    if (aud === did) return { chain, issuer: iss };
    throw unusable(
      `the chain in ${file} ends at ${aud}, and this key is ${did}`,
      'give the key of the last delegate, or have the chain delegated to this key',
    );
  }
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
