import type { JsonObject, JsonValue } from '../protocol/json.js';
import { rpcCodeOf, type Explained, type GateFailure } from './codes.js';
import { APPROVAL_INPUT } from './mcp-methods.js';
import type { Denial } from './request.js';

/** The answer to a denied request. */
export interface GateResponse {
  readonly status: number;
  /** Names in lower case; includes `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: HttpRefusal | RpcRefusal | RpcQuestion;
}

/** The body of a denial over plain HTTP. `valid` and `binding` are present if there was a verdict. */
export interface HttpRefusal {
  readonly valid?: boolean;
  readonly binding?: 'mismatch' | 'invalid_body';
  readonly error: Explained & Pick<GateFailure, 'approval'>;
}

/** The `error` member of a JSON-RPC response that denies a request. */
export interface RpcError {
  /** -32010, or what JSON-RPC and MCP have for it. */
  readonly code: number;
  /** `DRS: <code>: <detail>`; many hosts show nothing else to agents and people. */
  readonly message: string;
  readonly data: RpcErrorData;
}

/** The details of a denial over JSON-RPC. */
export interface RpcErrorData {
  readonly code: string;
  readonly detail: string;
  readonly suggestion: string;
  /** The HTTP status of the denial. */
  readonly status: number;
  readonly valid?: boolean;
  readonly binding?: 'mismatch' | 'invalid_body';
  /** Of `UNSUPPORTED_VERSION`: the versions of MCP that the gate knows, and the one that was asked for. */
  readonly supported?: readonly string[];
  readonly requested?: string;
  /** Of `APPROVAL_REQUIRED` and `APPROVAL_DENIED`, at a gate that asks: its page, and when that ends, in Unix seconds. */
  readonly approval?: GateFailure['approval'];
  /** What a client of MCP 2025-11-25 opens for its user. */
  readonly elicitations?: readonly JsonObject[];
}

/** A JSON-RPC response that denies a request. */
export interface RpcRefusal {
  readonly jsonrpc: '2.0';
  readonly id: JsonValue;
  readonly error: RpcError;
}

/** An answer of MCP 2026-07-28 by which its client opens a link for its user, and sends the request again. */
export interface RpcQuestion {
  readonly jsonrpc: '2.0';
  readonly id: JsonValue;
  readonly result: JsonObject;
}

/**
 * Makes the answer to a denied request, in the form of its protocol.
 *
 * @param mayAsk whether the answer goes to the client as it is: a proxy would take one with the status 200 for an allowance
 */
export function responseTo(denial: Denial, mayAsk = false): GateResponse {
  const { protocol, form = protocol, failure } = denial;
  const { elicits } = denial;
  if (mayAsk && elicits?.wasTold === false && failure.code === 'APPROVAL_REQUIRED' && failure.approval) {
    const { url } = failure.approval;
    const { requestState } = elicits;
    const params = { mode: 'url', message: failure.message, url };
    const result = {
      resultType: 'input_required',
      inputRequests: { [APPROVAL_INPUT]: { method: 'elicitation/create', params } },
      ...(requestState !== null && { requestState }),
    };
    const headers = { 'content-type': 'application/json' };
    return { status: 200, headers, body: { jsonrpc: '2.0', id: denial.id, result } };
  }
  const { status } = failure;
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (status === 401) headers['www-authenticate'] = 'DRS';
  if (status === 405) headers['allow'] = 'POST, GET, DELETE, HEAD, OPTIONS';
  if (form !== 'http')
    return { status, headers, body: { jsonrpc: '2.0', id: denial.id, error: rpcError(failure) } };
  const { code, message, suggestion, verdict, approval } = failure;
  const error = { code, message, suggestion, ...(approval && { approval }) };
  return { status, headers, body: { ...verdict, error } };
}

/** Where an error of MCP 2025-11-25 has its client open a link for its user, and send the call again. */
const URL_ELICITATION_REQUIRED = -32042;

/** The handle of a question, which ends its link. */
export const handleIn = (url: string): string => url.slice(url.lastIndexOf('/') + 1);

/** The error of a denied request for a client of MCP 2025-11-25 that opens links. */
export function elicitingError(failure: GateFailure): RpcError {
  const error = rpcError(failure);
  const { code, message, approval } = failure;
  if (code !== 'APPROVAL_REQUIRED' || approval === undefined) return error;
  const { url } = approval;
  const elicitations = [{ mode: 'url', elicitationId: handleIn(url), url, message }];
  return { ...error, code: URL_ELICITATION_REQUIRED, data: { ...error.data, elicitations } };
}

export function rpcError(failure: GateFailure): RpcError {
  const { code, message, suggestion, status, verdict, version, approval } = failure;
  const data = { code, detail: message, suggestion, status, ...verdict, ...version };
  return {
    code: rpcCodeOf(code),
    message: `DRS: ${code}: ${message}`,
    data: { ...data, ...(approval && { approval }) },
  };
}
