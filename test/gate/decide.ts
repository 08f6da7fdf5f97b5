import type { GateContext } from '../../src/gate/context.js';
import { bindOptionsOf, decide, frozenContextOf, judgedOf, type GateRules } from '../../src/gate/decide.js';
import type { Protocol } from '../../src/gate/codes.js';
import { openRequest } from '../../src/gate/open.js';
import { readHeaders, type PendingCall, type RequestBody } from '../../src/gate/request.js';
import { responseTo, type GateResponse } from '../../src/gate/response.js';
import { createMemoryReplayStore, useInvocation } from '../../src/usage/index.js';
import type { RouteTable } from '../../src/gate/routes.js';
import { createVerifier, type Verifier } from '../../src/verifier/create-verifier.js';
import type { JsonValue } from '../../src/protocol/json.js';
import { liveChain, now } from '../middleware/call.js';
import type { Proof } from '../../src/verify/judge.js';
import { CLOCKS } from '../../src/verify/parts.js';

/** The gate as a service would use it: a method, a map of headers and the text of a body. */
export const verifier = createVerifier({ workerThreads: 0 });
/** Judges as a middleware does. */
export const judge = async (call: PendingCall, by: Pick<Verifier, 'verify'> = verifier) =>
  judgedOf(call, await by.verify(call.bundle, bindOptionsOf(call.body)));
/** The context of a call in a valid bundle. */
export const contextIn = (bundle: object, binding: 'match' | null): GateContext =>
  frozenContextOf({ ...proofOf(bundle), binding });

/** A bundle as a verifier has accepted it. */
export function proofOf(bundle: unknown): Proof {
  const judged = judgedOf({ bundle: bundle as JsonValue }, { valid: true });
  if (judged.failure !== null) throw new Error(judged.failure.message);
  return judged;
}

export const RULES: GateRules = { trustedRoots: null, serverIdentity: null };

export interface Asked {
  readonly method?: string;
  /** Default: an endpoint of JSON-RPC. */
  readonly path?: string | null;
  readonly headers?: Record<string, unknown>;
  readonly body?: string;
  /** In place of `body`. */
  readonly read?: RequestBody;
}

export type Decision =
  | { readonly decision: 'pass' }
  | { readonly decision: 'allow'; readonly context: GateContext }
  | { readonly decision: 'deny'; readonly code: string; readonly response: GateResponse };

/** A gate with a replay store of its own. */
export function newGate(
  rules: Partial<GateRules> = {},
  { by = verifier, routes = 'any' }: { readonly by?: Verifier; readonly routes?: RouteTable | 'any' } = {},
) {
  const store = createMemoryReplayStore();
  return async (protocol: Protocol, asked: Asked): Promise<Decision> => {
    const { method = 'POST', path = '/a2a', headers = {}, body = '', read } = asked;
    const request = {
      method,
      target: path,
      headers: readHeaders(headers),
      body: read ?? ({ kind: 'text', text: body } as const),
    };
    const opened = openRequest(protocol, request, { routes });
    if (opened.kind === 'pass') return { decision: 'pass' };
    const deny = (denial: Parameters<typeof responseTo>[0]) =>
      ({ decision: 'deny', code: denial.failure.code, response: responseTo(denial) }) as const;
    if (opened.kind === 'deny') return deny(opened);
    const decided = await decide(opened, await judge(opened, by), {
      now,
      rules: { ...RULES, ...rules },
      use: (claims, limits, now) =>
        useInvocation(claims, limits, store, now, { windowSecs: 900, ...CLOCKS, scope: 'gate' }),
    });
    if (decided.kind === 'deny') return deny(decided);
    return { decision: 'allow', context: frozenContextOf(decided.proof, decided.context) };
  };
}

export const mcpChain = liveChain(2);
export const a2aChain = liveChain(2, { cmd: '/a2a', policy: { allowed_tools: ['SendMessage'] } });
/** For every method of A2A. */
export const restChain = liveChain(2, { cmd: '/a2a', policy: {} });
