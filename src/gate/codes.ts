import type { Binding } from '../verify/binding.js';

/** The protocols whose requests the gate understands. */
export type Protocol = 'http' | 'mcp' | 'a2a';

interface Row<Code extends string = string> {
  readonly code: Code;
  readonly status: number;
  /** What the caller can do. */
  readonly suggestion: string;
  /** HTTP status on the JSON-RPC protocols. */
  readonly rpcStatus: number;
  readonly rpcCode: number;
}

/** The code of the JSON-RPC error where neither JSON-RPC nor MCP has one. */
export const RPC_ERROR_CODE = -32010;

function row<Code extends string>(
  code: Code,
  status: number,
  suggestion: string,
  { rpcStatus = status, rpcCode = RPC_ERROR_CODE } = {},
): Row<Code> {
  return { code, status, suggestion, rpcStatus, rpcCode };
}

/**
 * The codes that the gate adds to those of a verdict, in the order in which they are checked. `docs/codes.md` explains
 * each one; its anchor is `gate-<code>`.
 */
export const GATE_CATALOGUE = [
  row('BODY_TIMEOUT', 408, 'Send the whole body at once, as long as Content-Length says.'),
  row('HOP_BY_HOP_HEADER', 400, 'Send no Upgrade header, and in Connection nothing but close or keep-alive.'),
  row(
    'METHOD_NOT_ALLOWED',
    405,
    'Send the message with POST. Of other requests pass: over MCP an event stream (Accept: text/event-stream), DELETE and OAuth metadata, over A2A the agent card.',
  ),
  row(
    'INVALID_PATH',
    400,
    'Send a plain path, percent-encoded where it must be. The gate must get it as it was sent.',
  ),
  row(
    'UNKNOWN_ROUTE',
    403,
    'Call a method and path that the operator has put into the table of routes (GATE_ROUTES).',
  ),
  row('BODY_TOO_LARGE', 413, 'Send less, or have the operator raise the limit on bodies.'),
  row('INVALID_JSONRPC', 400, 'Send one JSON-RPC 2.0 message as strict JSON in UTF-8.'),
  row('BATCH_NOT_SUPPORTED', 400, 'Send each message in a request of its own: a bundle is for one call.'),
  row(
    'HEADER_MISMATCH',
    400,
    'Set MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Param-… to the version, the method, the name and the arguments of the body.',
    { rpcCode: -32020 },
  ),
  row('UNSUPPORTED_VERSION', 400, 'Use a version of MCP that the gate knows: data.supported has them.', {
    rpcCode: -32022,
  }),
  row(
    'UNKNOWN_METHOD',
    403,
    'Use a method of this version of MCP, or have the operator add this one to GATE_PASS_METHODS (passMethods).',
    { rpcCode: -32601 },
  ),
  row(
    'MULTIPLE_BUNDLES',
    400,
    'Send one X-DRS-Bundle header; where the bundle is in _meta too, send the same one.',
  ),
  // MCP clients treat a 401 as an OAuth challenge.
  row(
    'MISSING_BUNDLE',
    401,
    'Sign an invocation of this very call under a delegation for it, and send chain and invocation as a base64url bundle.',
    { rpcStatus: 403 },
  ),
  row(
    'MALFORMED_BUNDLE',
    400,
    'Send the bundle as one string, as encodeBundle() writes it: base64url of a JSON object.',
  ),
  row(
    'INVALID_TOOL_CALL',
    400,
    'Send a request with an id, and with the params that MCP has for its method: the name of the tool or prompt, the URI, the task.',
  ),
  row('INVALID_PARAMS', 400, 'Send the arguments as a JSON object, or leave them out.'),
  row(
    'RESERVED_ARGUMENT',
    400,
    'Rename the argument: in what is signed, "tool" stands for the tool that is called; docs/spec/gate.md has the other names.',
  ),
  row('VERIFIER_UNAVAILABLE', 503, 'Try again in a moment. This says nothing about the call.'),
  row('TOOL_MISMATCH', 403, 'Sign the invocation for the tool that this route serves.'),
  row(
    'BINDING_MISMATCH',
    403,
    'Sign the invocation with the arguments of this very call, and send them unaltered.',
  ),
  row('TASK_MISMATCH', 403, 'Use a delegation of the principal for whom the task was started.'),
  row(
    'APPROVAL_DENIED',
    403,
    'Ask the person what to do instead. The same call can be asked about again later.',
  ),
] as const;

export type GateCode = (typeof GATE_CATALOGUE)[number]['code'];

/** What went wrong. */
export interface Explained {
  /** A code of the gate or of a verdict; `docs/codes.md` explains each. */
  readonly code: string;
  /** For a person: what was found, what was expected. */
  readonly message: string;
  /** What the caller can do. */
  readonly suggestion: string;
}

/** Why a request is denied. */
export interface GateFailure extends Explained {
  readonly status: number;
  /** Whether the chain is valid, and how the call's body compares with it; `null` if nothing was checked. */
  readonly verdict: { readonly valid: boolean; readonly binding?: Exclude<Binding, 'match'> } | null;
  /** What clients of MCP expect in `data` besides. */
  readonly version?: { readonly supported: readonly string[]; readonly requested: string };
  /** Where a person can say yes, and until when in Unix seconds; of a no, when it ends. */
  readonly approval?: { readonly url: string; readonly expires_at: number };
}

const rows: ReadonlyMap<string, Row> = new Map(GATE_CATALOGUE.map((row) => [row.code, row]));

export const rpcCodeOf = (code: string): number => rows.get(code)?.rpcCode ?? RPC_ERROR_CODE;

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
  const status = protocol === 'http' ? row.status : row.rpcStatus;
  return { code, status, message, suggestion: suggestion ?? row.suggestion, verdict };
}

/** Makes the failure for an invalid verdict, or for a failed replay check. */
export function verdictFailure({ code, message, suggestion }: Explained): GateFailure {
  return { code, status: STATUSES.get(code) ?? 403, message, suggestion, verdict: { valid: false } };
}

/** What a gate on trial lets pass although its bundle was not judged, or is not to blame. All else it cannot read as one request. */
const ON_TRIAL: ReadonlySet<string> = new Set<GateCode>([
  ...(['MISSING_BUNDLE', 'MULTIPLE_BUNDLES', 'MALFORMED_BUNDLE', 'UNKNOWN_ROUTE', 'UNKNOWN_METHOD'] as const),
  ...(['UNSUPPORTED_VERSION', 'HEADER_MISMATCH', 'INVALID_TOOL_CALL', 'INVALID_PARAMS'] as const),
  ...(['RESERVED_ARGUMENT', 'TASK_MISMATCH', 'VERIFIER_UNAVAILABLE'] as const),
]);

/** Whether a gate on trial lets pass what it would deny. */
export function passesOnTrial({ code, verdict }: GateFailure): boolean {
  return verdict !== null || ON_TRIAL.has(code);
}

/** The statuses of codes of a verdict that are not 403. */
const STATUSES: ReadonlyMap<string, number> = new Map([
  ['REPLAY_DETECTED', 409],
  ['INVOCATION_STALE', 409],
  ['REPLAY_STORE_UNAVAILABLE', 503],
]);
