import { isJsonObject, parseStrictJson, type JsonObject } from '../protocol/json.js';
import {
  RESERVED_ARGUMENTS,
  restArguments,
  targetOf,
  type ArgumentsDefect,
  type RestCall,
} from './a2a-rest.js';
import { bodyOfValue, findBundle, unusable } from './carriers.js';
import { gateFailure, type GateCode } from './codes.js';
import { methodOf, shorten, type GateRequest, type Opening } from './request.js';
import { answerId, bodyOfMessage, denier, mayHaveBody, openCall, openRpc } from './json-rpc.js';

/** The command above all A2A methods. */
export const A2A_COMMAND = '/a2a';

/** Opens a request to an A2A agent, over JSON-RPC or REST: every method is checked, under the command `/a2a/<method>`. */
export function openA2a(request: GateRequest): Opening {
  const method = methodOf(request);
  const isBare = !mayHaveBody(request.body);
  if (method === 'OPTIONS' && isBare) return { kind: 'pass' };
  const target = targetOf(method, request.target);
  switch (target.kind) {
    case 'card':
      if (isBare) return { kind: 'pass' };
      return denier('a2a', null, null)(failure('METHOD_NOT_ALLOWED', 'the request for the card has a body'));
    case 'rest':
      return openRest(request, target);
    case 'json-rpc':
      return openJsonRpc(request);
    case 'invalid':
      return denier('a2a', null, null)(failure('INVALID_PATH', target.reason));
    case 'none': {
      const message = `${shorten(method)} with this path is no call of A2A and no agent card`;
      return denier('a2a', null, null)(failure('METHOD_NOT_ALLOWED', message));
    }
  }
}

const failure = (code: GateCode, message: string) => gateFailure(code, 'a2a', message);

function openJsonRpc(request: GateRequest): Opening {
  const opened = openRpc('a2a', request);
  if (opened.kind !== 'message') return opened;
  const { message } = opened;
  const { method, params } = message;
  const id = answerId(message);
  const requested = shorten(method);
  const deny = denier('a2a', id, requested);
  if (method === undefined) return deny(failure('INVALID_JSONRPC', 'the message has no method'));
  const encoded = findBundle('a2a', request.headers, undefined);
  if (typeof encoded !== 'string') return deny(encoded);
  const made = signedArgumentsOf(method, params);
  if ('code' in made) return deny(failure(made.code, made.reason));
  return openCall('a2a', {
    id,
    requested,
    encoded,
    body: bodyOfMessage(message, made.args),
    expected: { command: `${A2A_COMMAND}/${method}`, orBelow: false, tool: null },
  });
}

/**
 * The arguments of a call of A2A over JSON-RPC in the form that is signed: the parameters, plus the method as `tool`.
 *
 * @param args an object, or `undefined` if the call has none
 * @example signedArgumentsOf('GetTask', { id: '7' }); // { args: { tool: 'GetTask', id: '7' } }
 */
export function signedArgumentsOf(
  tool: string,
  args: unknown = {},
): { readonly args: JsonObject } | ArgumentsDefect {
  if (!isJsonObject(args)) return { code: 'INVALID_PARAMS', reason: 'params is not an object' };
  if (RESERVED_ARGUMENTS.some((name) => Object.hasOwn(args, name)))
    return { code: 'RESERVED_ARGUMENT', reason: 'params has a member named "tool" or "path"' };
  return { args: { tool, ...args } };
}

function openRest({ headers, body }: GateRequest, target: RestCall): Opening {
  const requested = target.method;
  const deny = denier('a2a', null, requested, 'http');
  if (body.kind === 'too large') return deny(failure('BODY_TOO_LARGE', body.reason));
  const encoded = findBundle('a2a', headers, undefined);
  if (typeof encoded !== 'string') return deny(encoded);
  const call = {
    ...({ id: null, form: 'http', requested, encoded } as const),
    expected: { command: `${A2A_COMMAND}/${requested}`, orBelow: false, tool: null },
  };
  if (body.kind === 'unusable') return openCall('a2a', { ...call, body });
  if (body.kind === 'unread') return openCall('a2a', { ...call, body: unusable('the body was not read') });
  let value: unknown;
  if (body.kind === 'value') ({ value } = body);
  else if (body.kind === 'text' && !(body.text === '' && target.mayBeBare)) {
    const read = parseStrictJson(body.text);
    if (read.defect?.kind === 'size')
      return deny(failure('BODY_TOO_LARGE', `the body: ${read.defect.message}`));
    if (read.defect !== undefined)
      return openCall('a2a', {
        ...call,
        body: unusable(`the body is not strict JSON: ${read.defect.message}`),
      });
    ({ value } = read);
  }
  const made = restArguments(target, value);
  if ('code' in made) return deny(failure(made.code, made.reason));
  return openCall('a2a', {
    ...call,
    body: body.kind === 'value' ? bodyOfValue(made.args) : { kind: 'value', value: made.args },
  });
}
