import { Buffer } from 'node:buffer';
import type { Reading } from '../protocol/options.js';
import { RedisLink } from '../redis/link.js';
import { runScript, scriptOf } from '../redis/script.js';
import { RedisMark } from '../usage/redis-mark.js';
import { FORGETTING } from '../usage/redis-store.js';
import type { ReplayLog } from '../usage/usage-store.js';
import type { Approvers } from '../verify/approval.js';
import {
  bytesOf,
  FULL,
  MAX_BYTES,
  MAX_OF_AGENT,
  MAX_OF_ROOT,
  MAX_QUESTIONS,
  steadyClock,
} from './questions.js';
import type { QuestionOptions, QuestionStore } from './questions.js';
import { nameOf, type Call } from './statement.js';
import { approving, asking, denying, told, type Asked, type Question, type Step } from './steps.js';
import type { Assertion } from './webauthn.js';

/** Of all keys: one slot of a cluster, so that a script reaches them. Another form of records needs another one. */
const PREFIX = 'drs:approve:{1}:';
/** Longer than any question is open. */
const KEPT_SECS = 8 * 86_400;
/** What is over is kept for so long that somebody tells of it. */
const SPARE_SECS = 3600;
const MAX_SWEPT = 100;

/**
 * Puts a question in the place of another, if that is still there.
 *
 * KEYS: the question by its name; the old handle; the new one; sets of all, of the agent, of the root; the bytes of all.
 * ARGV: the old text, and its name in the sets; the same of the new one (each empty: none); its name, its end, its life in ms; the life of the rest
 * in ms; now; the most of agent, root, all, bytes (only if it is new).
 */
const CHANGE = scriptOf(`
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 'changed' end
local function sizeOf(member) return tonumber(member:match('%d+$') or 0) end
if ARGV[10] then
  local function open(key) return redis.call('ZCOUNT', key, '(' .. ARGV[9], '+inf') end
  if open(KEYS[5]) >= tonumber(ARGV[10]) then return 'agent' end
  if open(KEYS[6]) >= tonumber(ARGV[11]) then return 'root' end
  local bytes = tonumber(redis.call('GET', KEYS[7]) or 0) + sizeOf(ARGV[4])
  if open(KEYS[4]) >= tonumber(ARGV[12]) or bytes > tonumber(ARGV[13]) then return 'all' end
end
redis.call('DEL', KEYS[1], KEYS[2])
for i = 4, 6 do
  if ARGV[2] ~= '' then redis.call('ZREM', KEYS[i], ARGV[2]) end
  if ARGV[4] ~= '' then redis.call('ZADD', KEYS[i], ARGV[6], ARGV[4]) end
  if i > 4 then redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', ARGV[9]) end
  redis.call('PEXPIRE', KEYS[i], ARGV[8])
end
redis.call('INCRBY', KEYS[7], sizeOf(ARGV[4]) - sizeOf(ARGV[2]))
redis.call('PEXPIRE', KEYS[7], ARGV[8])
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[7])
  redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[7])
end
return 'done'
`);

/** Drops questions that are over, and returns how many are left, and them. KEYS: the set of all; the bytes of all. ARGV: now; how many; the prefix. */
const SWEEP = scriptOf(`
local texts = {0}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])) do
  local name, size = member:match('^(%S+) (%d+)$')
  table.insert(texts, redis.call('GET', ARGV[3] .. name) or '')
  redis.call('DEL', ARGV[3] .. name)
  redis.call('ZREM', KEYS[1], member)
  redis.call('DECRBY', KEYS[2], size)
end
texts[1] = redis.call('ZCARD', KEYS[1])
return texts
`);

/** The settings of the store of used invocations, whose Redis it shares. */
export interface RedisQuestionsOptions extends Required<QuestionOptions> {
  readonly url: string;
  readonly timeoutMs: number;
  readonly mayForget: boolean;
  readonly log: ReplayLog | undefined;
}

/** The questions of all instances that share a Redis. A change of one is a script, which does nothing if another was faster. */
export class RedisQuestions implements QuestionStore {
  readonly #options: RedisQuestionsOptions;
  readonly #clock: () => number;
  readonly #link: RedisLink;
  readonly #mark: RedisMark;
  open = 0;
  #sweptAt = -Infinity;

