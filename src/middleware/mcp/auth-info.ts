import type { DrsContext } from '../context.js';

/** Who calls, in the form in which both SDKs hand it to tools. */
interface AuthInfo {
  readonly token: string;
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly expiresAt?: number;
  readonly extra?: Record<string, unknown>;
}

/**
 * What the SDK passes beside a message, with `authInfo` filled from a verified call: `clientId` is the agent, `scopes` are
 * the tools that its delegation allows (`*` for any), `extra.drs` is the context. Where OAuth has filled it already, only
 * `extra.drs` is added.
 */
export function withAuthInfo(extra: unknown, context: DrsContext): object {
  const given = typeof extra === 'object' && extra !== null ? (extra as { authInfo?: AuthInfo }) : {};
  return { ...given, authInfo: authInfoOf(given.authInfo, context) };
}

/** The same for what the SDKs pass to a handler: 2.x has `authInfo` one level down. */
export function withHandlerAuthInfo<X>(extra: X, context: DrsContext): X {
  if (typeof extra !== 'object' || extra === null) return extra;
  // 2.x hands its handlers a context with `mcpReq`; over HTTP, `http` holds the request and who sent it.
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
