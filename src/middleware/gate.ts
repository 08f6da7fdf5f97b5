import { readInvocationClaims, type InvocationClaims } from '../protocol/claims.js';
import { isJsonObject } from '../protocol/json.js';
import { parseCompactJwt } from '../protocol/jwt.js';
import { decodeBundleText } from '../issue/bundle.js';
import { IssueError } from '../issue/issue-error.js';
import { judgeReplay, type ReplayRules } from '../replay/judge-replay.js';
import type { Verdict } from '../verifier/verdict.js';
import type { Binding } from '../verify/binding.js';
import { coversCommand } from '../verify/blocks/d-policy.js';
import { Failure } from '../verify/codes.js';
import type { CallBody } from './call-body.js';
import type { DrsContext } from './context.js';
import { publishToolCall, reportError, toolCallEvent, type ToolCallEvent } from './events.js';
import {
  replayRulesOf,
  verifierOf,
  type BindingMode,
  type CallVerifier,
  type ProtectionOptions,
} from './options.js';
import {
  bindingMismatch,
  BUNDLE_HEADER,
  failed,
  invalidVerdict,
  malformedBundle,
  missingBundle,
  verifierUnavailable,
  type Refusal,
} from './refusal.js';

/** A bundle as it came with a call, decoded and not yet judged. */
export interface PresentedBundle {
  readonly kind: 'presented';
  readonly bundle: unknown;
}

/** A verified call, to be handed to its handler. */
export interface Admission {
  readonly kind: 'admitted';
  readonly context: DrsContext;
  readonly event: ToolCallEvent;
}

/** A call that must not reach its handler. */
export interface Rejection {
  readonly kind: 'refused';
  readonly refusal: Refusal;
}

const ABSENT = { kind: 'absent' } as const;

/**
 * Decides on calls, in the order of service document 4.6 and decisions section 6: decode, verify, command, binding,
 * replay. Each transport only brings bundle and body here, and carries out what was decided.
 */
export class Gate {
  readonly #verifier: CallVerifier;
  readonly #options: ProtectionOptions;
  readonly #replayRules: ReplayRules;

  /** @throws TypeError where the options contradict each other */
  constructor(options: ProtectionOptions) {
    this.#verifier = verifierOf(options);
    this.#replayRules = replayRulesOf(options);
    this.#options = options;
  }

  /**
   * Decodes what came in place of a bundle.
   *
   * @param encoded `undefined` or `null` where nothing came
   * @param where of the bundle was looked for, for the caller
   * @returns `absent` only where a call without a bundle may pass
   */
  open(encoded: unknown, where = `no ${BUNDLE_HEADER} header`): PresentedBundle | Rejection | typeof ABSENT {
    if (encoded === undefined || encoded === null) {
      return this.#options.optional === true ? ABSENT : refused(missingBundle(where));
    }
    if (typeof encoded !== 'string') {
      return refused(malformedBundle('the bundle is not one string of base64url'));
    }
    try {
      return { kind: 'presented', bundle: JSON.parse(decodeBundleText(encoded)) };
    } catch (error) {
      const reason =
        error instanceof IssueError ? error.message : `the bundle is not JSON: ${(error as Error).message}`;
      return refused(malformedBundle(reason));
    }
  }

  /**
   * Judges a call. Never throws: what cannot be judged is refused.
   *
   * @param command that the invocation must be for, in place of the one of the options
   */
  async judge(
    { bundle }: PresentedBundle,
    body: CallBody,
    bindingMode: BindingMode,
    command = this.#options.command,
  ): Promise<Admission | Rejection> {
    try {
      return await this.#judge(bundle, body, bindingMode, command);
    } catch (error) {
      this.report(error);
      return refused(verifierUnavailable());
    }
  }

  /** Tells the world that an admitted call was executed. */
  publish({ event }: Admission): void {
    publishToolCall(event, this.#options);
  }

  /** Reports a fault to the operator. */
  report(error: unknown): void {
    reportError(error, this.#options.onError);
  }

  async #judge(
    bundle: unknown,
    body: CallBody,
    bindingMode: BindingMode,
    command: string | undefined,
  ): Promise<Admission | Rejection> {
    const verdict = await this.#verifier.verify(bundle, bodyOptionsOf(body));
    if (!verdict.valid) return refused(invalidVerdict(verdict));
    const invocation = invocationOf(bundle);
    if (command !== undefined && !coversCommand(command, invocation.cmd)) {
      const expected = JSON.stringify(command);
      const failure = new Failure('COMMAND_MISMATCH', {
        subject: 'invocation',
        claimed: invocation.cmd,
        expected,
      });
      return refused(failed(failure));
    }
    const binding = bindingOf(verdict, body);
    if (bindingMode === 'enforced' && binding !== 'match') {
      return refused(bindingMismatch(binding ?? 'invalid_body', reasonOf(binding, body)));
    }
    const replay = await this.#judgeReplay(invocation);
    if (replay !== null) return refused(failed(replay));
    const { root_principal, chain_depth, leaf_policy } = verdict.context;
    const context = { root_principal, chain_depth, leaf_policy };
    return {
      kind: 'admitted',
      context: binding === null ? context : { ...context, binding },
      event: toolCallEvent(context, invocation),
    };
  }

  #judgeReplay(invocation: InvocationClaims): Failure | null | Promise<Failure | null> {
    const { replayStore } = this.#options;
    if (replayStore === undefined) return null;
    return judgeReplay(invocation, replayStore, Math.floor(Date.now() / 1000), this.#replayRules);
  }
}

function refused(refusal: Refusal): Rejection {
  return { kind: 'refused', refusal };
}

function bodyOptionsOf(body: CallBody): { bodyText?: string; body?: unknown } {
  switch (body.kind) {
    case 'text':
      return { bodyText: body.text };
    case 'value':
      return { body: body.value };
    default:
      return {};
  }
}

/** Taken from the call's body alone: a bundle may name a body of its own, which a verifier then compares. */
function bindingOf(verdict: Extract<Verdict, { valid: true }>, body: CallBody): Binding | null {
  if (body.kind === 'unusable') return 'invalid_body';
  return body.kind === 'unread' ? null : (verdict.binding ?? null);
}

function reasonOf(binding: Binding | null, body: CallBody): string {
  if (body.kind === 'unusable') return body.reason;
  return binding === 'mismatch'
    ? 'the body of the call is not what invocation.args were signed for'
    : 'the body of the call is not JSON with one meaning, expected the signed invocation.args';
}

/** The claims of an invocation that has been verified, so that reading them again cannot fail. */
function invocationOf(bundle: unknown): InvocationClaims {
  const jwt = isJsonObject(bundle) ? bundle['invocation'] : undefined;
  const parts = typeof jwt === 'string' ? parseCompactJwt(jwt) : null;
  const read = parts === null || parts.defect !== undefined ? null : readInvocationClaims(parts.payload);
  if (read?.claims === undefined) {
    throw new Error('the verifier accepted an invocation that cannot be read; are both of one version?');
  }
  return read.claims;
}
