/// <reference types="node" preserve="true" />
export { createVerifier, type Verifier } from './verifier/create-verifier.js';
export type { VerifyOptions } from './verifier/call-options.js';
export { OptionsError, type VerifierOptions } from './verifier/options.js';
export type { RevocationJson } from './revocation/entry.js';
export type { TrustedRoot } from './trust/read-root.js';
export type { NamedList } from './trust/read-status-lists.js';
export type { FromArgument, ToolLine } from './trust/read-tool.js';
export type { Verdict, VerdictDetails, VerdictError } from './verifier/verdict.js';
export type { VerdictContext } from './verify/receipt.js';
export type { Approved, Approver, PasskeyKey } from './verify/approval.js';
export type { Binding } from './verify/binding.js';
export type { Block, Code } from './verify/codes.js';
export { CATALOGUE } from './verify/codes.js';
export type { Policy } from './protocol/policy.js';
export type { InvocationClaims, ReceiptClaims } from './protocol/claims.js';
export type { Consent, Regulatory, StatedClaims } from './protocol/consent.js';
