import { isJsonObject } from '../protocol/json.js';
import { callContextOf, countedOf, type CallContext } from '../gate/context.js';
import type { Binding } from '../verify/binding.js';
import type { Code } from '../verify/codes.js';
import { limitNamesOf, type LimitLeft } from '../verify/limits.js';
import type { VerdictContext } from '../verify/receipt.js';
import type { Judgement, Proof } from '../verify/judge.js';

/** Why a bundle is not valid. */
export interface VerdictError {
  readonly code: Code;
  readonly message: string;
  readonly suggestion: string;
}

/** The answer to a bundle. */
export type Verdict =
  | {
      readonly valid: true;
      readonly context: VerdictContext;
      readonly binding?: Binding;
      /** Only present on request. */
      readonly details?: VerdictDetails;
      readonly error?: never;
    }
  | {
      readonly valid: false;
      readonly error: VerdictError;
      readonly context?: never;
      /** Only present if the binding is the reason. */
      readonly binding?: Binding;
      readonly details?: never;
    };

/** What a valid verdict tells besides its context, on request. */
export interface VerdictDetails extends CallContext {
  /** Absent if nothing was compared. */
  readonly binding?: Binding;
  /** What is left of the chain's limits after this call; absent if there are none, or they are not counted. */
  readonly limits?: readonly LimitLeft[];
  /** As in the context. */
  readonly unenforced?: VerdictContext['unenforced'];
}

export function asksForDetails(bundle: unknown): boolean {
  return isJsonObject(bundle) && Object.hasOwn(bundle, 'details') && bundle['details'] === true;
}

/** Makes the verdict for an outcome, as a value: a copy for the caller, which no later verdict shares. */
export function toVerdict(outcome: Judgement, wantsDetails: boolean): Verdict {
  return JSON.parse(toVerdictJson(outcome, wantsDetails)) as Verdict;
}

/** Makes the verdict for an outcome, as JSON. The context of a known chain is serialized only once. */
export function toVerdictJson(outcome: Judgement, wantsDetails: boolean): string {
  const bound = outcome.binding === null ? '' : `,"binding":"${outcome.binding}"`;
  if (outcome.failure !== null) {
    const { code, message, suggestion } = outcome.failure;
    const texts = `"message":${JSON.stringify(message)},"suggestion":${JSON.stringify(suggestion)}`;
    return `{"valid":false,"error":{"code":"${code}",${texts}}${bound}}`;
  }
  const details = wantsDetails ? `,"details":${JSON.stringify(detailsOf(outcome))}` : '';
  return `{"valid":true,"context":${contextJsonOf(outcome)}${bound}${details}}`;
}

/** The context as JSON. It names the limits of the chain where nobody has counted. */
function contextJsonOf({ chain, limits, invocation }: Proof): string {
  const isCounted = limits !== null || chain.limits.length === 0;
  const open = isCounted ? '' : `,"unenforced":${JSON.stringify(limitNamesOf(chain.limits))}`;
  const server = JSON.stringify(invocation.claims.tool_server);
  return `${chain.contextJson.slice(0, -1)},"tool_server":${server}${open}}`;
}

function detailsOf(proof: Proof): VerdictDetails {
  const { chain, binding, limits } = proof;
  return {
    ...callContextOf(proof),
    ...(binding === null ? {} : { binding }),
    ...countedOf(chain.limits, limits),
  };
}
