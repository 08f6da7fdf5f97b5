import type { DrsContext } from '../context.js';

/** The caller, in the form in which both SDKs pass it to tools. */
interface AuthInfo {
  readonly token: string;
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly expiresAt?: number;
  readonly extra?: Record<string, unknown>;
}

/**
 * Adds a verified call as `authInfo` to the object that the SDK passes with a message. `clientId` is the agent,
 * `scopes` are the tools that its delegation allows (`*` for any), `extra.drs` is the context. If OAuth has already
 * set `authInfo`, only `extra.drs` is added.
 */
export function withAuthInfo(extra: unknown, context: DrsContext): object {
  const given = typeof extra === 'object' && extra !== null ? (extra as { authInfo?: AuthInfo }) : {};
  return { ...given, authInfo: authInfoOf(given.authInfo, context) };
}

/**
 * Like {@link withAuthInfo}, for the object that the SDKs pass to a handler: in 2.x, `authInfo` is one level deeper.
 */
export function withHandlerAuthInfo<X>(extra: X, context: DrsContext): X {
  if (typeof extra !== 'object' || extra === null) return extra;
  // 2.x passes its handlers a context with `mcpReq`. Over HTTP, its member `http` has the request and the caller.
  if (!('mcpReq' in extra)) return withAuthInfo(extra, context) as X;
  const { http } = extra as { http?: { authInfo?: AuthInfo } };
  return { ...extra, http: { ...http, authInfo: authInfoOf(http?.authInfo, context) } };
}

function authInfoOf(given: AuthInfo | undefined, context: DrsContext): AuthInfo {
  if (given !== undefined) return { ...given, extra: { ...given.extra, drs: context } };
  const { agent, leaf_policy: policy, expires_at: expiresAt } = context;
  return {
    // There is no bearer token: the call was signed.
    token: '',
    clientId: agent,
    scopes: [...(policy.allowed_tools ?? ['*'])],
    ...(expiresAt === null ? {} : { expiresAt }),
    extra: { drs: context },
  };
}
