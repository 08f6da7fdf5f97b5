import { setTimeout as sleep } from 'node:timers/promises';

/** Between two tries, in milliseconds. */
const WAITS_MS = [1000, 5000, 25_000];
const TIMEOUT_MS = 5000;
/** Of what waits for an answer. An agent may ask much in a minute. */
const MAX_WAITING = 100;

/** What is sent when somebody is asked: never arguments. `text` is what chats show. */
export interface Notice {
  readonly text: string;
  readonly url: string;
  /** As the agent names it. */
  readonly tool: string | null;
  readonly root_name: string | null;
  /** Unix seconds. */
  readonly expires_at: number;
}

/**
 * Makes what tells an address of a question. It never rejects: the agent has the link, too.
 *
 * @param sign makes a JWT over a body; `null`: nothing is signed
 */
export function webhookTo(
  address: string,
  sign: ((body: string) => string) | null,
  log: { warn(facts: object, message: string): void },
  waitsMs: readonly number[] = WAITS_MS,
) {
  let waiting = 0;
  const send = async (body: string): Promise<void> => {
    const headers: Record<string, string> = { 'Content-Type': 'application/json' };
    if (sign !== null) headers['X-DRS-Signature'] = sign(body);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const answer = await fetch(address, { method: 'POST', body, headers, redirect: 'error', signal });
    await answer.body?.cancel();
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
  };
  return async (noticeOf: () => Promise<Notice>): Promise<void> => {
    if (waiting >= MAX_WAITING) {
      log.warn({}, `APPROVALS_WEBHOOK is not told of a question: ${MAX_WAITING} others wait`);
      return;
    }
    waiting++;
    for (const waitMs of [...waitsMs, null])
      try {
        await send(JSON.stringify(await noticeOf()));
        break;
      } catch (err) {
        if (waitMs === null) log.warn({ err }, 'APPROVALS_WEBHOOK was not told of a question');
        else await sleep(waitMs, undefined, { ref: false });
      }
    waiting--;
  };
}
