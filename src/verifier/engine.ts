import { judgeReplay, type ReplayRules, type ReplayStore } from '../replay/index.js';
import type { Revocation } from '../revocation/index.js';
import { InThreadVerifier } from '../signatures/in-thread.js';
import { PoolVerifier } from '../signatures/pool.js';
import type { SignatureJob, SignatureVerifier } from '../signatures/signature-verifier.js';
import { bindMember, bindText, bindValue, type Binding } from '../verify/binding.js';
import type { SignatureCheck } from '../verify/blocks/c-signatures.js';
import { Failure } from '../verify/codes.js';
import {
  concludeVerification,
  openVerification,
  proveVerification,
  type Opened,
} from '../verify/pipeline.js';
import { ReceiptCache } from '../verify/receipt-cache.js';
import type { Chain, Invocation } from '../verify/receipt.js';
import type { Rules } from '../verify/rules.js';
import type { JsonObject } from '../protocol/json.js';
import type { VerifierSettings } from './options.js';

/** The body of the call that a bundle came with, if it is to be compared with the signed arguments. */
export type Body =
  /** A value in this process. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** JSON text. */
  | { readonly kind: 'text'; readonly text: string }
  /** The `body` member of a document, and the JSON text of the whole document. */
  | { readonly kind: 'member'; readonly text: string; readonly document: JsonObject };

/** One bundle to judge. */
export interface Request {
  /** What `JSON.parse` made of the bundle; trusted in nothing. */
  readonly bundle: unknown;
  readonly body: Body | null;
  /** Unix seconds; by default the time at which the signatures are known. */
  readonly now?: number | undefined;
}

/** What became of a bundle. */
export type Outcome =
  | {
      readonly chain: Chain;
      readonly invocation: Invocation;
      readonly binding: Binding | null;
      readonly failure: null;
    }
  | { readonly chain: null; readonly failure: Failure };

/** Takes an outcome, exactly once, possibly before {@link Engine.judge} returns. */
export interface OutcomeSink {
  deliver(outcome: Outcome): void;
  /** A fault of the verifier, not of the bundle: there is no verdict. */
  abandon(error: Error): void;
}

/** Puts the rooms together: pipeline, receipt cache, signatures and revocation. */
export class Engine {
  readonly cache: ReceiptCache;
  readonly signatures: SignatureVerifier;
  readonly revocation: Revocation;
  /** `null` where an invocation may be used again. */
  readonly replays: ReplayStore | null;
  readonly rules: Rules;
  readonly replayRules: ReplayRules;

  constructor(
    settings: VerifierSettings,
    revocation: Revocation,
    replays: ReplayStore | null,
    onWorkerDeath: (error: Error) => void,
  ) {
    this.rules = {
      maxChainDepth: settings.maxChainDepth,
      clockSkewSecs: settings.clockSkewSecs,
      serverIdentity: settings.serverIdentity ?? null,
      trustedRoots: settings.trustedRoots ? new Set(settings.trustedRoots) : null,
    };
    this.cache = new ReceiptCache(settings.receiptCacheBytes);
    this.revocation = revocation;
    this.replays = replays;
    this.replayRules = {
      scope: 'verify',
      windowSecs: settings.replayWindowSecs,
      clockSkewSecs: settings.clockSkewSecs,
    };
    this.signatures =
      settings.workerThreads === 0
        ? new InThreadVerifier()
        : new PoolVerifier(settings.workerThreads, onWorkerDeath);
  }

  /** Judges one bundle. Nothing that is in it makes this throw. */
  judge(request: Request, sink: OutcomeSink): void {
    const opened = openVerification(request.bundle, this.rules, this.cache);
    if (opened instanceof Failure) {
      sink.deliver({ chain: null, failure: opened });
      return;
    }
    const run = new Run(this, request, opened, sink);
    if (run.checks.length === 0) run.settle(() => false);
    else this.signatures.submit(run);
  }

  async close(): Promise<void> {
    await this.signatures.close();
    await this.revocation.close();
    await this.replays?.close();
  }
}

/** One verification from its signatures on. */
class Run implements SignatureJob {
  readonly #engine: Engine;
  readonly #request: Request;
  readonly #opened: Opened;
  readonly #sink: OutcomeSink;

  constructor(engine: Engine, request: Request, opened: Opened, sink: OutcomeSink) {
    this.#engine = engine;
    this.#request = request;
    this.#opened = opened;
    this.#sink = sink;
  }

  get checks(): readonly SignatureCheck[] {
    return this.#opened.plan.checks;
  }

  settle(isVerified: (check: number) => boolean): void {
    try {
      const { rules, cache, revocation } = this.#engine;
      const now = this.#request.now ?? Math.floor(Date.now() / 1000);
      const chain = proveVerification(this.#opened, isVerified, now, rules, cache);
      if (chain instanceof Failure) {
        this.#sink.deliver({ chain: null, failure: chain });
        return;
      }
      const fetching = chain.isRevocable ? revocation.freshen() : null;
      if (fetching === null) this.#conclude(chain, now);
      else
        fetching
          .then(() => this.#conclude(chain, now))
          .catch((error: unknown) => this.abandon(error as Error));
    } catch (error) {
      this.abandon(error as Error);
    }
  }

  abandon(error: Error): void {
    this.#sink.abandon(error);
  }

  #conclude(chain: Chain, now: number): void {
    const { revocation, replays, replayRules } = this.#engine;
    const failure = concludeVerification(chain, revocation.view);
    if (failure !== null || replays === null) {
      this.#deliver(chain, failure);
      return;
    }
    // Last, since a call that is refused must not use up its invocation.
    const judged = judgeReplay(this.#opened.structure.invocation.claims, replays, now, replayRules);
    if (judged instanceof Promise)
      judged
        .then((replay) => this.#deliver(chain, replay))
        .catch((error: unknown) => this.abandon(error as Error));
    else this.#deliver(chain, judged);
  }

  #deliver(chain: Chain, failure: Failure | null): void {
    if (failure !== null) {
      this.#sink.deliver({ chain: null, failure });
      return;
    }
    const { invocation } = this.#opened.structure;
    this.#sink.deliver({ chain, invocation, binding: this.#bind(invocation.claims.args), failure: null });
  }

  #bind(args: JsonObject): Binding | null {
    const { body } = this.#request;
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
}
