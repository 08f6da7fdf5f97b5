import { restArguments, targetOf, type RestCall } from '../../gate/a2a-rest.js';
import { A2A_COMMAND, signedArgumentsOf } from '../../gate/a2a.js';
import { BUNDLE_HEADER } from '../../gate/carriers.js';
import { isJsonObject, parseStrictJson, type JsonObject } from '../../protocol/json.js';
import { readInput, sendSigned, signCall, whyNoHeader, type Delegation } from '../delegation.js';
import { DRS_EXTENSION } from './extension.js';

/**
 * Makes a `fetch` that signs each request of an A2A client, over JSON-RPC and REST. Other requests, such as the one for
 * the agent card, are sent unchanged. A signed request follows no redirect.
 *
 * @param fetch the `fetch` that sends; default: the global one
 * @returns for the `fetchImpl` of the SDK's transports; a request that the delegation does not allow rejects with an
 *   `IssueError`, and one that cannot be signed with a `TypeError`: neither is sent
 * @example
 * const fetchImpl = signA2aRequests({ key, chain, toolServer });
 * const factory = new ClientFactory({
 *   transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
 * });
 */
export function signA2aRequests(delegation: Delegation, fetch = globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const { request, url } = readInput(input);
    const given = init?.body ?? null;
    const body = given === null && request !== null ? await request.clone().text() : given;
    const call = a2aCallOf(init?.method ?? request?.method ?? 'GET', url.pathname + url.search, body);
    if (call === null) return fetch(input, init);
    const headers = new Headers(init?.headers ?? request?.headers);
    nameExtension(headers);
    const bundle = await signCall(delegation, call.command, call.args);
    requireHeaderRoom(bundle);
    headers.set(BUNDLE_HEADER, bundle);
    return sendSigned(fetch, input, { ...init, headers });
  };
}

/** @throws TypeError if a bundle is too long for a header: A2A has no other carrier */
export function requireHeaderRoom(bundle: string): void {
  const reason = whyNoHeader(bundle);
  if (reason !== null) throw unsignable(`${reason}; send less in one request, such as a URL of a large file`);
}

/** Says that this client knows the extension. Servers refuse clients that do not say so, if their card requires it. */
function nameExtension(headers: Headers): void {
  headers.append('A2A-Extensions', DRS_EXTENSION);
  // Of 0.3. Where it is, servers of 0.3 read no other.
  if (headers.has('X-A2A-Extensions')) headers.append('X-A2A-Extensions', DRS_EXTENSION);
}

/** What is signed of a request to an A2A agent. */
export interface A2aCall {
  readonly command: string;
  /** Its member `tool` is the method. */
  readonly args: JsonObject;
}

/**
 * The call in a request to an A2A agent, over REST or JSON-RPC; `null` if it is none.
 *
 * @param path with its query, as the agent gets it
 * @param body text, if there is one
 * @throws TypeError if it cannot be signed
 */
export function a2aCallOf(httpMethod: string, path: string, body: unknown): A2aCall | null {
  const target = targetOf(httpMethod.toUpperCase(), path);
  const call = target.kind === 'rest' ? restCallOf(target, body) : rpcCallIn(body);
  if (call !== null && target.kind === 'invalid') throw unsignable(target.reason);
  return call;
}

function restCallOf(target: RestCall, body: unknown): A2aCall {
  let value: unknown;
  if (body !== null && body !== '') {
    if (typeof body !== 'string') throw unsignable('its body is not a string');
    const read = parseStrictJson(body);
    if (read.defect !== undefined) throw unsignable(`its body is not strict JSON: ${read.defect.message}`);
    ({ value } = read);
  }
  return callOf(target.method, restArguments(target, value));
}

function callOf(method: string, made: ReturnType<typeof restArguments>): A2aCall {
  if ('code' in made) throw unsignable(made.reason);
  return { command: `${A2A_COMMAND}/${method}`, args: made.args };
}

function rpcCallIn(body: unknown): A2aCall | null {
  if (typeof body !== 'string') return null;
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  if (!isJsonObject(value) || typeof value['method'] !== 'string') return null;
  const { method } = value;
  return callOf(method, signedArgumentsOf(method, value['params']));
}

function unsignable(reason: string): TypeError {
  return new TypeError(`cannot sign this A2A request: ${reason}`);
}
