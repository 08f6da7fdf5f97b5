import path from 'node:path';
import { bundleMeta, META_KEYS } from '../gate/carriers.js';
import type { Explained } from '../gate/codes.js';
import { MCP_COMMAND_PREFIX, needsBundle, TOOLS_CALL } from '../gate/mcp-methods.js';
import { mcpArgumentsOf, subjectOf } from '../gate/mcp-methods.js';
import { nameOf } from '../gate/mcp.js';
import { shorten } from '../gate/request.js';
import { IssueError, type Signer } from '../issue/index.js';
import { readChain } from '../issue/chain.js';
import { signCall } from '../middleware/delegation.js';
import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { MAX_ARGUMENT_BYTES, MAX_MESSAGE_BYTES, refusalLine, sizeOf, type Message } from './message.js';
import type { Tools } from '../verify/tools.js';
import type { Hook, Decided } from './pump.js';

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
 *
 * @param files their names, in the order in which they are tried; at least one
 * @param read reads the receipts of a file
 * @param readTools reads what the operator of the tool server says; `null` if that is not known
 */
export async function openDelegations(
  key: Signer,
  files: readonly string[],
  read: (file: string) => Promise<readonly string[]>,
  toolServer: string,
  readTools: () => Promise<Tools | null> = () => Promise.resolve(null),
): Promise<SignCall> {
  /** By their names, the files whose chain is for this key. Signing decodes it for each call, this where it is another. */
  const known = new Map<string, { readonly chain: readonly string[]; readonly issuer: string }>();
  const readFor = async (file: string) => {
    const chain = await read(file);
    const before = known.get(file);
    if (before?.chain.join() === chain.join()) return before;
    const [root, ...rest] = readChain(chain);
    const { aud, iss: issuer } = (rest.at(-1) ?? root).claims;
    const found = `the chain in ${file} ends at ${aud}, and this key is ${key.did}`;
    const hint = 'give the key of the last delegate, or have the chain delegated to this key';
    if (aud !== key.did) throw new IssueError('INVALID_OPTION', found, hint);
    known.set(file, { chain, issuer });
    return { chain, issuer };
  };
  for (const file of files) await readFor(file);
  await readTools();
  return async (command, args, what) => {
    const refused: Explained[] = [];
    for (const file of files) {
      let issuer = '';
      try {
        const found = await readFor(file);
        ({ issuer } = found);
        return await signCall({ key, chain: found.chain, toolServer }, command, args, await readTools());
      } catch (error) {
        // A file may have no chain any more.
        const failed = error as Partial<IssueError> & Error;
        const { code = 'INVALID_OPTION', message, suggestion = 'Correct the file.' } = failed;
        // The key does not sign, whatever is delegated to it.
        if (code === 'INVALID_KEY')
          return { code, message: `not sent, since it was not signed: ${message}`, suggestion };
        const [, member = 'tool', claimed] = /^Invocation: args\.(\w+) is (\S+?),? /.exec(message) ?? [];
        // By what has failed. Who reads it may be the issuer.
        let remedy = suggestion;
        if (code === 'POLICY_VIOLATION' || code === 'COMMAND_MISMATCH') {
          const another = `issue another ${path.basename(file)} (as ${issuer}): it counts at once`;
          const other = message.includes('what the operator says')
            ? 'Call it otherwise'
            : `Call with another ${member}`;
          remedy = `${other}; to allow this one, ${another}. ${what} itself is delegated.`;
          if (claimed === 'missing')
            remedy = `Add ${member} to the arguments, or have the operator of the tool server say it (TOOLS_FILE): ${what} is delegated, for calls of which it is known.`;
          if (member === 'tool') remedy = `To allow ${what} under ${command}, ${another}.`;
        }
        refused.push({ code, message: `${file}: ${message}`, suggestion: remedy });
      }
    }
    const reasons = refused.map(({ message }) => message).join('; ');
    return { ...(refused[0] as Explained), message: `not sent, since no delegation allows it: ${reasons}` };
  };
}

const LIMIT = `at most ${sizeOf(MAX_ARGUMENT_BYTES)} can be signed`;

export const TOO_LONG = unsignable(
  'BODY_TOO_LARGE',
  `the message has more than ${MAX_MESSAGE_BYTES} bytes: of arguments, ${LIMIT}`,
);

/**
 * Signs the requests of MCP that a gate checks. What is no such request passes.
 *
 * @param unsigned names of tools, and methods, whose requests pass unsigned
 */
export function mcpSigner(sign: SignCall, unsigned: ReadonlySet<string>): Hook {
  /** A request without an id has no answer, and a gate refuses it. One that has a bundle was signed by its sender. */
  const mustSign = (method: string, { params, meta, id }: Message): boolean => {
    if (id === null || !needsBundle(method, params)) return false;
    if (META_KEYS.some((name) => Object.hasOwn(meta, name))) return false;
    const subject = method === TOOLS_CALL ? subjectOf(method, params) : method;
    return ![method, subject].some((name) => unsigned.has(name as string));
  };
  const decide = async (message: Message): Promise<Decided> => {
    const { bytes, isTooLong, method, params, meta, value } = message;
    const refuse = (code: string, reason: string, status = 400) =>
      refusalLine(message, unsignable(code, reason), status);
    if (isTooLong) return refusalLine(message, TOO_LONG, 413);
    // What is no JSON passes, too, and a batch, which a gate refuses: one bundle is for one call.
    if (method === undefined || !mustSign(method, message)) return { ...message, body: bytes };
    const { defect } = parseStrictJson(decodeUtf8(bytes) ?? '');
    // No signature can cover it: parsers would read different values.
    if (defect !== undefined) return refuse('INVALID_JSONRPC', `it is not strict JSON: ${defect.message}`);
    const size = bytes.length > MAX_ARGUMENT_BYTES ? Buffer.byteLength(JSON.stringify(params)) : 0;
    if (size > MAX_ARGUMENT_BYTES)
      return refuse('BODY_TOO_LARGE', `your arguments are ${sizeOf(size)}, and ${LIMIT}`, 413);
    const bound = mcpArgumentsOf(method, isJsonObject(value['params']) ? params : null);
    if ('code' in bound) return refuse(bound.code, bound.message);
    const what = nameOf(method, shorten(subjectOf(method, params)));
    const bundle = await sign(`${MCP_COMMAND_PREFIX}${method}`, bound.args, what);
    if (typeof bundle !== 'string') return refusalLine(message, bundle);
    // Written anew, which to every parser is the same: strict JSON has one reading.
    const signed = { ...params, _meta: { ...meta, ...bundleMeta(bundle) } };
    return { ...message, body: Buffer.from(JSON.stringify({ ...value, params: signed })), bundle };
  };
  return { maxBytes: MAX_MESSAGE_BYTES, decide };
}

export function unsignable(
  code: string,
  reason: string,
  suggestion = 'Change the request: the server would refuse it as well.',
): Explained {
  return { code, message: `not sent, since it cannot be signed: ${reason}`, suggestion };
}
