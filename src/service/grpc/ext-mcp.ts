import { unusable } from '../../gate/carriers.js';
import { NO_CONTEXT, type HeaderChanges } from '../../gate/context.js';
import type { RequestBody } from '../../gate/request.js';
import { hasMoreNodes, JSON_LIMITS } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import type { Dialect } from './calls.js';
import { readHeaders, readMessage, requireLittleBesides, writeMessage } from './messages.js';

/** Values of `AuthorizationError.Code`, by the HTTP status of a denial. */
const PERMISSION_DENIED = 1;
const CODES: ReadonlyMap<number, number> = new Map([
  [400, 3], // INVALID
  [405, 3],
  [413, 3],
  [429, 2], // RESOURCE_EXHAUSTED
  [503, 0], // UNKNOWN
]);

/** agentgateway's `ExtMcp/CheckRequest`: a question is about one MCP message, by its method and params. */
export const EXT_MCP: Dialect = {
  read: (bytes, _, maxBodyBytes) => {
    const { method, mcpRequest, headers } = readMessage('McpRequest', bytes);
    requireLittleBesides(bytes, mcpRequest);
    const { head, only } = readHeaders(headers);
    return {
      protocol: 'mcp',
      request: {
        ...{ method: 'POST', path: null, headers: head.headers, mayLackHeaders: true },
        body: bodyOf(method, mcpRequest, maxBodyBytes),
      },
      only,
    };
  },
  pass: write({ pass: {}, headerMutation: mutation(NO_CONTEXT) }),
  allow: (headers, metadata) => write({ pass: {}, headerMutation: mutation(headers), metadata }),
  deny: ({ code, response }) => {
    const mcpError = Buffer.from(JSON.stringify(response.body.error));
    return writeDenial(response.status, { reason: `DRS: ${code}`, mcpError });
  },
  refuse: (status, reason) => writeDenial(status, { reason }),
};

/** The answer to every question about a tool server's response: the gate checks requests only. */
export const PASS_RESPONSE = write({ pass: {} });

function write(result: object): Buffer {
  return writeMessage('McpRequestResult', result);
}

function writeDenial(status: number, error: object): Buffer {
  const code = CODES.get(status) ?? PERMISSION_DENIED;
  return write({ error: { code, ...error } });
}

/** Rebuilds the JSON-RPC message from method and params. Its id is always 0: the gateway keeps the caller's id. */
function bodyOf(method: string, bytes: Buffer | null, maxBodyBytes: number): RequestBody {
  const head = `{"jsonrpc":"2.0","id":0,"method":${JSON.stringify(method)}`;
  if (bytes === null) return { kind: 'text', text: `${head}}` };
  if (bytes.length > maxBodyBytes)
    return { kind: 'too large', reason: `params is larger than ${maxBodyBytes} bytes (MAX_BODY_BYTES)` };
  const params = decodeUtf8(bytes);
  if (params === null) return unusable('params is not UTF-8');
  if (hasMoreNodes(params)) {
    return { kind: 'too large', reason: `params holds more than ${JSON_LIMITS}` };
  }
  // `params` must be one JSON value: text after it would become members of the message. If it is not, the gate gets it
  // alone, and says what is wrong with it.
  return { kind: 'text', text: isJson(params) ? `${head},"params":${params}}` : params };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function mutation({ set, remove }: HeaderChanges) {
  return {
    set: Object.entries(set).map(([name, value]) => ({ key: name.toLowerCase(), value: Buffer.from(value) })),
    remove,
  };
}
