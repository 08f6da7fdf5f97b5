import {
  bindOptionsOf,
  headersOf,
  decideCall,
  openRequest,
  responseTo,
  verdictFailure,
  denied,
  type GateContext,
  type GateResponse,
  type GateRules,
  type GateProtocol,
  type RequestBody,
} from '../../src/gate/index.js';
import { createMemoryReplayStore, checkReplay } from '../../src/replay/index.js';
import { createVerifier } from '../../src/engine/create-verifier.js';
import { liveChain } from '../middleware/call.js';

/** The gate as a service would use it: a method, a map of headers and the text of a body. */
export const verifier = createVerifier({ workerThreads: 0 });
const RULES: GateRules = { trustedRoots: null, serverIdentity: null, bindingMode: 'enforced' };

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
export function newGate(rules: Partial<GateRules> = {}) {
  const store = createMemoryReplayStore();
  return async (protocol: GateProtocol, asked: Asked): Promise<Decision> => {
    const { method = 'POST', path = '/a2a', headers = {}, body = '', read } = asked;
    const opened = openRequest(
      protocol,
      {
        method,
        path,
        headers: headersOf(headers),
        body: read ?? { kind: 'text', text: body },
      },
      { routes: 'any' },
    );
    if (opened.kind === 'pass') return { decision: 'pass' };
    const deny = (denial: Parameters<typeof responseTo>[0]) =>
      ({ decision: 'deny', code: denial.failure.code, response: responseTo(denial) }) as const;
    if (opened.kind === 'deny') return deny(opened);
    const verdict = await verifier.verify(opened.bundle, bindOptionsOf(opened.body));
    const decided = decideCall(opened, verdict, { ...RULES, ...rules });
    if (decided.kind === 'deny') return deny(decided);
    const now = Math.floor(Date.now() / 1000);
    const replay = await checkReplay(decided.claims.invocation, store, now, {
      windowSecs: 900,
      clockSkewSecs: 0,
      scope: 'gate',
    });
    if (replay !== null) return deny(denied(opened, verdictFailure(replay)));
    return { decision: 'allow', context: decided.context };
  };
}

export const mcpChain = liveChain(2);
export const a2aChain = liveChain(2, { cmd: '/a2a', policy: { allowed_tools: ['SendMessage'] } });
/** For every method of A2A. */
export const restChain = liveChain(2, { cmd: '/a2a', policy: {} });
