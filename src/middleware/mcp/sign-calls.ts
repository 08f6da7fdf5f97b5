import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { bodyOfCall } from '../call-body.js';
import { signCall, type Delegation } from '../delegation.js';
import { MCP_COMMAND, META_KEYS, TOOLS_CALL } from './call.js';
import { onConnect, type Connectable } from './transport.js';

/**
 * Has an MCP client sign each tool call, as it leaves: also one that the SDK sends again gets an invocation of its
 * own. To be called before `connect`.
 *
 * @param client a `Client` of either SDK
 * @returns the same client; a call that the delegation does not allow rejects with an `IssueError` and is not sent
 * @throws Error where it is connected already
 * @example
 * const client = signToolCalls(new Client({ name: 'agent', version: '1.0.0' }), { key, chain, toolServer });
 * await client.connect(transport);
 * await client.callTool({ name: 'search', arguments: { query: 'tea' } });
 */
export function signToolCalls<C extends Connectable>(client: C, delegation: Delegation): C {
  onConnect(client, (transport) => {
    const send = transport.send.bind(transport);
    transport.send = async (message, options) => {
      if (message.method !== TOOLS_CALL) await send(message, options);
      else await send({ ...message, params: signToolCall(message.params ?? {}, delegation) }, options);
    };
  });
  return client;
}

/**
 * Signs the parameters of one tool call, for a client that is not one of the SDKs'.
 *
 * @param params `name` and `arguments` of the call
 * @returns the parameters to send: as JSON gives them back, and with the bundle in `_meta`
 * @throws IssueError where the delegation does not allow the call
 * @throws TypeError where the call cannot be bound: no name, or an argument named `tool`
 * @example send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: signToolCall({ name: 'search' }, delegation) });
 */
export function signToolCall(params: object, delegation: Delegation): JsonObject {
  // What is signed must be what is sent: JSON drops members that are undefined, and turns a Date into a string.
  const sent = JSON.parse(JSON.stringify(params)) as JsonObject;
  const body = bodyOfCall(sent['name'], sent['arguments'], 'arguments');
  if (body.kind !== 'value') throw new TypeError(`cannot sign this tool call: ${reasonOf(body)}`);
  const meta = isJsonObject(sent['_meta']) ? sent['_meta'] : {};
  return { ...sent, _meta: { ...meta, [META_KEYS[0]]: signCall(delegation, MCP_COMMAND, body.value) } };
}

function reasonOf(body: { kind: string; reason?: string }): string {
  return body.reason ?? `its body is ${body.kind}`;
}
