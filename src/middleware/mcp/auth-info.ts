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
  const { authInfo } = given;
  if (authInfo !== undefined)
    return { ...given, authInfo: { ...authInfo, extra: { ...authInfo.extra, drs: context } } };
  const { agent, leaf_policy: policy, expires_at: expiresAt } = context;
  const caller: AuthInfo = {
    // There is no bearer token: the call was signed.
    token: '',
    clientId: agent,
    scopes: [...(policy.allowed_tools ?? ['*'])],
    ...(expiresAt === null ? {} : { expiresAt }),
    extra: { drs: context },
  };
  return { ...given, authInfo: caller };
}
