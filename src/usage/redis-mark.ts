import { randomUUID } from 'node:crypto';
import type { RedisConnection } from '../redis/connection.js';
import type { RedisFacts } from '../redis/link.js';

/** What one look at a Redis leaves for the next. Times in milliseconds by the clock of Redis. See docs/spec/loss.md. */
interface Mark {
  /** Made with the mark, and never again. */
  readonly name: string;
  /** When it was written last; never earlier than before, whatever the clock of Redis does. */
  readonly time: number;
  readonly runId: string;
  readonly replId: string;
  /** How far the clock of a verifier that looked was ahead of that of Redis, at most. */
  readonly lead: number;
  /** `evicted_keys` of the Redis. */
  readonly evicted: number;
  /** When it was last found that invocations, or counters, may be missing; 0: never. */
  readonly lostAt: number;
  readonly emptiedAt: number;
}

/** What a verifier knows of a Redis from its last look. */
interface LastLook {
  readonly mark: Mark;
  /** When it was, by the clock of Redis. */
  readonly at: number;
}

interface Look {
  /** `null`: none, or none that this version reads. */
  readonly found: Mark | null;
  readonly facts: RedisFacts;
  /** By the clock of Redis. */
  readonly at: number;
  /** How far the own clock is ahead of that. */
  readonly lead: number;
  /** Whether no call was allowed before replicas had its charge. */
  readonly waits: boolean;
}

/** What may be missing: every record, what was recorded last of which no counter is, or nothing. */
type Loss = 'all' | 'last' | 'none';

/** The most that clocks may differ, in milliseconds. */
export const MAX_CLOCK_DIFFERENCE_MS = 30_000;

/** `master_replid2` of a Redis that was never a replica, or has forgotten whose. */
const NO_REPLID = /^(?:0+|-)$/;

/** What may be missing since the last look, of this verifier or of any. The rows of docs/spec/loss.md, in their order. */
function lossOf({ found, facts, waits }: Look, last: LastLook | null): Loss {
  if (found === null) return 'all';
  const isRenamed = last !== null && found.name !== last.mark.name;
  // Whoever named it anew has found the loss, unless that was long before.
  if (isRenamed && found.emptiedAt < last.at) return 'all';
  const isRestarted = found.runId !== facts.runId;
  // It counts from its start.
  if (facts.hasForgotten || facts.evicted > (isRestarted ? 0 : found.evicted)) return 'all';
  // A primary without replicas gives itself another id after an hour.
  if (isRestarted || (found.replId !== facts.replId && !NO_REPLID.test(facts.replId2)))
    return waits && facts.replId2 === found.replId ? 'last' : 'all';
  return last !== null && !isRenamed && found.time < last.mark.time ? 'all' : 'none';
}

/** The mark that a look writes. @param name for a new one */
function nextMark(look: Look, loss: Loss, last: LastLook | null, name: string): Mark {
  const { found, facts, at } = look;
  const { runId, replId, evicted } = facts;
  // One that is further away was measured before the clock of Redis was set.
  const leads = [found?.lead, last?.mark.lead, look.lead].filter(
    (lead) => lead !== undefined && lead - look.lead <= 2 * MAX_CLOCK_DIFFERENCE_MS,
  );
  return {
    name: found?.name ?? name,
    time: Math.max(at, found?.time ?? 0),
    runId,
    replId,
    // Somebody whose clock is wrong must not have everybody refused for as long.
    lead: Math.min(Math.max(...(leads as number[])), MAX_CLOCK_DIFFERENCE_MS),
    evicted,
    lostAt: loss === 'none' ? (found?.lostAt ?? 0) : at,
    emptiedAt: loss === 'all' ? at : (found?.emptiedAt ?? 0),
  };
}

/** A moment of a mark in Unix seconds, by the clock that was ahead most. */
function secondsOf({ lead }: Mark, moment: number): number {
  return moment === 0 ? 0 : Math.floor((moment + lead) / 1000);
}

const FORM = /^v1 (\S+) (\S+) (\S+) (-?\d+) (\d+) (\d+) (\d+) (\d+)$/;

