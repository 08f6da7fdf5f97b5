import { performance } from 'node:perf_hooks';
import { checkReplay, type ReplayRules, type ReplayStore } from '../replay/index.js';
import type { Revocation } from '../revocation/index.js';
import { InThreadVerifier } from '../signatures/in-thread.js';
import { PoolVerifier } from '../signatures/pool.js';
import type { SignatureObserver, SignatureVerifier } from '../signatures/signature-verifier.js';
import { bindMember, bindText, bindValue, type Binding } from '../verify/binding.js';
import { Failure } from '../verify/codes.js';
import { describeDifference } from '../verify/difference.js';
import {
  checkRevocationOf,
  checkTimeAgain,
  openVerification,
  proveVerification,
  type PipelineDeps,
} from '../verify/pipeline.js';
import { ReceiptCache } from '../verify/receipt-cache.js';
import type { InvocationClaims } from '../protocol/claims.js';
import type { Chain, Invocation } from '../verify/receipt.js';
import type { Rules } from '../verify/rules.js';
import type { JsonObject } from '../protocol/json.js';
import { DEFAULT_KEYS, type KeyResolver } from '../protocol/key-resolver.js';
import type { VerifierSettings } from './options.js';

/** The body of the call, to compare with the signed arguments. */
export type Body =
  /** A value in this process. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** JSON text. */
  | { readonly kind: 'text'; readonly text: string }
  /** The `body` member of a document, and the JSON text of the whole document. */
  | { readonly kind: 'member'; readonly text: string; readonly document: JsonObject };

/** One bundle to verify. */
export interface Request {
  /** The bundle after `JSON.parse`. Nothing about it has been checked. */
  readonly bundle: unknown;
  readonly body: Body | null;
  /** Whether the outcome should have details of a valid call. */
  readonly wantsDetails?: boolean | undefined;
  /** Skips the checks of binding and replay: the gate has its own rules for both and applies them to the outcome. */
  readonly isForGate?: boolean | undefined;
  /** Unix seconds; default: the clock, read after the last wait. */
  readonly now?: number | undefined;
  /** Called before queued work starts: whether somebody still waits for the outcome. */
  readonly isWanted?: (() => boolean) | undefined;
  /** Called before a wait for the status list. If it returns false, the list counts as unavailable at once. */
  readonly mayWait?: (() => boolean) | undefined;
}

/** The outcome of verifying a bundle. */
export type Outcome =
  | {
      readonly chain: Chain;
      readonly invocation: Invocation;
      readonly binding: Binding | null;
      readonly wantsDetails: boolean;
      readonly failure: null;
    }
  /** `binding` is only set if it is the reason. */
  | { readonly chain: null; readonly failure: Failure; readonly binding: Binding | null };

/** The result of a replay check. */
export type ReplayResult = 'accepted' | 'replayed' | 'stale' | 'unavailable';

/** Receives events to count and time. Every argument is a number or comes from a fixed set. */
export interface EngineObserver extends SignatureObserver, ReplayObserver {}

/** Combines the parts of a verifier: pipeline, receipt cache, signatures, revocation, replay protection. */
export class Engine implements PipelineDeps {
  readonly cache: ReceiptCache;
  readonly signatures: SignatureVerifier;
  readonly revocation: Revocation;
  /** `null` if an invocation may be used again. */
  readonly replays: ReplayStore | null;
  readonly rules: Rules;
  readonly keys: KeyResolver;
  readonly replayRules: ReplayRules;
  readonly #requireBinding: boolean;
  readonly #observer: EngineObserver;

  constructor(
    settings: VerifierSettings,
    revocation: Revocation,
    replays: ReplayStore | null,
    observer: EngineObserver = {},
    keys = DEFAULT_KEYS,
  ) {
    this.keys = keys;
    this.rules = {
      maxChainDepth: settings.maxChainDepth,
      clockSkewSecs: settings.clockSkewSecs,
      serverIdentity: settings.serverIdentity === 'any' ? null : (settings.serverIdentity ?? null),
      trustedRoots: settings.trustedRoots ? new Set(settings.trustedRoots) : null,
    };
    this.cache = new ReceiptCache(settings.receiptCacheBytes);
    this.revocation = revocation;
    this.replays = replays;
    this.#observer = observer;
    this.#requireBinding = settings.requireBinding;
    this.replayRules = {
      scope: 'verify',
      windowSecs: settings.replayWindowSecs,
      clockSkewSecs: settings.clockSkewSecs,
    };
    this.signatures =
      settings.workerThreads === 0
        ? new InThreadVerifier()
        : new PoolVerifier(settings.workerThreads, { observer });
  }

