import { useInvocation, type ReplayObserver, type ReplayRules, type ReplayStore } from '../usage/index.js';
import type { Revocation } from '../revocation/index.js';
import type { SignatureObserver, SignatureVerifier } from '../signatures/signature-verifier.js';
import type { WebKeys } from '../trust/did-web.js';
import { FollowedLines } from '../trust/followed-lines.js';
import { judge, type Call, type Judgement } from '../verify/judge.js';
import type { JudgeParts, Root } from '../verify/parts.js';
import { ReceiptCache } from '../verify/receipt-cache.js';
import type { Tool } from '../verify/tools.js';
import { clock } from './call-options.js';
import type { VerifierSettings } from './options.js';
import { rulesOf } from './rules.js';

/** Receives events to count and time. Every argument is a number or comes from a fixed set. */
export interface EngineObserver extends SignatureObserver, ReplayObserver {
  /** Files of an operator were read again: `loaded`, or `refused`: the old lines stay. */
  linesRead?(what: 'roots' | 'tools', outcome: 'loaded' | 'refused'): void;
}

/** What an operator says of roots or tools, by their names, at the time of the question. */
export type Lines<T> = Pick<ReadonlyMap<string, T>, 'get' | 'entries'> | FollowedLines<T>;

/** Whom and what an operator knows. */
interface Known {
  readonly roots: Lines<Root> | null;
  readonly tools: Lines<Tool> | null;
  /** The keys of all issuers, as {@link roots} say. */
  readonly keys: WebKeys;
}

/** The parts of a verifier, opened: receipt cache, signatures, revocation, replay protection. */
export class Engine {
  readonly cache: ReceiptCache;
  readonly signatures: SignatureVerifier;
  readonly revocation: Revocation;
  /** `null` if they do not come from a file. */
  readonly rootsFile: FollowedLines<Root> | null;
  readonly toolsFile: FollowedLines<Tool> | null;
  readonly keys: WebKeys;
  /** `null` if an invocation may be used again. */
  readonly replays: ReplayStore | null;
  /** What calls are judged with, by all rules of this verifier. */
  readonly parts: JudgeParts;

  constructor(
    settings: VerifierSettings,
    signatures: SignatureVerifier,
    { roots, tools, keys }: Known,
    revocation: Revocation,
    replays: ReplayStore | null,
    observer: EngineObserver = {},
  ) {
    this.rootsFile = roots instanceof FollowedLines ? roots : null;
    this.toolsFile = tools instanceof FollowedLines ? tools : null;
    this.keys = keys;
    this.cache = new ReceiptCache(settings.receiptCacheBytes);
    this.revocation = revocation;
    this.replays = replays;
    this.signatures = signatures;
    const { replayWindowSecs: windowSecs, clockSkewSecs } = settings;
    const replayRules: ReplayRules = { scope: 'verify', windowSecs, clockSkewSecs };
    this.parts = {
      rules: rulesOf(settings, roots, tools),
      cache: this.cache,
      keys,
      signatures,
      revocation,
      clock,
      requiresBinding: settings.requireBinding,
      use:
        replays === null
          ? null
          : (claims, limits, now, cost) =>
              useInvocation(claims, limits, replays, now, replayRules, observer, cost),
    };
  }

  /**
   * Judges a call by all rules of this verifier.
   *
   * @throws WorkDropped if `isWanted` returned false. Any other error is a bug in the verifier. Neither says anything
   *   about the bundle, and the content of a bundle never causes one.
   */
  verify(call: Call): Promise<Judgement> {
    return judge(call, this.parts);
  }

  async close(): Promise<void> {
    this.rootsFile?.close();
    this.toolsFile?.close();
    this.keys.close();
    await this.signatures.close();
    await this.revocation.close();
    await this.replays?.close();
  }
}
