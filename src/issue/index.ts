/**
 * The signing side of DRS 4.0: keys, delegation receipts, invocation receipts and bundles.
 *
 * @example
 * import { createBundle, encodeBundle, generateKey, issueInvocation, issueSubDelegation } from 'drs-verify/issue';
 *
 * @packageDocumentation
 */
export { createBundle, encodeBundle, type Bundle } from '../protocol/bundle.js';
export { decodeBundle } from './bundle.js';
export { createConsent, type ConsentOptions } from './consent.js';
export { issueInvocation, issueRootDelegation, issueSubDelegation } from './delegation.js';
export type { InvocationOptions, RootDelegationOptions, SubDelegationOptions } from './delegation.js';
export { IssueError, type IssueErrorCode } from './issue-error.js';
export { describePolicy, type PlainPolicy } from './plain-words.js';
export type { IssuedPolicy, NamespacedMember } from './policy.js';
export { signAs, signClaims, webCryptoSigner, type Signer, type WebKeyPair } from './signer.js';
export { didOfJwk, generateKey, importKey } from './signing-key.js';
export type { PrivateJwk, PublicJwk, SigningKey } from './signing-key.js';
export type { InvocationClaims, ReceiptClaims } from '../protocol/claims.js';
export type { Consent } from '../protocol/consent.js';
export type { JsonObject, JsonValue } from '../protocol/json.js';
export type { KnownPolicyMember, Policy } from '../protocol/policy.js';
