import type { Binding } from '../verify/binding.js';

/** The protocols whose requests the gate understands. */
export type Protocol = 'http' | 'mcp' | 'a2a';

interface Row {
  readonly code: string;
  /** HTTP status of the answer. */
  readonly status: number;
  /** HTTP status on the JSON-RPC protocols, if it differs. */
  readonly rpcStatus?: number;
  /** The code that JSON-RPC or MCP has for it; {@link RPC_ERROR_CODE} if they have none. */
  readonly rpcCode?: number;
  /** What the caller can do. */
  readonly suggestion: string;
}

/**
 * The codes that the gate adds to those of a verdict, in the order in which they are checked. `docs/codes.md` explains
 * each one; its anchor is `gate-<code>`.
 */
export const GATE_CATALOGUE = [
  {
    code: 'BODY_TIMEOUT',
    status: 408,
    suggestion: 'Send the whole body at once, as long as Content-Length says.',
  },
  {
    code: 'HOP_BY_HOP_HEADER',
    status: 400,
    suggestion: 'Send no Upgrade header, and in Connection nothing but close or keep-alive.',
  },
  {
    code: 'METHOD_NOT_ALLOWED',
    status: 405,
    suggestion:
      'Send the message with POST. Of other requests pass: over MCP an event stream (Accept: text/event-stream) and DELETE, over A2A the agent card.',
  },
  {
    code: 'INVALID_PATH',
    status: 400,
    suggestion: 'Send a plain path, percent-encoded where it must be. The gate must get it as it was sent.',
  },
  {
    code: 'UNKNOWN_ROUTE',
    status: 403,
    suggestion: 'Call a method and path that the operator has put into the table of routes (GATE_ROUTES).',
  },
  {
    code: 'BODY_TOO_LARGE',
    status: 413,
    suggestion: 'Send less, or have the operator raise the limit on bodies.',
  },
  {
    code: 'INVALID_JSONRPC',
    status: 400,
    suggestion: 'Send one JSON-RPC 2.0 message as strict JSON in UTF-8.',
  },
  {
    code: 'BATCH_NOT_SUPPORTED',
    status: 400,
    suggestion: 'Send each message in a request of its own: a bundle is for one call.',
  },
  {
    code: 'HEADER_MISMATCH',
    status: 400,
    rpcCode: -32020,
    suggestion:
      'Set MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Param-… to the version, the method, the name and the arguments of the body.',
  },
  {
    code: 'UNSUPPORTED_VERSION',
    status: 400,
    rpcCode: -32022,
    suggestion: 'Use a version of MCP that the gate supports: data.supported has them.',
  },
  {
    code: 'UNKNOWN_METHOD',
    status: 403,
    rpcCode: -32601,
    suggestion: 'Use a method of this version of MCP, or have the operator add this one to GATE_PASS_METHODS (passMethods).',
  },
  {
    code: 'MULTIPLE_BUNDLES',
    status: 400,
    suggestion: 'Send one X-DRS-Bundle header; where the bundle is in _meta too, send the same one.',
  },
  {
    code: 'MISSING_BUNDLE',
    status: 401,
    // MCP clients treat a 401 as an OAuth challenge.
    rpcStatus: 403,
    suggestion:
      'Sign an invocation of this very call under a delegation for it, and send chain and invocation as a base64url bundle.',
  },
  {
    code: 'MALFORMED_BUNDLE',
    status: 400,
    suggestion: 'Send the bundle as one string, as encodeBundle() writes it: base64url of a JSON object.',
  },
  {
    code: 'INVALID_TOOL_CALL',
    status: 400,
    suggestion:
      'Send a request with an id, and with the params that MCP has for its method: the name of the tool or prompt, the URI, the task.',
  },
  {
    code: 'INVALID_PARAMS',
    status: 400,
    suggestion: 'Send the arguments as a JSON object, or leave them out.',
  },
  {
    code: 'RESERVED_ARGUMENT',
    status: 400,
    suggestion:
      'Rename the argument: in what is signed, "tool" stands for the tool that is called; docs/spec/gate.md has the other names.',
  },
  {
    code: 'VERIFIER_UNAVAILABLE',
    status: 503,
    suggestion: 'Try again in a moment. This says nothing about the call.',
  },
  {
    code: 'TOOL_MISMATCH',
    status: 403,
    suggestion: 'Sign the invocation for the tool that this route serves.',
  },
  {
    code: 'BINDING_MISMATCH',
    status: 403,
    suggestion: 'Sign the invocation with the arguments of this very call, and send them unaltered.',
  },
  {
    code: 'TASK_MISMATCH',
    status: 403,
    suggestion: 'Use a delegation of the principal for whom the task was started.',
  },
] as const satisfies readonly Row[];

/** A code of {@link GATE_CATALOGUE}. */
export type GateCode = (typeof GATE_CATALOGUE)[number]['code'];

/** Why a request is denied. */
export interface GateFailure {
  /** A code of the gate or of a verdict; `docs/codes.md` explains each. */
  readonly code: string;
  readonly status: number;
  /** For a person: what was found, what was expected. */
  readonly message: string;
  /** What the caller can do. */
  readonly suggestion: string;
  /** Whether the chain is valid, and how the call's body compares with it; `null` if nothing was checked. */
  readonly verdict: { readonly valid: boolean; readonly binding?: Exclude<Binding, 'match'> } | null;
  /** What clients of MCP expect in `data` besides. */
  readonly version?: { readonly supported: readonly string[]; readonly requested: string };
}

/** The JSON-RPC error code of denials for which neither JSON-RPC nor MCP has one. */
export const RPC_ERROR_CODE = -32010;

/** The JSON-RPC error code of a denial. */
export const rpcCodeOf = (code: string): number => rows.get(code)?.rpcCode ?? RPC_ERROR_CODE;

const rows: ReadonlyMap<string, Row> = new Map(GATE_CATALOGUE.map((row) => [row.code, row]));

/**
 * Makes the failure for a code of the gate.
 *
 * @param message what was found and expected, for a person
 * @param suggestion replaces the one in the catalogue
 */
export function gateFailure(
  code: GateCode,
  protocol: Protocol,
  message: string,
  { verdict = null, suggestion }: { verdict?: GateFailure['verdict']; suggestion?: string | undefined } = {},
): GateFailure {
  const row = rows.get(code);
  if (row === undefined) throw new RangeError(`no such code: ${code}`);
  const status = protocol === 'http' ? row.status : (row.rpcStatus ?? row.status);
  return { code, status, message, suggestion: suggestion ?? row.suggestion, verdict };
}

/** Makes the failure for an invalid verdict, or for a failed replay check. */
export function verdictFailure({
  code,
  message,
  suggestion,
}: {
  readonly code: string;
  readonly message: string;
  readonly suggestion: string;
}): GateFailure {
  return { code, status: statusOfVerdict(code), message, suggestion, verdict: { valid: false } };
}

function statusOfVerdict(code: string): number {
  switch (code) {
    case 'REPLAY_DETECTED':
    case 'INVOCATION_STALE':
      return 409;
    case 'REPLAY_STORE_UNAVAILABLE':
      return 503;
    default:
      return 403;
  }
}
