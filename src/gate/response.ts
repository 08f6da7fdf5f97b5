import type { JsonValue } from '../protocol/json.js';
import { rpcCodeOf, type Explained, type GateFailure } from './codes.js';
import type { Denial } from './request.js';

/** The answer to a denied request. */
export interface GateResponse {
  readonly status: number;
  /** Names in lower case; includes `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: HttpRefusal | RpcRefusal;
}

/** The body of a denial over plain HTTP. `valid` and `binding` are present if there was a verdict. */
export interface HttpRefusal {
  readonly valid?: boolean;
  readonly binding?: 'mismatch' | 'invalid_body';
  readonly error: Explained;
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
}

/** A JSON-RPC response that denies a request. */
export interface RpcRefusal {
  readonly jsonrpc: '2.0';
  readonly id: JsonValue;
  readonly error: RpcError;
}

/** Makes the answer to a denied request, in the form of its protocol. */
export function responseTo(denial: Denial): GateResponse {
  const { protocol, form = protocol, failure } = denial;
  const { status } = failure;
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (status === 401) headers['www-authenticate'] = 'DRS';
  if (status === 405) headers['allow'] = 'POST, GET, DELETE, HEAD, OPTIONS';
  if (form !== 'http')
    return { status, headers, body: { jsonrpc: '2.0', id: denial.id, error: rpcError(failure) } };
  const { code, message, suggestion, verdict } = failure;
  return { status, headers, body: { ...verdict, error: { code, message, suggestion } } };
}

export function rpcError({ code, message, suggestion, status, verdict, version }: GateFailure): RpcError {
  return {
    code: rpcCodeOf(code),
    message: `DRS: ${code}: ${message}`,
    data: { code, detail: message, suggestion, status, ...verdict, ...version },
  };
}
