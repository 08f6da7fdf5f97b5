import type { IncomingMessage, ServerResponse } from 'node:http';
import { approvalsAt } from '../approval/approvals.js';
import { isOrigin } from '../approval/approvers.js';
import { keptOf, type ApprovalEvent } from '../approval/events.js';
import { MAX_PAGE_BODY, pageOf, TOO_LARGE, type PageAnswer } from '../approval/page.js';
import { Questions } from '../approval/questions.js';
import { RedisQuestions } from '../approval/redis-questions.js';
import {
  callback,
  checkedOptions,
  count,
  kindOf,
  type GivenOptions,
  type Table,
} from '../protocol/options.js';
import { readAtMost } from '../protocol/read-at-most.js';
import { redisOptionsOf } from '../usage/redis-store.js';
import { partsBehind } from '../verifier/call-options.js';
import { guarded, reportError } from './events.js';
import { closing, headOf, isUnread, peekAtMost } from './node.js';
import { ASKER, PROTECTION, type ApprovalRecord, type Approvals } from './options.js';

const OPTIONS = {
  /** Origin of the page, as browsers write it: where people reach this server. */
  url: {
    kind: kindOf<string>(
      'an origin such as https://tools.example, or http://localhost with a port',
      isOrigin,
    ),
    required: true,
  },
  /** That of the middleware: it must be in this process, and have no `replayProtection` of its own. */
  verifier: { kind: PROTECTION.verifier.kind, required: true },
  /** That of the middleware. If it is in Redis, questions are there, too, and all instances have the same. */
  replayStore: PROTECTION.replayStore,
  /** Seconds for which a person is asked about a call; default a day. */
  openSecs: { kind: count(60, 604_800, 'seconds'), default: 86_400 },
  /**
   * Called with what happens to each question: tell somebody, and keep the lines. `drs-verify audit --approval` proves a yes by its
   * record as JSON. **It has all arguments of the call.** Its errors go to `onError`.
   */
  onRecord: { kind: callback<(record: ApprovalRecord) => unknown>() },
  /** Called with errors that nobody else sees. Default: `console.error`. */
  onError: PROTECTION.onError,
} satisfies Table;

/** Options of `openApprovals`. */
export interface ApprovalsOptions extends GivenOptions<typeof OPTIONS> {}

/** Calls that are held. Each looks for its answer twice a second. */
const MAX_HELD = 1000;

/** As of `openApprovals`. */
export async function openPage(given: ApprovalsOptions): Promise<Approvals> {
  const { url, verifier, replayStore, openSecs, onRecord, onError } = checkedOptions(given, OPTIONS);
  const report = (error: unknown) => reportError(error, onError);
  const parts = await partsBehind(verifier)?.();
  if (parts === undefined)
    throw new Error(
      'approvals needs a verifier in this process, such as createVerifier() makes: a service says nothing of approvers',
    );
  if (parts.use !== null)
    throw new Error(
      'the verifier has replayProtection, which would use up a call that waits for a yes: leave it to replayStore of the middleware',
    );
  const onEvent = (event: ApprovalEvent) => {
    const { kind, root, agent, command } = event;
    const record = { event: kind, root, agent, command, approval: keptOf(event, true) };
    guarded(() => onRecord?.(record), onError);
  };
  const redis = redisOptionsOf(replayStore);
  const questions =
    redis === null
      ? new Questions(undefined, { openSecs, onEvent })
      : await RedisQuestions.open({
          url: redis.url,
          timeoutMs: redis.timeoutMs,
          mayForget: redis.mayForget,
          log: redis.log,
          openSecs,
          onEvent,
        });
  const approvals = approvalsAt(url, questions, () => parts.rules.trustedRoots, report);
  const answer = pageOf(approvals, report);
  let held = 0;
  return {
    [ASKER]: {
      verifier,
      ask: approvals.ask,
      answered: async (denial, mayHold) => {
        if (held >= MAX_HELD) return false;
        held++;
        return approvals.answered(denial, mayHold).finally(() => held--);
      },
    },
    page: (req, res, next) => {
      const [path = ''] = (headOf(req).target ?? '').split('?');
      if (!isOfPage(path)) {
        if (next === undefined) res.writeHead(404).end();
        else next();
        return;
      }
      const { method = '', headers } = req;
      answer({ method, path, origin: headers.origin ?? null, read: () => readNode(req) }).then(
        (answered) => answered && write(res, answered),
        (error: unknown) => {
          report(error);
          res.destroy();
        },
      );
    },
    fetch: async (request) => {
      const path = new URL(request.url).pathname;
      if (!isOfPage(path)) return new Response(null, { status: 404 });
      const { method } = request;
      const origin = request.headers.get('origin');
      const answered = await answer({ method, path, origin, read: () => readFetch(request) });
      const { status, headers = {}, body } = answered as PageAnswer;
      const sent = typeof body === 'string' ? body : new Uint8Array(body);
      return new Response(method === 'HEAD' ? null : sent, { status, headers });
    },
    close: () => approvals.close(),
  };
}

const isOfPage = (path: string) => path === '/approve' || path.startsWith('/approve/');

async function readNode(req: IncomingMessage): Promise<Buffer | PageAnswer | null> {
  if (!isUnread(req)) throw new Error('the body was read before: put the page in front of every body parser');
  const bytes = await peekAtMost(req, MAX_PAGE_BODY);
  if (bytes === 'gone') return null;
  return bytes === 'too large' ? TOO_LARGE : bytes;
}

async function readFetch(request: Request): Promise<Buffer | PageAnswer> {
  return (await readAtMost(request.body ?? [], MAX_PAGE_BODY)) ?? TOO_LARGE;
}

function write(res: ServerResponse, { status, headers = {}, body, closes }: PageAnswer): void {
  res.writeHead(status, { ...headers, ...(closes === true && closing(res)) }).end(body);
}