  /**
   * Verifies one bundle, and compares the call's body with it.
   *
   * @throws WorkDropped if `isWanted` returned false. Any other error is a bug in the verifier. Neither says anything
   *   about the bundle, and the content of a bundle never causes one.
   */
  async verify(request: Request): Promise<Outcome> {
    const { rules, revocation, signatures } = this;
    const opened = openVerification(request.bundle, this);
    if (opened instanceof Failure) return refused(opened);
    const { checks } = opened.plan;
    const verifying = signatures.verify(checks, request.isWanted);
    const verified = verifying instanceof Promise ? await verifying : verifying;
    let now = request.now ?? clock();
    const chain = proveVerification(opened, verified, now, this);
    if (chain instanceof Failure) return refused(chain);
    const fetching = chain.isRevocable ? revocation.freshen() : null;
    if (fetching !== null && request.mayWait?.() !== false) {
      await fetching;
      // A receipt may have expired meanwhile.
      now = request.now ?? clock();
      const failure = checkTimeAgain(chain, now, rules);
      if (failure !== null) return refused(failure);
    }
    const { invocation } = opened.structure;
    const revoked = checkRevocationOf(chain, revocation.view);
    if (revoked !== null) return refused(revoked);
    const binding = bind(invocation.claims.args, request.body);
    const wantsDetails = request.wantsDetails === true;
    if (request.isForGate === true) return { chain, invocation, binding, wantsDetails, failure: null };
    const unbound = this.#requireBinding ? checkBinding(binding, invocation.claims.args, request.body) : null;
    if (unbound !== null) return refused(unbound, binding);
    const checking = this.#checkReplay(invocation, now);
    const replayed = checking instanceof Promise ? await checking : checking;
    if (replayed !== null) return refused(replayed);
    return { chain, invocation, binding, wantsDetails, failure: null };
  }

  async close(): Promise<void> {
    await this.signatures.close();
    await this.revocation.close();
    await this.replays?.close();
  }

  /** The last check, since a refused call must not use up its invocation. */
  #checkReplay(invocation: Invocation, now: number): Failure | null | Promise<Failure | null> {
    const { replays, replayRules } = this;
    return replays === null
      ? null
      : watchReplay(invocation.claims, replays, now, replayRules, this.#observer);
  }
}

/** Receives the result of each replay check, and its duration in milliseconds. */
export interface ReplayObserver {
  replayChecked?(result: ReplayResult, milliseconds: number): void;
}

/** The same as {@link checkReplay}, and tells an observer how it ended. */
export function watchReplay(
  claims: Pick<InvocationClaims, 'iss' | 'jti' | 'iat'>,
  replays: ReplayStore,
  now: number,
  rules: ReplayRules,
  observer: ReplayObserver,
): Failure | null | Promise<Failure | null> {
  const startedAt = performance.now();
  const report = (failure: Failure | null) => {
    observer.replayChecked?.(replayResultOf(failure), performance.now() - startedAt);
    return failure;
  };
  const checking = checkReplay(claims, replays, now, rules);
  return checking instanceof Promise ? checking.then(report) : report(checking);
}

function replayResultOf(failure: Failure | null): ReplayResult {
  switch (failure?.code) {
    case undefined:
      return 'accepted';
    case 'REPLAY_DETECTED':
      return 'replayed';
    case 'INVOCATION_STALE':
      return 'stale';
    default:
      return 'unavailable';
  }
}

function refused(failure: Failure, binding: Binding | null = null): Outcome {
  return { chain: null, failure, binding };
}

/** `REQUIRE_BINDING`: a bundle that does not match the call's body is invalid. */
function checkBinding(binding: Binding | null, args: JsonObject, body: Body | null): Failure | null {
  switch (binding) {
    case 'match':
      return null;
    case null:
      return new Failure('BINDING_REQUIRED', {
        subject: 'bundle',
        member: 'body',
        expected: 'the body of the call',
      });
    default: {
      const reason =
        binding === 'mismatch'
          ? (describeDifference(args, body) ?? 'it says something else')
          : 'it is not JSON with one meaning';
      return new Failure('BINDING_MISMATCH', {
        subject: 'invocation',
        expected: 'what the body of the call says',
        reason,
      });
    }
  }
}

function bind(args: JsonObject, body: Body | null): Binding | null {
  switch (body?.kind) {
    case undefined:
      return null;
    case 'value':
      return bindValue(args, body.value);
    case 'text':
      return bindText(args, body.text);
    case 'member':
      return bindMember(args, body.text, body.document);
  }
}

function clock(): number {
  return Math.floor(Date.now() / 1000);
}
