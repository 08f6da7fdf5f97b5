import { restArguments, targetOf, type RestCall } from '../../gate/a2a-rest.js';
import { A2A_COMMAND, signedArgumentsOf } from '../../gate/a2a.js';
import { BUNDLE_HEADER } from '../../gate/carriers.js';
import { isJsonObject, parseStrictJson, type JsonObject } from '../../protocol/json.js';
import { sendSigned, signCall, type Delegation } from '../delegation.js';
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
    const request = input instanceof Request ? input : null;
    const { pathname, search } = new URL(input instanceof Request ? input.url : input);
    const given = init?.body ?? null;
    const body = given === null && request !== null ? await request.clone().text() : given;
    const call = a2aCallOf(init?.method ?? request?.method ?? 'GET', pathname + search, body);
    if (call === null) return fetch(input, init);
    const headers = new Headers(init?.headers ?? request?.headers);
    nameExtension(headers);
    const bundle = await signCall(delegation, call.command, call.args);
    headers.set(BUNDLE_HEADER, requireRoom(bundle));
    return sendSigned(fetch, input, { ...init, headers });
  };
}

/** A2A has no other carrier, and our front ends take 64 KiB of headers, which are not the bundle's alone. */
const MAX_BUNDLE = 60_000;

/** The same bundle. @throws TypeError if it is too long for a header */
export function requireRoom(bundle: string): string {
  if (bundle.length <= MAX_BUNDLE) return bundle;
  throw unsignable(
    `its bundle has ${bundle.length} characters, and headers have at most ${MAX_BUNDLE}; send less in one request, such as a URL of a large file`,
  );
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
  return call === null ? null : { command: `${A2A_COMMAND}/${call.method}`, args: call.args };
}

interface Call {
  readonly method: string;
  readonly args: JsonObject;
}

function restCallOf(target: RestCall, body: unknown): Call {
  let value: unknown;
  if (body !== null && body !== '') {
    if (typeof body !== 'string') throw unsignable('its body is not a string');
    const read = parseStrictJson(body);
    if (read.defect !== undefined) throw unsignable(`its body is not strict JSON: ${read.defect.message}`);
    ({ value } = read);
  }
  const made = restArguments(target, value);
  if ('code' in made) throw unsignable(made.reason);
  return { method: target.method, args: made.args };
}

function rpcCallIn(body: unknown): Call | null {
  if (typeof body !== 'string') return null;
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  if (!isJsonObject(value) || typeof value['method'] !== 'string') return null;
  const { method } = value;
  const args = signedArgumentsOf(method, value['params']);
  if (args === 'reserved') throw unsignable('params has a member named "tool" or "path"');
  if (args === 'not an object') throw unsignable('params is not an object');
  return { method, args };
}

function unsignable(reason: string): TypeError {
  return new TypeError(`cannot sign this A2A request: ${reason}`);
}
