import type { Binding } from '../verify/binding.js';
import type { Code } from '../verify/codes.js';
import type { VerdictContext } from '../verify/receipt.js';
import type { Outcome } from './engine.js';

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
      readonly error?: never;
    }
  | {
      readonly valid: false;
      readonly error: VerdictError;
      readonly context?: never;
      readonly binding?: never;
    };

/** The verdict on an outcome, as a value. */
export function toVerdict(outcome: Outcome): Verdict {
  if (outcome.failure !== null) {
    const { code, message, suggestion } = outcome.failure;
    return { valid: false, error: { code, message, suggestion } };
  }
  const { chain, binding } = outcome;
  // A copy of the caller's own: whatever it does with it, later verdicts are not changed.
  const context = JSON.parse(chain.contextJson) as VerdictContext;
  return binding === null ? { valid: true, context } : { valid: true, context, binding };
}

/** The verdict on an outcome, as JSON: the context of a known chain is written once. */
export function toVerdictJson(outcome: Outcome): string {
  if (outcome.failure !== null) {
    const { code, message, suggestion } = outcome.failure;
    const texts = `"message":${JSON.stringify(message)},"suggestion":${JSON.stringify(suggestion)}`;
    return `{"valid":false,"error":{"code":"${code}",${texts}}}`;
  }
  const { chain, binding } = outcome;
  if (binding === null) return `{"valid":true,"context":${chain.contextJson}}`;
  return `{"valid":true,"context":${chain.contextJson},"binding":"${binding}"}`;
}
