import { BUNDLE_HEADER, MCP_COMMAND, META_KEYS, signedArgumentsOf, TOOLS_CALL } from '../../gate/index.js';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { signCall, type Delegation } from '../delegation.js';
import { onConnect, type Connectable, type McpTransport } from './transport.js';

/** Options of {@link signToolCalls}. */
export interface SignToolCallsOptions {
  /** Whether to sign calls of a tool; default: all. Others are sent unchanged. */
  readonly sign?: (name: string) => boolean;
  /**
   * Where the bundle goes over HTTP. `both` (the default): into the header and `params._meta`, since some gateways
   * see only one of them. `_meta`: only there, for servers that do not accept large headers.
   */
  readonly carriers?: 'both' | '_meta';
}

/**
 * Makes an MCP client sign each tool call when it is sent. A call that the SDK repeats gets a new invocation. Call this
 * before `connect`.
 *
 * @param client a `Client` of either SDK
 * @returns the same client; a call that the delegation does not allow rejects with an `IssueError` and is not sent
 * @throws Error if it is connected already
 * @example
 * const client = signToolCalls(new Client({ name: 'agent', version: '1.0.0' }), { key, chain, toolServer });
 * await client.connect(transport);
 * await client.callTool({ name: 'search', arguments: { query: 'tea' } });
 */
export function signToolCalls<C extends Connectable>(
  client: C,
  delegation: Delegation,
  { sign, carriers = 'both' }: SignToolCallsOptions = {},
): C {
  onConnect(client, (transport) => {
    const send = transport.send.bind(transport);
    if (carriers === 'both') copyBundlesToHeaders(transport);
    transport.send = async (message, options) => {
      const name = message.params?.['name'];
      if (message.method !== TOOLS_CALL || (typeof name === 'string' && sign?.(name) === false)) {
        await send(message, options);
        return;
      }
      await send({ ...message, params: signToolCall(message.params ?? {}, delegation) }, options);
    };
  });
  return client;
}

/**
 * Signs the parameters of one tool call, for a client that is not one of the SDKs'.
 *
 * @param params `name` and `arguments` of the call
 * @returns the parameters to send: as JSON gives them back, and with the bundle in `_meta`. Over HTTP, send
 *   `_meta['X-DRS-Bundle']` as a header of that name, too.
 * @throws IssueError if the delegation does not allow the call
 * @throws TypeError if the call cannot be bound: no name, or an argument named `tool`
 * @example send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: signToolCall({ name: 'search' }, delegation) });
 */
export function signToolCall(params: object, delegation: Delegation): JsonObject {
  // What is signed must be what is sent: JSON drops members that are undefined, and turns a Date into a string.
  const sent = JSON.parse(JSON.stringify(params)) as JsonObject;
  const name = sent['name'];
  if (typeof name !== 'string') throw new TypeError('cannot sign this tool call: the call names no tool');
  const args = signedArgumentsOf(name, sent['arguments']);
  if (args === 'reserved') {
    throw new TypeError(
      'cannot sign this tool call: arguments has a member named "tool", which stands for the tool that is called',
    );
  }
  if (args === 'not an object') throw new TypeError('cannot sign this tool call: arguments is not an object');
  const meta = isJsonObject(sent['_meta']) ? sent['_meta'] : {};
  return { ...sent, _meta: { ...meta, [META_KEYS[0]]: signCall(delegation, MCP_COMMAND, args) } };
}

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * Makes an HTTP transport also send the bundle of each message as a header. The SDKs have no public way to set a
 * header for a single message, so this wraps the `fetch` of their transports. A transport without one sends only
 * `_meta`.
 */
function copyBundlesToHeaders(transport: McpTransport): void {
  if (!('_fetch' in transport)) return;
  const holder = transport as { _fetch: Fetch | undefined };
  const inner = holder._fetch;
  holder._fetch = (url, init) => {
    const bundle = bundleIn(init?.body);
    if (bundle === null) return (inner ?? fetch)(url, init);
    const headers = new Headers(init?.headers);
    headers.set(BUNDLE_HEADER, bundle);
    return (inner ?? fetch)(url, { ...init, headers });
  };
}

/** Reads the bundle from an outgoing message, which this client has written. */
function bundleIn(body: unknown): string | null {
  if (typeof body !== 'string' || !body.includes(META_KEYS[0])) return null;
  const message: unknown = JSON.parse(body);
  const params = isJsonObject(message) ? message['params'] : undefined;
  const meta = isJsonObject(params) ? params['_meta'] : undefined;
  const bundle = isJsonObject(meta) ? meta[META_KEYS[0]] : undefined;
  return typeof bundle === 'string' ? bundle : null;
}
