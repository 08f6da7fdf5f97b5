import { unusable } from '../../gate/carriers.js';
import { contextHeaders, NO_CONTEXT, type HeaderChanges } from '../../gate/context.js';
import type { RequestBody } from '../../gate/request.js';
import type { GateResponse } from '../../gate/response.js';
import { hasMoreNodes, JSON_LIMITS } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { wholeContextOf, type GateDecision } from '../routes/gate-decider.js';
import { readGateHead } from '../http/request-head.js';
import {
  writeMcpRequestResult,
  writeMcpResponseResult,
  type McpRequest,
  type McpRequestResult,
} from './messages.js';
import { bufferOf, WireHeaders, type Question } from './question.js';
import { toStruct } from './struct.js';

/** agentgateway's `ExtMcp`: reads the question about one MCP message (method and params), and writes the answer. */

// AuthorizationError.Code
const UNKNOWN = 0;
const PERMISSION_DENIED = 1;
const RESOURCE_EXHAUSTED = 2;
const INVALID = 3;

/** Reads a question. */
export function readMcpCheck(message: McpRequest, maxBodyBytes: number): Question {
  const headers = new WireHeaders(message.headers);
  return {
    protocol: 'mcp',
    request: {
      method: 'POST',
      path: null,
      headers: readGateHead(headers).headers,
      body: bodyOf(message, maxBodyBytes),
    },
    requestId: headers.only('x-request-id'),
    traceparent: headers.only('traceparent'),
  };
}

/** Writes the answer to a question. */
export function writeMcpResult(decision: GateDecision): Buffer {
  switch (decision.kind) {
    case 'pass':
      return PASS;
    case 'allow': {
      const { context, token } = decision;
      return writeMcpRequestResult({
        pass: {},
        headerMutation: mutation(contextHeaders(context, token)),
        metadata: toStruct(wholeContextOf(decision)),
      });
    }
    case 'deny': {
      const { code, response } = decision;
      return writeMcpDenial(response.status, `DRS: ${code}`, errorIn(response));
    }
  }
}

/**
 * Writes a denial.
 *
 * @param status the HTTP status that it would have
 * @param error the `error` member of a JSON-RPC response
 */
export function writeMcpDenial(status: number, reason: string, error?: object): Buffer {
  const denial: McpRequestResult['error'] = { code: codeOf(status), reason };
  return writeMcpRequestResult({
    error: error === undefined ? denial : { ...denial, mcpError: Buffer.from(JSON.stringify(error)) },
  });
}

/** The answer to every question about a tool server's response: the gate checks requests only. */
export const PASS_RESPONSE = writeMcpResponseResult({ pass: {} });

const PASS = writeMcpRequestResult({ pass: {}, headerMutation: mutation(NO_CONTEXT) });

/** Rebuilds the JSON-RPC message from method and params. Its id is always 0: the gateway keeps the caller's id. */
function bodyOf(message: McpRequest, maxBodyBytes: number): RequestBody {
  const head = `{"jsonrpc":"2.0","id":0,"method":${JSON.stringify(message.method)}`;
  if (!Object.hasOwn(message, 'mcpRequest')) return { kind: 'text', text: `${head}}` };
  const bytes = bufferOf(message.mcpRequest);
  if (bytes.length > maxBodyBytes) {
    return { kind: 'too large', reason: `params is larger than ${maxBodyBytes} bytes (MAX_BODY_BYTES)` };
  }
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

function errorIn({ body }: GateResponse): object {
  return body.error;
}

function codeOf(status: number): number {
  switch (status) {
    case 400:
    case 405:
    case 413:
      return INVALID;
    case 429:
      return RESOURCE_EXHAUSTED;
    case 503:
      return UNKNOWN;
    default:
      return PERMISSION_DENIED;
  }
}
