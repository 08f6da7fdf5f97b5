// A request as a gate decides on it, with the functions of the gate. Nothing is counted or recorded here.
import type { Protocol } from '../../src/gate/codes.js';
import type { GateFailure } from '../../src/gate/codes.js';
import { decide } from '../../src/gate/decide.js';
import { openRequest } from '../../src/gate/open.js';
import type { CallBody, GateRequest, Opening, PendingCall } from '../../src/gate/request.js';
import type { Body } from '../../src/verify/binding.js';
import type { Judgement } from '../../src/verify/judge.js';

/** Opens a request as a gate for any route does. */
export function openAs(protocol: Protocol, request: GateRequest): Opening {
  // As `POST /v1/gate`: who asks about A2A without a path has an endpoint of JSON-RPC.
  const target = request.target ?? (protocol === 'a2a' ? '/' : null);
  return openRequest(protocol, { ...request, target }, { routes: 'any' });
}

/** The body that a judge compares with the signed arguments. */
export function comparable(body: CallBody): Body | null {
  return body.kind === 'text' || body.kind === 'value' ? body : null;
}

/**
 * Decides on a call whose bundle was judged: its command, its tool and its body.
 *
 * @returns why a gate refuses it, or `null`
 */
export async function refusalByGate(call: PendingCall, judged: Judgement): Promise<GateFailure | null> {
  const decided = await decide(call, judged, {
    // The judge has compared them.
    rules: { trustedRoots: null, serverIdentity: null },
    now: () => 0,
    use: null,
  });
  return decided.kind === 'deny' ? decided.failure : null;
}
