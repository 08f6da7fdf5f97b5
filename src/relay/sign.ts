import { META_KEYS } from '../gate/carriers.js';
import type { Explained } from '../gate/codes.js';
import {
  mcpArgumentsOf,
  MCP_COMMAND_PREFIX,
  needsBundle,
  subjectOf,
  TOOLS_CALL,
} from '../gate/mcp-methods.js';
import { nameOf } from '../gate/mcp.js';
import { shorten } from '../gate/request.js';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import type { SignCall } from './delegations.js';
import {
  errorLine,
  idTextOf,
  INVALID_REQUEST,
  MAX_ARGUMENT_BYTES,
  MAX_MESSAGE_BYTES,
  refusalLine,
  sizeOf,
  type Message,
} from './message.js';
import type { Hook, Outcome } from './pump.js';

const LIMIT = `at most ${sizeOf(MAX_ARGUMENT_BYTES)} can be signed`;

/**
 * Signs the requests of MCP that a gate checks. What is no such request passes.
 *
 * @param unsigned names of tools, and methods, whose requests pass unsigned
 */
export function mcpSigner(sign: SignCall, unsigned: ReadonlySet<string>): Hook {
  /** A request without an id has no answer, and a gate refuses it. One that has a bundle was signed by its sender. */
  const mustSign = ({ method, params, id }: Message): boolean => {
    if (method === undefined || id === null || !needsBundle(method, params)) return false;
    const meta = params['_meta'];
    if (isJsonObject(meta) && META_KEYS.some((name) => Object.hasOwn(meta, name))) return false;
    const subject = method === TOOLS_CALL ? subjectOf(method, params) : undefined;
    return !unsigned.has(method) && !(typeof subject === 'string' && unsigned.has(subject));
  };
  const decide = async (bytes: Buffer, message: Message | null, isTooLong = false): Promise<Outcome> => {
    const tooLong = `the message has more than ${MAX_MESSAGE_BYTES} bytes, and was not sent: of arguments, ${LIMIT}`;
    const error = { code: INVALID_REQUEST, message: tooLong };
    if (isTooLong) return { kind: 'answer', line: errorLine(idTextOf(message), error) };
    // What is no JSON passes, too, and a batch, which a gate refuses: one bundle is for one call.
    if (message === null) return { kind: 'send', bytes };
    const { method, params } = message;
    if (method === undefined || !mustSign(message)) return { kind: 'send', bytes };
    const refuse = (refusal: Explained, status?: number): Outcome => ({
      kind: 'answer',
      line: refusalLine(message, refusal, status),
    });
    const { defect } = parseStrictJson(decodeUtf8(bytes) ?? '');
    // No signature can cover it: parsers would read different values.
    if (defect !== undefined)
      return refuse(unsignable('INVALID_JSONRPC', `it is not strict JSON: ${defect.message}`), 400);
    const size = bytes.length > MAX_ARGUMENT_BYTES ? Buffer.byteLength(JSON.stringify(params)) : 0;
    if (size > MAX_ARGUMENT_BYTES)
      return refuse(unsignable('BODY_TOO_LARGE', `your arguments are ${sizeOf(size)}, and ${LIMIT}`), 413);
    const meta = params['_meta'];
    if (meta !== undefined && !isJsonObject(meta))
      return refuse(unsignable('INVALID_PARAMS', 'params._meta is not an object'), 400);
    const bound = mcpArgumentsOf(method, isJsonObject(message.value['params']) ? params : null);
    if ('code' in bound) return refuse(unsignable(bound.code, bound.message), 400);
    const what = nameOf(method, shorten(subjectOf(method, params)));
    const bundle = await sign(`${MCP_COMMAND_PREFIX}${method}`, bound.args, what);
    if (typeof bundle !== 'string') return refuse(bundle);
    // Written anew, which to every parser is the same: strict JSON has one reading.
    const signed = { ...params, _meta: { ...meta, [META_KEYS[0]]: bundle } };
    return { kind: 'send', bytes: Buffer.from(JSON.stringify({ ...message.value, params: signed })), bundle };
  };
  return { maxBytes: MAX_MESSAGE_BYTES, decide };
}

/** Why a request cannot be signed. */
export function unsignable(code: string, reason: string): Explained {
  return {
    code,
    message: `not sent, since it cannot be signed: ${reason}`,
    suggestion: 'Change the request: the server would refuse it as well.',
  };
}
