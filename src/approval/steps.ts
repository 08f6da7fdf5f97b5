import { randomBytes } from 'node:crypto';
import type { Reading } from '../protocol/options.js';
import type { Approver, Approvers } from '../verify/approval.js';
import type { ApprovalEvent } from './events.js';
import { challengeOf, MAX_STATEMENT_BYTES, nameOf, statementOf, type Call } from './statement.js';
import { checkAssertion, type Assertion } from './webauthn.js';

/** For how long a yes can be used, and for how long a no holds. */
const ANSWER_SECS = 600;

export interface Yes {
  readonly approver: Approver;
  /** Unix seconds. */
  readonly at: number;
}

/** What somebody is asked, and the answers. It never changes: another one takes its place. */
export interface Question {
  readonly handle: string;
  /** Of the call: the same call has the same question. */
  readonly name: string;
  readonly root: string;
  readonly agent: string;
  readonly command: string;
  /** When it was first asked, in Unix seconds. */
  readonly askedAt: number;
  /** The bytes whose digest a passkey signs. */
  readonly statement: Uint8Array;
  /** A JSON array of the claims of each receipt, root first: for whoever is asked. */
  readonly receipts: Uint8Array;
  /** At most one of each passkey. */
  readonly yeses: readonly Yes[];
  /** `taken`: a call has its yes, and is not decided yet. */
  readonly state: 'asked' | 'taken' | 'denied';
  /** When it is no longer asked, or its answer no longer holds, in Unix seconds. */
  readonly end: number;
}

/** What becomes of a call that needs a yes. */
export type Asked =
  | {
      readonly kind: 'yes';
      readonly handle: string;
      readonly statement: Uint8Array;
      readonly yeses: readonly Yes[];
      /** Must be called once, when the call is decided. One that is refused gives its yes back. */
      readonly decided: (isUsed: boolean) => unknown;
    }
  | { readonly kind: 'asked' | 'denied'; readonly handle: string; readonly end: number }
  /** Nobody is asked. */
  | { readonly kind: 'refused'; readonly problem: string };

/** A change of a question. Stores carry it out as if nothing else happened meanwhile. */
export interface Change<T> {
  /** What takes the place of the question that was found; the same if nothing changes, `null`: nothing. */
  readonly next: Question | null;
  readonly result: T;
  readonly event?: ApprovalEvent;
}

/** @param known `null` if there is no such question, or it is over */
export type Step<T> = (known: Question | null, now: number) => Change<T>;

/** What an event tells of its question. */
export const told = ({ handle, root, agent, command, askedAt }: Question) => ({
  handle,
  root,
  agent,
  command,
  askedAt,
});

interface Asking {
  readonly who: Approvers;
  /** Gives the claims of the receipts, if the call is asked about for the first time. */
  readonly receiptsOf: () => unknown;
  readonly openSecs: number;
  /** What is to be done when a call that took a yes is decided. */
  readonly decide: (handle: string, step: Step<void>) => unknown;
}