  private constructor(options: RedisQuestionsOptions, clock: () => number, lookMs: number | undefined) {
    const { url, log, timeoutMs, mayForget } = options;
    this.#options = options;
    this.#clock = clock;
    this.#mark = new RedisMark(`${PREFIX}mark`, false, () =>
      log?.warn(
        {},
        `${this.#link.place} may have lost answers of persons: what was asked before is asked anew`,
      ),
    );
    this.#link = new RedisLink({
      url,
      log,
      lookMs,
      callMs: timeoutMs,
      keeps: 'answers of persons',
      needsFile: !mayForget && FORGETTING,
      write: (connection, facts) => this.#mark.look(connection, facts),
      onDown: (error) =>
        log?.error(
          { err: error },
          `${this.#link.place} keeps no questions: calls that need a yes are refused`,
        ),
      onBack: () => log?.info({}, `${this.#link.place} keeps questions again`),
    });
  }

  /**
   * @param clock gives Unix seconds that never go back
   * @throws Error if Redis is not reached, or may forget
   */
  static async open(
    options: RedisQuestionsOptions,
    clock = steadyClock(),
    { lookMs }: { /** Only tests change it. */ readonly lookMs?: number } = {},
  ): Promise<RedisQuestions> {
    const questions = new RedisQuestions(options, clock, lookMs);
    try {
      await questions.#link.open();
    } catch (error) {
      questions.close();
      throw error;
    }
    return questions;
  }

  ask(call: Call, who: Approvers, receiptsOf: () => unknown = () => []): Promise<Asked> {
    const { openSecs } = this.#options;
    // Where that fails, the yes stays taken: nobody else gets it.
    const decide = (handle: string, step: Step<void>) =>
      this.#change({ handle }, step).catch(() => undefined);
    const step = asking(call, { who, receiptsOf, openSecs, decide });
    return this.#change({ name: nameOf(call) }, step, (problem) => ({ kind: 'refused', problem }));
  }

  get(handle: string): Promise<Question | null> {
    return this.#change({ handle }, (known) => ({ next: known, result: known }));
  }

  approve(
    handle: string,
    credential: string,
    assertion: Assertion,
    who: Approvers,
  ): Promise<Reading<number>> {
    return this.#change({ handle }, approving(credential, assertion, who));
  }

  deny(handle: string): Promise<boolean> {
    return this.#change({ handle }, denying);
  }

  close(): void {
    this.#link.close();
  }

  async #change<T>(
    by: { readonly name: string } | { readonly handle: string },
    step: Step<T>,
    ifFull?: (problem: string) => T,
  ): Promise<T> {
    const { error: linkError } = this.#link;
    if (linkError !== null) throw new Error('Redis does not answer', { cause: linkError });
    const now = this.#clock();
    if (now > this.#sweptAt) await this.#sweep(now);
    // It begins again where another instance was faster.
    for (;;) {
      const name = 'name' in by ? by.name : await this.#read(`h:${by.handle}`);
      const text = name === '' ? '' : await this.#read(name);
      const found = text === '' ? null : parse(text);
      // Before a loss, it may have been used, or denied: its assertions must not count once more.
      const isKnown = found !== null && found.end > now && found.askedAt > this.#mark.lostAt;
      const known = isKnown && (!('handle' in by) || by.handle === found.handle) ? found : null;
      const { next, result, event } = step(known, now);
      if (next === known) return result;
      const answer = await this.#swap({ text, found }, next, now, known === null);
      if (answer === 'changed') continue;
      if (answer !== 'done' && ifFull !== undefined) return ifFull(FULL[answer as keyof typeof FULL]);
      if (event !== undefined) this.#options.onEvent(event);
      return result;
    }
  }

  #swap(
    { text, found }: { readonly text: string; readonly found: Question | null },
    next: Question | null,
    now: number,
    isNew: boolean,
  ): Promise<unknown> {
    const { name, agent, root } = (next ?? found) as Question;
    const handles = [found, next].map((one) => `h:${one?.handle ?? ''}`);
    const keys = [name, ...handles, 'all', `a:${agent}`, `r:${root}`, 'bytes'];
    const end = next?.end ?? now;
    const texts = [text, memberOf(found), next === null ? '' : textOf(next), memberOf(next), name];
    const lives = [(end - now + SPARE_SECS) * 1000, KEPT_SECS * 1000];
    const bounds = isNew ? [MAX_OF_AGENT, MAX_OF_ROOT, MAX_QUESTIONS, MAX_BYTES] : [];
    const named = keys.map((key) => PREFIX + key);
    return runScript(this.#link, CHANGE, named, [...texts, end, ...lives, now, ...bounds]);
  }

  /** Tells of what is over, in the first call of a second. */
  async #sweep(now: number): Promise<void> {
    this.#sweptAt = now;
    const keys = [`${PREFIX}all`, `${PREFIX}bytes`];
    const swept = await runScript(this.#link, SWEEP, keys, [now, MAX_SWEPT, PREFIX]);
    const [open, ...texts] = swept as [number, ...string[]];
    this.open = open;
    for (const question of texts.filter((text) => text !== '').map(parse))
      if (question.state !== 'denied') this.#options.onEvent({ ...told(question), kind: 'expired' });
    if (texts.length === MAX_SWEPT) await this.#sweep(now);
  }

  async #read(key: string): Promise<string> {
    const found = await this.#link.send(PREFIX + key, ['GET', PREFIX + key]);
    return typeof found === 'string' ? found : '';
  }
}

/** Its name in sets; the last number is what it takes. */
const memberOf = (question: Question | null): string =>
  question === null ? '' : `${question.name} ${bytesOf(question)}`;

const textOf = (question: Question): string =>
  JSON.stringify({
    ...question,
    statement: Buffer.from(question.statement).toString(),
    receipts: Buffer.from(question.receipts).toString(),
  });

function parse(text: string): Question {
  const read = JSON.parse(text) as Question & Record<'statement' | 'receipts', string>;
  return { ...read, statement: Buffer.from(read.statement), receipts: Buffer.from(read.receipts) };
}
