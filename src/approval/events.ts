import { Buffer } from 'node:buffer';
import { encodeBase64url } from '#platform';
import type { Approver } from '../verify/approval.js';
import { challengeOf } from './statement.js';
import type { Assertion } from './webauthn.js';

interface Told {
  readonly handle: string;
  /** DIDs of the root principal and of who calls; the command. */
  readonly root: string;
  readonly agent: string;
  readonly command: string;
  /** When it was first asked, in Unix seconds. */
  readonly askedAt: number;
}

/** What happens to a question, in its order. */
export type ApprovalEvent = Told &
  (
    | { readonly kind: 'asked' | 'denied' | 'expired' | 'used' }
    /** A passkey said yes; `missing`: how many persons still have to. */
    | {
        readonly kind: 'approved';
        /** The canonical JSON that was signed. */
        readonly statement: string;
        readonly approver: Approver;
        readonly assertion: Assertion;
        readonly counter: number;
        readonly missing: number;
      }
  );

/** What proves a yes. Without the statement, whoever has the call can make it again: see docs/spec/log.md. */
export interface YesProof {
  /** Of the statement, in base64url. */
  readonly digest: string;
  readonly statement?: string;
  readonly approver: { readonly name: string; readonly id: string };
  readonly client_data_json: string;
  readonly authenticator_data: string;
  readonly signature: string;
  readonly counter: number;
  /** How many persons still have to say yes. */
  readonly missing: number;
}

/** What a log keeps of a question. @param hasStatement whether it keeps the arguments of approved calls */
export function keptOf(event: ApprovalEvent, hasStatement: boolean) {
  const { handle, askedAt: requested_at } = event;
  return { handle, requested_at, ...(event.kind === 'approved' && proofOf(event, hasStatement)) };
}

function proofOf(event: Extract<ApprovalEvent, { kind: 'approved' }>, hasStatement: boolean): YesProof {
  const { statement, approver, assertion, counter, missing } = event;
  return {
    digest: encodeBase64url(challengeOf(Buffer.from(statement))),
    ...(hasStatement && { statement }),
    approver: { name: approver.name, id: approver.id },
    client_data_json: encodeBase64url(assertion.clientDataJSON),
    authenticator_data: encodeBase64url(assertion.authenticatorData),
    signature: encodeBase64url(assertion.signature),
    counter,
    missing,
  };
}
