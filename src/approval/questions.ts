import type { Reading } from '../protocol/options.js';
import type { Approvers } from '../verify/approval.js';
import type { ApprovalEvent } from './events.js';
import { nameOf, type Call } from './statement.js';
import { approving, asking, denying, told, type Asked, type Question, type Step } from './steps.js';
import type { Assertion } from './webauthn.js';

export type { Asked } from './steps.js';

export const MAX_OF_AGENT = 10;
export const MAX_OF_ROOT = 50;
export const MAX_QUESTIONS = 10_000;
export const MAX_BYTES = 64 * 1024 * 1024;
/** What a question takes beside its statement, and a yes: objects, names, places in maps. */
const OVERHEAD_BYTES = 1024;

export const FULL = {
  agent: `${MAX_OF_AGENT} questions of this agent wait for an answer`,
  root: `${MAX_OF_ROOT} questions of this principal wait for an answer`,
  all: 'there is no room for another question here',
};

/** What a gate asks persons, and their answers: of one instance, or of all. See docs/spec/approval.md. */
export interface QuestionStore {
  /**
   * Takes the yes to a call, or asks for one. Call it when nothing else refuses the call.
   *
   * @param receiptsOf gives the claims of its receipts, root first
   */
  ask(call: Call, who: Approvers, receiptsOf?: () => unknown): Asked | Promise<Asked>;
  /** @returns `null` if it is unknown, or over */
  get(handle: string): Question | null | Promise<Question | null>;
  /** Takes what a passkey has signed: see {@link approving}. */
  approve(
    handle: string,
    credential: string,
    assertion: Assertion,
    who: Approvers,
  ): Reading<number> | Promise<Reading<number>>;
  /** Takes a no. @returns whether there is such a question */
  deny(handle: string): boolean | Promise<boolean>;
  /** How many there are, also answered ones; of a shared store, when it was last asked. */
  readonly open: number;
  close(): void;
}

export interface QuestionOptions {
  /** Seconds for which a question is open. */
  readonly openSecs?: number;
  readonly onEvent?: (event: ApprovalEvent) => void;
}

/**
 * Unix seconds that never go back, so that nothing lasts longer when somebody sets the clock; they go on while the machine
 * sleeps.
 *
 * @param steady milliseconds of a clock that nobody sets
 */
export function steadyClock(wall = Date.now, steady = () => performance.now()): () => number {
  let ahead = -Infinity;
  return () => {
    const since = steady();
    ahead = Math.max(ahead, wall() - since);
    return Math.floor((since + ahead) / 1000);
  };
}

/** What a question takes in memory. */
export const bytesOf = ({ statement, receipts, yeses }: Question): number =>
  OVERHEAD_BYTES * (1 + yeses.length) + statement.length + receipts.length;

/** The questions of one instance, in its memory. Nothing in it waits, so no other call comes between a check and a change. */
export class Questions implements QuestionStore {
  readonly #clock: () => number;
  readonly #options: Required<QuestionOptions>;
  readonly #byHandle = new Map<string, Question>();
  readonly #byName = new Map<string, Question>();
  /** How many there are of each agent and root. */
  readonly #agents = new Map<string, number>();
  readonly #roots = new Map<string, number>();
  #bytes = 0;
  #sweptAt = -Infinity;

  /** @param clock gives Unix seconds that never go back */
  constructor(clock = steadyClock(), { openSecs = 86_400, onEvent = () => {} }: QuestionOptions = {}) {
    this.#clock = clock;
    this.#options = { openSecs, onEvent };
  }

  get open(): number {
    return this.#byHandle.size;
  }

  /** How many there are, and the bytes that they take. */
  get size(): { readonly questions: number; readonly bytes: number } {
    return { questions: this.#byHandle.size, bytes: this.#bytes };
  }

  ask(call: Call, who: Approvers, receiptsOf: () => unknown = () => []): Asked {
    const { openSecs } = this.#options;
    const decide = (handle: string, step: Step<void>) => this.#change(() => this.#byHandle.get(handle), step);
    const step = asking(call, { who, receiptsOf, openSecs, decide });
    const name = nameOf(call);
    return this.#change(
      () => this.#byName.get(name),
      step,
      (problem) => ({ kind: 'refused', problem }),
    );
  }

  get(handle: string): Question | null {
    this.#now();
    return this.#byHandle.get(handle) ?? null;
  }

  approve(handle: string, credential: string, assertion: Assertion, who: Approvers): Reading<number> {
    return this.#change(() => this.#byHandle.get(handle), approving(credential, assertion, who));
  }

  deny(handle: string): boolean {
    return this.#change(() => this.#byHandle.get(handle), denying);
  }

  close(): void {}

  #change<T>(find: () => Question | undefined, step: Step<T>, ifFull?: (problem: string) => T): T {
    const now = this.#now();
    const known = find() ?? null;
    const { next, result, event } = step(known, now);
    const problem = known === null && next !== null ? this.#fullFor(next) : null;
    if (problem !== null && ifFull !== undefined) return ifFull(problem);
    if (next !== known) {
      if (known !== null) this.#drop(known);
      if (next !== null) this.#add(next);
    }
    if (event !== undefined) this.#options.onEvent(event);
    return result;
  }

  #fullFor(question: Question): string | null {
    const { agent, root } = question;
    if ((this.#agents.get(agent) ?? 0) >= MAX_OF_AGENT) return FULL.agent;
    if ((this.#roots.get(root) ?? 0) >= MAX_OF_ROOT) return FULL.root;
    const isFull = this.#byHandle.size >= MAX_QUESTIONS || this.#bytes + bytesOf(question) > MAX_BYTES;
    return isFull ? FULL.all : null;
  }

  /** The time. What is over is dropped in the first call of a second: at most 10,000 are looked at. */
  #now(): number {
    const now = this.#clock();
    if (now > this.#sweptAt)
      for (const question of this.#byHandle.values())
        if (question.end <= now) {
          this.#drop(question);
          if (question.state !== 'denied') this.#options.onEvent({ ...told(question), kind: 'expired' });
        }
    this.#sweptAt = now;
    return now;
  }

  #add(question: Question): void {
    this.#byHandle.set(question.handle, question);
    this.#byName.set(question.name, question);
    this.#bytes += bytesOf(question);
    count(this.#agents, question.agent, 1);
    count(this.#roots, question.root, 1);
  }

  #drop(question: Question): void {
    this.#byHandle.delete(question.handle);
    this.#byName.delete(question.name);
    this.#bytes -= bytesOf(question);
    count(this.#agents, question.agent, -1);
    count(this.#roots, question.root, -1);
  }
}

function count(counts: Map<string, number>, of: string, step: number): void {
  const now = (counts.get(of) ?? 0) + step;
  if (now === 0) counts.delete(of);
  else counts.set(of, now);
}
