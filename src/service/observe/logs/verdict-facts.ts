import { isJsonObject, type JsonObject } from '../../../protocol/json.js';
import { parseCompactJwt } from '../../../protocol/jwt.js';
import type { Judgement } from '../../../verify/judge.js';

/** Who asked for what, according to the bundle. If the bundle was refused, none of this is proved. */
export interface VerdictFacts {
  readonly rootPrincipal: string | null;
  /** The signer of the call: the invocation's `iss`. */
  readonly agent: string | null;
  /** The invocation's `jti`. */
  readonly jti: string | null;
  readonly tool: string | null;
}

/** Maximum length of a text in a log line; the rest is cut off. */
export const MAX_LENGTH = 200;
const PLAIN = /^[ -~]*$/;
// A longer JWT is not worth decoding again for a log line.
const MAX_JWT_LENGTH = 64 * 1024;
const MAX_NODES = 4096;
// JSON escapes characters below the space. These others can also move a terminal's cursor or reverse a line.
const UNPRINTABLE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;

/**
 * The parts of a bundle that may be logged. Never more than these four: arguments may be secret, and anybody who has
 * receipts and signatures can use them.
 *
 * @param bundle the bundle that was verified; decoded again if it was refused
 */
export function factsOf(outcome: Judgement, bundle: unknown): VerdictFacts {
  const { rootPrincipal, agent, jti, tool } = claimedFacts(outcome, bundle);
  return {
    rootPrincipal: printable(rootPrincipal),
    agent: printable(agent),
    jti: printable(jti),
    tool: printable(tool),
  };
}

/** The same facts unchanged, of any type and length. The caller must make each of them {@link printable}. */
export function claimedFacts(
  outcome: Judgement,
  bundle: unknown,
): Readonly<Record<keyof VerdictFacts, unknown>> {
  if (outcome.failure === null) {
    const { chain, invocation } = outcome;
    return factsFrom(chain.root.claims.iss, invocation.claims);
  }
  const { receipts, invocation } = isJsonObject(bundle) ? bundle : {};
  const root = payloadOf(Array.isArray(receipts) ? receipts[0] : undefined);
  return factsFrom(root['iss'], payloadOf(invocation));
}

function factsFrom(
  rootPrincipal: unknown,
  { iss, jti, args }: { readonly iss?: unknown; readonly jti?: unknown; readonly args?: unknown },
): Readonly<Record<keyof VerdictFacts, unknown>> {
  return { rootPrincipal, agent: iss, jti, tool: isJsonObject(args) ? args['tool'] : undefined };
}

function payloadOf(jwt: unknown): JsonObject {
  if (typeof jwt !== 'string' || jwt.length > MAX_JWT_LENGTH) return {};
  const parts = parseCompactJwt(jwt, MAX_NODES);
  return parts.defect === undefined ? parts.payload : {};
}

/** A text without characters that control terminals, cut at 200 characters; `null` for a value that is not a text. */
export function printable(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  const text = value.length > MAX_LENGTH ? `${value.slice(0, MAX_LENGTH)}…` : value;
  // Nearly every value is plain ASCII, and the replacement takes a microsecond.
  return PLAIN.test(text) ? text : text.replace(UNPRINTABLE, '?');
}