/** Takes the yes to a call, or asks for one. */
export function asking(call: Call, { who, receiptsOf, openSecs, decide }: Asking): Step<Asked> {
  const open = (known: Question | null, now: number): Change<Asked> => {
    const { root, agent, command } = call;
    const handle = randomBytes(16).toString('base64url');
    const statement = statementOf(call, now, handle);
    // They are kept for a day: a small Buffer would keep a pool with it.
    const receipts = new TextEncoder().encode(JSON.stringify(receiptsOf()));
    const problem =
      statement === null
        ? 'it is larger than a statement can be (64 KiB)'
        : 'its receipts are larger than a page shows (64 KiB)';
    if (statement === null || receipts.length > MAX_STATEMENT_BYTES)
      return { next: known, result: { kind: 'refused', problem } };
    const end = now + openSecs;
    const next: Question = {
      handle,
      name: nameOf(call),
      root,
      agent,
      command,
      askedAt: now,
      statement,
      receipts,
      yeses: [],
      state: 'asked',
      end,
    };
    return { next, result: { kind: 'asked', handle, end }, event: { ...told(next), kind: 'asked' } };
  };
  return (known, now) => {
    if (known === null) return open(known, now);
    const { handle, statement, state, end } = known;
    if (state === 'denied') return { next: known, result: { kind: 'denied', handle, end } };
    const yeses = countedYeses(known, who);
    if (state === 'taken' || missing(yeses, who) > 0)
      return { next: known, result: { kind: 'asked', handle, end } };
    // Fewer are needed than when it was said.
    if (Math.max(...yeses.map(({ at }) => at)) + ANSWER_SECS <= now) return open(known, now);
    const decided = (isUsed: boolean) => decide(handle, deciding(isUsed));
    return { next: { ...known, state: 'taken' }, result: { kind: 'yes', handle, statement, yeses, decided } };
  };
}

/** Uses a yes that was taken, or gives it back. */
const deciding =
  (isUsed: boolean): Step<void> =>
  (known) => {
    // Not after a no, which stays.
    if (known?.state !== 'taken') return { next: known, result: undefined };
    if (!isUsed) return { next: { ...known, state: 'asked' }, result: undefined };
    return { next: null, result: undefined, event: { ...told(known), kind: 'used' } };
  };

/**
 * Takes what a passkey has signed.
 *
 * @param credential the id of the passkey
 * @param who may say yes now
 * @returns how many persons are still missing, or why it is no yes
 */
export function approving(credential: string, assertion: Assertion, who: Approvers): Step<Reading<number>> {
  return (known, now) => {
    const refused = (problem: string) => ({ next: known, result: { problem } });
    if (known === null) return refused('there is no such question, or it is over');
    if (known.state === 'denied') return refused('somebody said no');
    const approver = who.approvers.find(({ id }) => id === credential);
    if (approver === undefined) return refused('this passkey is not one of an approver');
    const counted = countedYeses(known, who);
    // A second one changes nothing: sent again and again, it would make a yes last.
    if (counted.some((yes) => yes.approver.id === credential))
      return { next: known, result: { value: missing(counted, who) } };
    const checked = checkAssertion(assertion, approver, challengeOf(known.statement));
    if ('problem' in checked) return { next: known, result: checked };
    // In place of what an approver said whose line has changed since.
    const others = known.yeses.filter((yes) => yes.approver.id !== credential);
    const yeses = [...others, { approver, at: now }];
    const left = missing(countedYeses({ yeses }, who), who);
    const statement = Buffer.from(known.statement).toString();
    return {
      next: { ...known, yeses, end: left === 0 ? now + ANSWER_SECS : known.end },
      result: { value: left },
      event: {
        ...told(known),
        kind: 'approved',
        statement,
        approver,
        assertion,
        counter: checked.value,
        missing: left,
      },
    };
  };
}

/** Takes a no, which anybody with the link can say. Its result: whether there is such a question. */
export const denying: Step<boolean> = (known, now) => {
  // Said again, it does not hold longer.
  if (known === null || known.state === 'denied') return { next: known, result: known !== null };
  const next = { ...known, state: 'denied', end: now + ANSWER_SECS } as const;
  return { next, result: true, event: { ...told(known), kind: 'denied' } };
};

/** Those that count: of approvers who are in the entry, unchanged. */
export function countedYeses({ yeses }: Pick<Question, 'yeses'>, { approvers }: Approvers): Yes[] {
  const now = new Set(approvers.map((approver) => JSON.stringify(approver)));
  return yeses.filter(({ approver }) => now.has(JSON.stringify(approver)));
}

/** How many persons still have to say yes. */
export function missing(yeses: readonly Yes[], { needed }: Approvers): number {
  return Math.max(0, needed - new Set(yeses.map(({ approver }) => approver.name)).size);
}