/** @returns `null` for what is no mark of this version */
function parseMark(text: string): Mark | null {
  const [, name = '', runId = '', replId = '', ...rest] = FORM.exec(text) ?? [];
  const [lead = 0, evicted = 0, lostAt = 0, emptiedAt = 0, time = 0] = rest.map(Number);
  return name === '' ? null : { name, time, runId, replId, lead, evicted, lostAt, emptiedAt };
}

const textOf = ({ name, runId, replId, lead, evicted, lostAt, emptiedAt, time }: Mark) =>
  ['v1', name, runId, replId, lead, evicted, lostAt, emptiedAt, time].join(' ');

/** The mark, and the time in seconds and microseconds. */
const READ = `
local time = redis.call('TIME')
return {redis.call('GET', KEYS[1]) or '', time[1], time[2]}
`;

/**
 * Writes ARGV[2] where ARGV[1] still stands, or the same with a later time, which then stays: of many who look at once, none
 * has to begin again because another has found nothing.
 */
const SWAP = `
local text, mark = redis.call('GET', KEYS[1]) or '', ARGV[2]
if text ~= ARGV[1] then
  local found, time = text:match('^(.*) (%d+)$')
  local read, before = ARGV[1]:match('^(.*) (%d+)$')
  if not found or found ~= read or tonumber(time) < tonumber(before) then return 0 end
  mark = mark:match('^(.*) ') .. ' ' .. math.max(time, mark:match('%d+$'))
end
redis.call('SET', KEYS[1], mark)
return 1
`;

/** A loss as a verifier learns of it. */
export interface FoundLoss {
  readonly loss: Loss;
  /** Whether there was no mark, and this verifier remembers none. */
  readonly isNewStore: boolean;
}

export class RedisMark {
  // Only `look` changes these.
  /** Unix seconds: invocations that were used before, and what counters said, may be missing; 0 if nothing is known to be. */
  lostAt = 0;
  emptiedAt = 0;
  /** Whether this verifier found the last loss; `null` if none is known. */
  isFoundHere: boolean | null = null;
  /** How far the clock here is ahead of that of Redis, in milliseconds; `NaN` before the first look. */
  leadMs = Number.NaN;
  #last: LastLook | null = null;
  readonly #key: string;
  readonly #waits: boolean;
  readonly #onLost: (found: FoundLoss) => void;

  /**
   * @param waits whether charges wait for replicas
   * @param onLost called once for each loss that this process finds, or that another finds while it runs
   */
  constructor(key: string, waits: boolean, onLost: (found: FoundLoss) => void) {
    this.#key = key;
    this.#waits = waits;
    this.#onLost = onLost;
  }

  async look(connection: RedisConnection, facts: RedisFacts): Promise<void> {
    const send = (script: string, ...values: string[]) =>
      connection.send(this.#key, ['EVAL', script, '1', this.#key, ...values]);
    // It begins again where others find something meanwhile, until its connection is given up.
    for (;;) {
      // By the time when it asks: a thread that is busy reads the answer late.
      const askedAt = Date.now();
      const [text = '', secs, micros] = ((await send(READ)) as unknown[]).map(String);
      const at = Number(secs) * 1000 + Math.floor(Number(micros) / 1000);
      const look = { found: parseMark(text), facts, at, lead: askedAt - at, waits: this.#waits };
      const last = this.#last;
      const loss = lossOf(look, last);
      const mark = nextMark(look, loss, last, randomUUID());
      if ((await send(SWAP, text, textOf(mark))) !== 1) continue;
      // What others have found before this process began is old news.
      const isNews = loss !== 'none' || (last !== null && mark.lostAt !== last.mark.lostAt);
      this.#last = { mark, at };
      this.leadMs = look.lead;
      this.lostAt = secondsOf(mark, mark.lostAt);
      this.emptiedAt = secondsOf(mark, mark.emptiedAt);
      if (loss !== 'none') this.isFoundHere = true;
      else if (isNews || (last === null && mark.lostAt > 0)) this.isFoundHere = false;
      if (!isNews) return;
      const isAll = loss === 'none' ? mark.emptiedAt !== last?.mark.emptiedAt : loss === 'all';
      this.#onLost({ loss: isAll ? 'all' : 'last', isNewStore: look.found === null && last === null });
      return;
    }
  }
}
