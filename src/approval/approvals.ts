import { setTimeout as sleep } from 'node:timers/promises';
import type { AskedGate } from '../gate/decide.js';
import type { Denial } from '../gate/request.js';
import { handleIn } from '../gate/response.js';
import { parseCompactJwt, type CompactJwt } from '../protocol/jwt.js';
import type { Approvers, EntryApproval } from '../verify/approval.js';
import type { Proof } from '../verify/judge.js';
import type { Roots } from '../verify/parts.js';
import type { QuestionStore } from './questions.js';
import { callOf, challengeOf, type Call } from './statement.js';
import { countedYeses, missing } from './steps.js';
import type { Notice } from './webhook.js';

/** How long a call is held whose client has opened the link. */
const HELD_MS = 50_000;
const LOOK_MS = 500;
const REPORT_PAUSE_MS = 10_000;

/** What a gate asks persons with. */
export type Approvals = ReturnType<typeof approvalsAt>;

/**
 * Asks persons on the page at an origin.
 *
 * @param rootsOf the roots that are trusted now; `null`: anybody, of whom nothing is said
 * @param report is told why a store cannot tell, once in 10 s
 */
export function approvalsAt(
  origin: string,
  questions: QuestionStore,
  rootsOf: () => Roots | null,
  report: (error: unknown) => void,
) {
  /** Who may say yes on this page, by the entry as it is now: a passkey works on pages of its origin alone. */
  const whoIn = (entry: EntryApproval | null): Approvers => ({
    needed: entry?.needed ?? 1,
    approvers: entry?.approvers.filter((approver) => approver.origin === origin) ?? [],
  });
  const entryOf = (root: string) => rootsOf()?.get(root) ?? null;
  let reportedAt = -Infinity;
  return {
    origin,
    questions,
    /** What the operator says of a root principal now, and who may say yes to calls under it. */
    about: (root: string) => {
      const entry = entryOf(root);
      const approval = entry?.approval ?? null;
      return { name: entry?.name ?? null, isPrivate: approval?.isPrivate ?? false, who: whoIn(approval) };
    },
    /** Takes the yes to a call, or asks for it. Never throws. */
    ask: async (proof: Proof): Promise<AskedGate> => {
      const who = whoIn(proof.root.approval);
      const names = [...new Set(who.approvers.map(({ name }) => name))];
      if (names.length < who.needed)
        return {
          kind: 'refused',
          expected: `${who.needed} of approvers with the origin ${origin} in the line of the root principal in TRUSTED_ROOTS_FILE, which has ${names.length}`,
        };
      const claims = () =>
        proof.chain.receipts.map(({ jwt }) => (parseCompactJwt(jwt) as CompactJwt).payload);
      try {
        const asked = await questions.ask(callOf(proof), who, claims);
        if (asked.kind === 'refused')
          return { kind: 'refused', expected: `that somebody can be asked: ${asked.problem}` };
        if (asked.kind !== 'yes') {
          const { kind, handle, end } = asked;
          return { kind, names, url: `${origin}/approve/${handle}`, end };
        }
        const { statement, yeses, decided } = asked;
        const by = yeses.map(({ approver: { name }, at }) => ({ name, at }));
        const approval = { statement: Buffer.from(challengeOf(statement)).toString('base64url'), by };
        return { kind: 'yes', approval, decided };
      } catch (error) {
        // Its words are not for callers: they may have addresses.
        if (performance.now() - reportedAt >= REPORT_PAUSE_MS) {
          reportedAt = performance.now();
          report(error);
        }
        return { kind: 'refused', expected: 'a store of questions that can tell' };
      }
    },
    /** What a webhook is told of a question. @throws Error if it is over */
    noticeOf: async (handle: string): Promise<Notice> => {
      const question = await questions.get(handle);
      if (question === null) throw new Error('the question is over');
      const { root, statement, end } = question;
      const { args } = JSON.parse(Buffer.from(statement).toString()) as Call;
      const { tool } = args;
      const url = `${origin}/approve/${handle}`;
      return {
        text: `A call waits for your yes: ${url}`,
        url,
        tool: typeof tool === 'string' ? tool : null,
        root_name: entryOf(root)?.name ?? null,
        expires_at: end,
      };
    },
    /**
     * Waits until the question of a refused call is answered, for less than clients wait. Its client has shown the link.
     *
     * @param mayHold whether the call may wait; `undefined`: it may not
     * @returns whether it is answered, so that the call is decided on anew
     */
    answered: async (
      { failure: { approval } }: Denial,
      mayHold: (() => boolean) | undefined,
    ): Promise<boolean> => {
      if (approval === undefined || mayHold === undefined) return false;
      const handle = handleIn(approval.url);
      for (let waitedMs = 0; waitedMs < HELD_MS && mayHold(); waitedMs += LOOK_MS) {
        await sleep(LOOK_MS);
        const question = await questions.get(handle);
        if (question?.state !== 'asked') return true;
        const who = whoIn(entryOf(question.root)?.approval ?? null);
        if (missing(countedYeses(question, who), who) === 0) return true;
      }
      return false;
    },
    close: () => questions.close(),
  };
}
