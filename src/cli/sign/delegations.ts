import { readFileSync, statSync } from 'node:fs';
import { IssueError, type Signer } from '../../issue/index.js';
import { readChain } from '../../issue/chain.js';
import { signCall, type Delegation } from '../../middleware/delegation.js';
import { decodeUtf8 } from '#platform';
import type { JsonObject } from '../../protocol/json.js';
import { isChainText, receiptsOf } from '../bundle-file.js';
import { CommandError } from '../command-error.js';

/** Why a call is not signed. The words are those of the gate's answers. */
export interface Refusal {
  readonly code: string;
  readonly detail: string;
  readonly suggestion: string;
}

/** What {@link Delegations} needs. */
export interface DelegationsOptions {
  readonly key: Signer;
  /** Names of chain files, in the order in which they are tried. */
  readonly files: readonly string[];
  readonly toolServer: string;
  /** Tells the operator something. */
  readonly note: (message: string) => void;
}

/** Far more than the largest chain that a verifier takes. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;
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
  readonly #files: readonly ChainFile[];

  /** @throws CommandError if a file holds no chain for this key */
  constructor(options: DelegationsOptions) {
    this.#options = options;
    this.#files = options.files.map((file) => ({ file, ...this.#read(file), stamp: stampOf(file) }));
  }

  /** Who signs. */
  get did(): string {
    return this.#options.key.did;
  }

  /**
   * Signs one call under the first delegation that allows it. All signing is done here. Somebody else's key may take
   * minutes: an agent may ask a person.
   *
   * @param what is called, in words, such as `the tool "search"`
   * @returns the encoded bundle; or why no delegation allows the call, and whom to ask for what
   */
  async sign(command: string, args: JsonObject, what: string): Promise<string | Refusal> {
    const reasons: { readonly chain: ChainFile; readonly error: IssueError }[] = [];
    for (const chain of this.#files) {
      this.#refresh(chain);
      try {
        return await signCall(this.#delegation(chain), command, args);
      } catch (error) {
        if (!(error instanceof IssueError)) throw error;
        if (error.code === 'INVALID_KEY') return unsigned(error);
        reasons.push({ chain, error });
      }
    }
    return this.#explain(reasons, command, what);
  }

  #delegation({ chain }: ChainFile): Delegation {
    const { key, toolServer } = this.#options;
    return { key, chain, toolServer };
  }

  #explain(
    reasons: readonly { readonly chain: ChainFile; readonly error: IssueError }[],
    command: string,
    what: string,
  ): Refusal {
    const [first] = reasons;
    const { file, issuer } = (first as (typeof reasons)[0]).chain;
    const shown = reasons.slice(0, MAX_REASONS).map(({ chain, error }) => `${chain.file}: ${error.message}`);
    const more = reasons.length > MAX_REASONS ? ` (and ${reasons.length - MAX_REASONS} more)` : '';
    return {
      code: first?.error.code ?? 'POLICY_VIOLATION',
      detail: `not sent, since no delegation allows it: ${shown.join('; ')}${more}`,
      suggestion: `Ask ${issuer} to delegate ${what} to ${this.did} under the command ${command}, and put the chain into ${file}. It counts at once.`,
    };
  }

  #refresh(chain: ChainFile): void {
    const stamp = stampOf(chain.file);
    if (stamp === chain.stamp) return;
    // Also for a file that cannot be used: it is said once, and tried again when it has changed again.
    chain.stamp = stamp;
    try {
      Object.assign(chain, this.#read(chain.file));
      this.#options.note(`read ${chain.file} again: it has changed`);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      this.#options.note(`${error.message}; the delegation that it had before counts on`);
    }
  }

  #read(file: string): { chain: readonly string[]; issuer: string } {
    const chain = receiptsIn(file);
    const leaf = leafOf(chain, file);
    if (leaf.aud !== this.did)
      throw new CommandError(
        `the chain in ${file} ends at ${leaf.aud}, and this key is ${this.did}`,
        'give the key of the last delegate, or have the chain delegated to this key',
      );
    return { chain, issuer: leaf.iss };
  }
}

/** The key does not sign, whatever is delegated to it. */
function unsigned({ code, message, suggestion }: IssueError): Refusal {
  return { code, detail: `not sent, since it was not signed: ${message}`, suggestion };
}

function leafOf(chain: readonly string[], file: string): { readonly aud: string; readonly iss: string } {
  try {
    const [root, ...rest] = readChain(chain);
    return (rest.at(-1) ?? root).claims;
  } catch (error) {
    if (!(error instanceof IssueError)) throw error;
    throw new CommandError(`${file}: ${error.message}`, error.suggestion);
  }
}

function receiptsIn(file: string): string[] {
  const hint = 'give the file that `npx drs-verify issue` or `npx drs-verify delegate` wrote with -o';
  let bytes: Buffer;
  try {
    const found = statSync(file);
    // A pipe can be read once, and a device without end.
    if (!found.isFile()) throw new CommandError(`${file} is not a file, expected a chain`, hint);
    if (found.size > MAX_FILE_BYTES)
      throw new CommandError(`${file} has more than ${MAX_FILE_BYTES} bytes, expected a chain`, hint);
    bytes = readFileSync(file);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`cannot read a chain from ${file}: ${(error as Error).message}`, hint);
  }
  const text = decodeUtf8(bytes);
  if (text !== null && isChainText(text)) return receiptsOf(text);
  throw new CommandError(`${file} is not a chain of receipts: expected one compact JWT a line`, hint);
}

/** Differs if a file was written, replaced, made or removed. */
function stampOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  return found === undefined
    ? 'none'
    : `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
}
