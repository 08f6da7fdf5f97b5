import { META_KEYS } from '../../gate/carriers.js';
import {
  mcpArgumentsOf,
  MCP_COMMAND_PREFIX,
  needsBundle,
  subjectOf,
  TOOLS_CALL,
} from '../../gate/mcp-methods.js';
import { shorten } from '../../gate/request.js';
import { isJsonObject, parseStrictJson, type JsonObject } from '../../protocol/json.js';
import type { Delegations, Refusal } from './delegations.js';
import {
  errorLine,
  idTextOf,
  INVALID_REQUEST,
  messageOf,
  readJson,
  refusalLine,
  withMeta,
  type Message,
} from './message.js';

/** What becomes of a message. */
export type Outcome =
  | { readonly kind: 'pass' }
  /** `text` has the bundle in `params._meta`. */
  | { readonly kind: 'signed'; readonly text: string; readonly bundle: string }
  /** It is not sent: the host gets this line. */
  | { readonly kind: 'refused'; readonly answer: string };

const PASS: Outcome = { kind: 'pass' };

/** Signs the requests of MCP that a gate checks. */
export class McpSigner {
  readonly #delegations: Delegations;
  readonly #unsigned: ReadonlySet<string>;

  /** @param unsigned names of tools, and methods, whose requests pass unsigned */
  constructor(delegations: Delegations, unsigned: ReadonlySet<string>) {
    this.#delegations = delegations;
    this.#unsigned = unsigned;
  }

  /** Decides on a text, which may be anything: what is no JSON-RPC passes. */
  async signText(text: string): Promise<Outcome> {
    const value = readJson(text);
    if (value === undefined) return PASS;
    if (Array.isArray(value)) return this.#signBatch(value.flatMap((item) => messageOf('', item) ?? []));
    const message = messageOf(text, value);
    return message === null ? PASS : await this.sign(message);
  }

  /** Decides on one message. */
  async sign(message: Message): Promise<Outcome> {
    const { method, params, text } = message;
    if (method === undefined || !this.#needsBundle(message)) return PASS;
    const refuse = (refusal: Refusal, status?: number): Outcome => ({
      kind: 'refused',
      answer: refusalLine(idTextOf(message), refusal, status),
    });
    const { defect } = parseStrictJson(text);
    // No signature can cover it: parsers would read different values.
    if (defect !== undefined)
      return refuse(unsignable('INVALID_JSONRPC', `it is not strict JSON: ${defect.message}`), 400);
    const meta = params['_meta'];
    if (meta !== undefined && !isJsonObject(meta))
      return refuse(unsignable('INVALID_PARAMS', 'params._meta is not an object'), 400);
    const bound = mcpArgumentsOf(method, isJsonObject(message.value['params']) ? params : null);
    if ('code' in bound) return refuse(unsignable(bound.code, bound.message), 400);
    const bundle = await this.#delegations.sign(
      `${MCP_COMMAND_PREFIX}${method}`,
      bound.args,
      nameOf(method, params),
    );
    if (typeof bundle !== 'string') return refuse(bundle);
    return { kind: 'signed', text: withMeta(text, META_KEYS[0], bundle), bundle };
  }

  /** Decides on a batch: it passes if nothing in it needs a bundle, since one bundle is for one call. */
  #signBatch(messages: readonly Message[]): Outcome {
    if (!messages.some((message) => this.#needsBundle(message))) return PASS;
    const detail = 'one bundle is for one call, and this is a batch: send its requests one by one';
    const answers = messages
      .filter(({ id }) => id !== null)
      .map(({ id }) => errorLine(JSON.stringify(id), INVALID_REQUEST, `DRS: BATCH_NOT_SUPPORTED: ${detail}`));
    return { kind: 'refused', answer: `[${answers.join(',')}]` };
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

function unsignable(code: string, reason: string): Refusal {
  return {
    code,
    detail: `not sent, since it cannot be signed: ${reason}`,
    suggestion: 'Change the request: the server would refuse it as well.',
  };
}

/** What a request asks for, in words. */
function nameOf(method: string, params: JsonObject): string {
  const subject = subjectOf(method, params);
  const name = typeof subject === 'string' ? ` ${JSON.stringify(shorten(subject))}` : '';
  return method === TOOLS_CALL ? `the tool${name}` : name === '' ? method : `${method} of${name}`;
}
