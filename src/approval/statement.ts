import { hash } from 'node:crypto';
import { ASKING_METHODS, MCP_COMMAND_PREFIX, SIGNED_PARAMS } from '../gate/mcp-methods.js';
import { toJcs } from '../protocol/jcs.js';
import type { JsonObject } from '../protocol/json.js';
import type { Proof } from '../verify/judge.js';

/** What one yes is for: calls for which all of this is the same. */
export interface Call {
  readonly tool_server: string;
  /** The DIDs of the root principal and of who calls. */
  readonly root: string;
  readonly agent: string;
  readonly command: string;
  readonly args: JsonObject;
  /** The digest of the last receipt. */
  readonly leaf: string;
}

/** The commands of calls that are sent again with an answer that the tool server has asked for. */
const CONTINUED = ASKING_METHODS.map((method) => MCP_COMMAND_PREFIX + method);

/** The call of a valid bundle, as a person approves it. */
export function callOf({ chain, invocation }: Pick<Proof, 'chain' | 'invocation'>): Call {
  const { iss, cmd, args, tool_server } = invocation.claims;
  const { [SIGNED_PARAMS]: _answers, ...first } = args;
  return {
    tool_server,
    root: chain.root.claims.iss,
    agent: iss,
    command: cmd,
    args: CONTINUED.includes(cmd) ? first : args,
    leaf: chain.leaf.digest,
  };
}

/** Names a call: other calls have other names. */
export const nameOf = (call: Call): string => hash('sha256', toJcs({ ...call }), 'base64url');

export const MAX_STATEMENT_BYTES = 65_536;

/**
 * What a person says yes to, in bytes: the call, when it was first asked, and the handle of the question.
 *
 * @param requestedAt Unix seconds
 * @returns `null` if it is too large
 */
export function statementOf(call: Call, requestedAt: number, handle: string): Uint8Array | null {
  const text = toJcs({ v: 1, ...call, requested_at: requestedAt, handle });
  // It is kept for a day: a small Buffer would keep a pool of 8 KiB with it.
  const statement = new TextEncoder().encode(text);
  return statement.length > MAX_STATEMENT_BYTES ? null : statement;
}

/** What the passkey signs over. */
export const challengeOf = (statement: Uint8Array): Uint8Array => hash('sha256', statement, 'buffer');

/** What it signs over so that its owner may see a question. It is no statement, so it is never a yes. */
export const challengeToView = (handle: string): Uint8Array =>
  hash('sha256', `drs-approval-view:${handle}`, 'buffer');
