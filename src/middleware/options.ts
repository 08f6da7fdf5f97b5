import { DrsClient } from '../client/drs-client.js';
import type { ReplayRules } from '../replay/judge-replay.js';
import { DEFAULT_REPLAY_WINDOW_SECS } from '../replay/judge-replay.js';
import type { ReplayStore } from '../replay/replay-store.js';
import type { Verdict } from '../verifier/verdict.js';
import type { EventOptions } from './events.js';

/** What verifies: a `Verifier` of this process, or a `DrsClient` of a service. */
export interface CallVerifier {
  verify(bundle: unknown, call?: { readonly body?: unknown; readonly bodyText?: string }): Promise<Verdict>;
}

/** Where verdicts come from: one of the two. */
export type VerdictSource =
  | { readonly verifier: CallVerifier; readonly verifyUrl?: never }
  /** The address of a verification service. Whoever answers there decides on every call. */
  | { readonly verifyUrl: string | URL; readonly verifier?: never };

/** What all that protects a tool server can be told. */
export type ProtectionOptions = VerdictSource &
  EventOptions & {
    /** Turns replay protection on: without it a call can be repeated for as long as its delegation lives. */
    readonly replayStore?: ReplayStore;
    /** How old an invocation may be, in seconds, where there is a replay store; default 900. */
    readonly replayWindowSecs?: number;
    /** The clock tolerance for the age of an invocation, in seconds; default 0, and never less than 60 ahead. */
    readonly clockSkewSecs?: number;
    /** Lets requests without a bundle pass, with no context. One with a bad bundle is still refused. Default false. */
    readonly optional?: boolean;
    /** Accept only invocations of this command or of one below it; default: whatever the chain allows. */
    readonly command?: string;
  };

/**
 * What becomes of the binding check: `enforced` refuses what does not match, `report` puts the outcome into the
 * context, `off` does not read the body at all.
 */
export type BindingMode = 'enforced' | 'report' | 'off';

/** Options of the HTTP middleware. */
export type MiddlewareOptions = ProtectionOptions & {
  /** Default `enforced`. */
  readonly bindingMode?: BindingMode;
  /** The largest request body, in bytes; default 1 MiB. */
  readonly maxBodyBytes?: number;
};

const DEFAULT_MAX_BODY_BYTES = 1024 * 1024;

/** Where verdicts come from, opened. */
export function verifierOf({ verifier, verifyUrl }: VerdictSource): CallVerifier {
  if ((verifier === undefined) === (verifyUrl === undefined)) {
    throw new TypeError(
      'give exactly one of verifier (createVerifier() or a DrsClient) and verifyUrl (the address of a service)',
    );
  }
  return verifier ?? new DrsClient(verifyUrl);
}

/** The rules of replay protection. */
export function replayRulesOf(options: ProtectionOptions): ReplayRules {
  const { replayWindowSecs: windowSecs = DEFAULT_REPLAY_WINDOW_SECS, clockSkewSecs = 0 } = options;
  for (const [name, value] of Object.entries({ replayWindowSecs: windowSecs, clockSkewSecs })) {
    if (Number.isSafeInteger(value) && value >= 0) continue;
    throw new TypeError(`${name} is ${String(value)}, expected an integer of at least 0 (seconds)`);
  }
  return { scope: 'middleware', windowSecs, clockSkewSecs };
}

/** The binding mode and the body limit, with defaults. */
export function bodyRulesOf(options: MiddlewareOptions): { bindingMode: BindingMode; maxBodyBytes: number } {
  const { bindingMode = 'enforced', maxBodyBytes = DEFAULT_MAX_BODY_BYTES } = options;
  if (!['enforced', 'report', 'off'].includes(bindingMode)) {
    throw new TypeError(
      `bindingMode is ${JSON.stringify(bindingMode)}, expected "enforced", "report" or "off"`,
    );
  }
  if (!Number.isSafeInteger(maxBodyBytes) || maxBodyBytes < 1) {
    throw new TypeError(`maxBodyBytes is ${maxBodyBytes}, expected an integer of at least 1`);
  }
  return { bindingMode, maxBodyBytes };
}
