import type { Assertion } from './webauthn.js';
import type { Approver } from '../verify/approval.js';

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
