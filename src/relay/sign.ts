import { META_KEYS } from '../gate/carriers.js';
import type { Explained } from '../gate/codes.js';
import {
  mcpArgumentsOf,
  MCP_COMMAND_PREFIX,
  needsBundle,
  subjectOf,
  TOOLS_CALL,
} from '../gate/mcp-methods.js';
import { shorten } from '../gate/request.js';
import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../protocol/json.js';
import { decodeUtf8 } from '#platform';
import type { SignCall } from './delegations.js';
import {
  errorLine,
  idTextOf,
  INVALID_REQUEST,
  MAX_ARGUMENT_BYTES,
  MAX_MESSAGE_BYTES,
  messageOf,
  readBytes,
  refusalLine,
  sizeOf,
  type Message,
} from './message.js';
import type { Hook, Outcome } from './pump.js';

const LIMIT = `at most ${sizeOf(MAX_ARGUMENT_BYTES)} can be signed`;

/** Signs the requests of MCP that a gate checks. What is no such request passes. */
export class McpSigner implements Hook {
  readonly maxBytes = MAX_MESSAGE_BYTES;
  readonly #sign: SignCall;
  readonly #unsigned: ReadonlySet<string>;

  /** @param unsigned names of tools, and methods, whose requests pass unsigned */
  constructor(sign: SignCall, unsigned: ReadonlySet<string>) {
    this.#sign = sign;
    this.#unsigned = unsigned;
  }

  async decide(bytes: Buffer, message: Message | null, isTooLong = false): Promise<Outcome> {
    const tooLong = `the message has more than ${MAX_MESSAGE_BYTES} bytes, and was not sent: of arguments, ${LIMIT}`;
    if (isTooLong) return { kind: 'answer', line: errorLine(idTextOf(message), INVALID_REQUEST, tooLong) };
    if (message === null) return this.#decideBatch(bytes);
    const { method, params } = message;
    if (method === undefined || !this.#needsBundle(message)) return { kind: 'send', bytes };
    const refuse = (refusal: Explained, status?: number): Outcome => ({
      kind: 'answer',
      line: refusalLine(message, refusal, status),
    });
    const { defect } = parseStrictJson(decodeUtf8(bytes) ?? '');
    // No signature can cover it: parsers would read different values.
    if (defect !== undefined)
      return refuse(unsignable('INVALID_JSONRPC', `it is not strict JSON: ${defect.message}`), 400);
    if (bytes.length > MAX_ARGUMENT_BYTES) {
      const size = Buffer.byteLength(JSON.stringify(params));
      if (size > MAX_ARGUMENT_BYTES)
        return refuse(unsignable('BODY_TOO_LARGE', `your arguments are ${sizeOf(size)}, and ${LIMIT}`), 413);
    }
    const meta = params['_meta'];
    if (meta !== undefined && !isJsonObject(meta))
      return refuse(unsignable('INVALID_PARAMS', 'params._meta is not an object'), 400);
    const bound = mcpArgumentsOf(method, isJsonObject(message.value['params']) ? params : null);
    if ('code' in bound) return refuse(unsignable(bound.code, bound.message), 400);
    const command = `${MCP_COMMAND_PREFIX}${method}`;
    const bundle = await this.#sign(command, bound.args, nameOf(method, params));
    if (typeof bundle !== 'string') return refuse(bundle);
    // Written anew, which to every parser is the same: strict JSON has one reading.
    const signed = { ...params, _meta: { ...meta, [META_KEYS[0]]: bundle } };
    return { kind: 'send', bytes: Buffer.from(JSON.stringify({ ...message.value, params: signed })), bundle };
  }

  /** A batch passes if nothing in it needs a bundle, since one bundle is for one call. What is no JSON passes, too. */
  #decideBatch(bytes: Buffer): Outcome {
    const value = readBytes(bytes);
    const items = Array.isArray(value) ? (value as readonly JsonValue[]) : [];
    const messages = items.flatMap((item) => messageOf(bytes, item) ?? []);
    if (!messages.some((message) => this.#needsBundle(message))) return { kind: 'send', bytes };
    const detail = 'one bundle is for one call, and this is a batch: send its requests one by one';
    const answers = messages
      .filter(({ id }) => id !== null)
      .map((one) => errorLine(idTextOf(one), INVALID_REQUEST, `DRS: BATCH_NOT_SUPPORTED: ${detail}`));
    return { kind: 'answer', line: `[${answers.join(',')}]` };
  }

  /** A request without an id has no answer, and a gate refuses it. One that has a bundle was signed by its sender. */
  #needsBundle({ method, params, id }: Message): boolean {
    if (method === undefined || id === null || !needsBundle(method, params) || carriesBundle(params))
      return false;
    const subject = method === TOOLS_CALL ? subjectOf(method, params) : undefined;
    return !this.#unsigned.has(method) && !(typeof subject === 'string' && this.#unsigned.has(subject));
  }
}

function carriesBundle(params: JsonObject): boolean {
  const meta = params['_meta'];
  return isJsonObject(meta) && META_KEYS.some((name) => Object.hasOwn(meta, name));
}

/** Why a request cannot be signed. */
export function unsignable(code: string, reason: string): Explained {
  return {
    code,
    message: `not sent, since it cannot be signed: ${reason}`,
    suggestion: 'Change the request: the server would refuse it as well.',
  };
}

/** What a request asks for, in words. */
function nameOf(method: string, params: JsonObject): string {
  const subject = subjectOf(method, params);
  const name = typeof subject === 'string' ? ` ${JSON.stringify(shorten(subject))}` : '';
  return method === TOOLS_CALL ? `the tool${name}` : name === '' ? method : `${method} of${name}`;
}
