import { BUNDLE_HEADER, bundleMeta, MAX_HEADER_BUNDLE, META_KEYS } from '../../gate/carriers.js';
import {
  isGated,
  mcpArgumentsOf,
  MCP_COMMAND_PREFIX,
  needsBundle,
  subjectOf,
} from '../../gate/mcp-methods.js';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { callback, checkedOptions, oneOf, type GivenOptions, type Table } from '../../protocol/options.js';
import { sendSigned, signCall, type Delegation } from '../delegation.js';
import { onConnect, type Connectable, type McpTransport } from './transport.js';

const OPTIONS = {
  /**
   * Whether to sign a request; default: all whose method is gated. Others are sent unchanged.
   *
   * @param name what is called: the name of a tool or prompt, the URI of a resource, the id of a task; else empty
   * @param method such as `tools/call`
   */
  sign: { kind: callback<(name: string, method: string) => boolean>() },
  /**
   * Where the bundle goes over HTTP. `both` (the default): into `params._meta`, and into the header while it has at
   * most 4,096 characters, since some gateways see only one of them. `_meta`: only there. `header`: into both however
   * long it is, for gateways that see only headers; server and proxies must then accept large headers.
   */
  carriers: { kind: oneOf('both', '_meta', 'header'), default: 'both' },
} satisfies Table;

/** Options of {@link signCalls}. */
export interface SignCallsOptions extends GivenOptions<typeof OPTIONS> {}

/**
 * Makes an MCP client sign each gated request when it is sent: calls of tools, and reading of resources, prompts,
 * completions and tasks. A call that the SDK repeats gets a new invocation. A signed request follows no redirect. Call this
 * before `connect`.
 *
 * @param client a `Client` of either SDK
 * @returns the same client; a request that the delegation does not allow rejects with an `IssueError` and is not sent
 * @throws Error if it is connected already
 * @throws TypeError if an option is unknown or not of its kind
 * @example
 * const client = signCalls(new Client({ name: 'agent', version: '1.0.0' }), { key, chain, toolServer });
 * await client.connect(transport);
 * await client.callTool({ name: 'search', arguments: { query: 'tea' } });
 */
export function signCalls<C extends Connectable>(
  client: C,
  delegation: Delegation,
  options: SignCallsOptions = {},
): C {
  const { sign, carriers } = checkedOptions(options, OPTIONS);
  onConnect(client, (transport) => {
    const send = transport.send.bind(transport);
    wrapFetch(transport, MAX_HEADER[carriers]);
    transport.send = async (message, options) => {
      const { method, id } = message;
      const params = (message.params ?? {}) as JsonObject;
      const isGatedRequest = method !== undefined && id !== undefined && needsBundle(method, params);
      if (!isGatedRequest || sign?.(nameIn(method, params), method) === false) {
        await send(message, options);
        return;
      }
      await send({ ...message, params: await signRequest(method, params, delegation) }, options);
    };
  });
  return client;
}

/** The longest bundle, in characters, that goes into the header. */
const MAX_HEADER = { both: MAX_HEADER_BUNDLE, _meta: 0, header: Infinity };

function nameIn(method: string, params: JsonObject): string {
  const name = subjectOf(method, params);
  return typeof name === 'string' ? name : '';
}

/**
 * Signs the parameters of one request, for a client that is not one of the SDKs'.
 *
 * @param method a gated method of MCP, such as `resources/read`
 * @returns the parameters to send: as JSON gives them back, and with the bundle in `_meta`. Over HTTP, send
 *   `_meta['X-DRS-Bundle']` as a header of that name, too, if it has at most 4,096 characters
 * @throws IssueError if the delegation does not allow the request
 * @throws TypeError if it cannot be bound: a method that is not gated, no name, a reserved argument, an unknown member
 * @example
 * const params = await signRequest('resources/read', { uri: 'file:///notes.md' }, delegation);
 * send({ jsonrpc: '2.0', id: 1, method: 'resources/read', params });
 */
export async function signRequest(
  method: string,
  params: object,
  delegation: Delegation,
): Promise<JsonObject> {
  if (!isGated(method)) throw new TypeError(`cannot sign ${method}: it is not a gated method of MCP`);
  // What is signed must be what is sent: JSON drops members that are undefined, and turns a Date into a string.
  const sent = JSON.parse(JSON.stringify(params)) as JsonObject;
  const bound = mcpArgumentsOf(method, sent);
  if ('code' in bound) throw new TypeError(`cannot sign this ${method}: ${bound.message}`);
  const meta = isJsonObject(sent['_meta']) ? sent['_meta'] : {};
  const bundle = await signCall(delegation, `${MCP_COMMAND_PREFIX}${method}`, bound.args);
  return { ...sent, _meta: { ...meta, ...bundleMeta(bundle) } };
}

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * Makes an HTTP transport also send the bundle of each message as a header, if it is short enough, and follow no redirect
 * with a bundle. The SDKs have no public way to do either for a single message, so this wraps the `fetch` of their
 * transports. A transport without one sends only `_meta`.
 */
function wrapFetch(transport: McpTransport, maxHeader: number): void {
  if (!('_fetch' in transport)) return;
  const holder = transport as { _fetch: Fetch | undefined };
  const inner = holder._fetch;
  holder._fetch = (url, init) => {
    const send = (inner ?? fetch) as typeof fetch;
    const bundle = bundleIn(init?.body);
    if (bundle === null) return send(url, init);
    const headers = new Headers(init?.headers);
    if (bundle.length <= maxHeader) headers.set(BUNDLE_HEADER, bundle);
    return sendSigned(send, url, { ...init, headers });
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
