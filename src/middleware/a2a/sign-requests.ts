import { A2A_COMMAND, BUNDLE_HEADER, signedArgumentsOf } from '../../gate/index.js';
import { isJsonObject } from '../../protocol/json.js';
import { signCall, type Delegation } from '../delegation.js';

/**
 * Makes a `fetch` that signs each JSON-RPC request of an A2A client. Other requests, such as the one for the agent
 * card, are sent unchanged.
 *
 * @param fetch the `fetch` that sends; default: the global one
 * @returns for the `fetchImpl` of the SDK's transports; a request that the delegation does not allow rejects with an
 *   `IssueError` and is not sent
 * @example
 * const fetchImpl = signA2aRequests({ key, chain, toolServer });
 * const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] });
 */
export function signA2aRequests(delegation: Delegation, fetch = globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const call = callIn(init?.body);
    if (call === null) return fetch(input, init);
    const args = signedArgumentsOf(call.method, call.params);
    if (typeof args === 'string') {
      const reason = args === 'reserved' ? 'has a member named "tool"' : 'is not an object';
      throw new TypeError(`cannot sign this A2A request: params ${reason}`);
    }
    const headers = new Headers(init?.headers);
    headers.set(BUNDLE_HEADER, signCall(delegation, `${A2A_COMMAND}/${call.method}`, args));
    return fetch(input, { ...init, headers });
  };
}

function callIn(body: unknown): { method: string; params: unknown } | null {
  if (typeof body !== 'string') return null;
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  if (!isJsonObject(value) || typeof value['method'] !== 'string') return null;
  return { method: value['method'], params: value['params'] };
}
