import { randomBytes } from 'node:crypto';
import type { Reading } from '../protocol/options.js';
import type { Approver, Approvers } from '../verify/approval.js';
import { challengeOf, nameOf, statementOf, type Call } from './statement.js';
import { checkAssertion, type Assertion } from './webauthn.js';

const OPEN_SECS = 86_400;
/** For how long a yes can be used, and for how long a no holds. */
const ANSWER_SECS = 600;

const MAX_OF_AGENT = 10;
const MAX_OF_ROOT = 50;
const MAX_QUESTIONS = 10_000;
const MAX_BYTES = 64 * 1024 * 1024;
/** What a question takes beside its statement, and a yes beside what was signed: objects, names, places in maps. */
const OVERHEAD_BYTES = 1024;

/** A yes, with all that proves it. */
export interface Yes {
  readonly approver: Approver;
  /** Unix seconds. */
  readonly at: number;
  /** Of the passkey's signatures: one that does not grow can be that of a copy. */
  readonly counter: number;
  readonly assertion: Assertion;
}

/** What somebody is asked. Only {@link Questions} changes it. */
export interface Question {
  readonly handle: string;
  readonly root: string;
  /** The bytes whose digest a passkey signs. */
  readonly statement: Uint8Array;
  /** When it is no longer asked, or its answer no longer holds, in Unix seconds. */
  readonly end: number;
}

interface Held extends Question {
  readonly name: string;
  readonly agent: string;
  /** By credential. */
  readonly yeses: Map<string, Yes>;
  end: number;
  bytes: number;
  /** `taken`: a call has its yes, and is not decided yet. */
  state: 'asked' | 'taken' | 'used' | 'denied';
}

/** What becomes of a call that needs a yes. */
export type Asked =
  | {
      readonly kind: 'yes';
      readonly statement: Uint8Array;
      readonly yeses: readonly Yes[];
      /** Must be called when the call is decided. One that is refused gives its yes back. */
      readonly decided: (isUsed: boolean) => void;
    }
  | { readonly kind: 'asked' | 'denied'; readonly handle: string; readonly end: number }
  /** Nobody is asked. */
  | { readonly kind: 'refused'; readonly problem: string };

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

/**
 * The questions of one instance, in its memory, and their answers. See docs/spec/approval.md. Nothing in it waits, so no other
 * call comes between a check and a change.
 */
export class Questions {
  readonly #clock: () => number;
  readonly #byHandle = new Map<string, Held>();
  readonly #byName = new Map<string, Held>();
  /** How many there are of each agent and root. */
  readonly #agents = new Map<string, number>();
  readonly #roots = new Map<string, number>();
  #bytes = 0;
  #sweptAt = -Infinity;

  /** @param clock gives Unix seconds that never go back */
  constructor(clock = steadyClock()) {
    this.#clock = clock;
  }

  /** How many there are, and the bytes that they take. */
  get size(): { readonly questions: number; readonly bytes: number } {
    return { questions: this.#byHandle.size, bytes: this.#bytes };
  }

  /** Takes the yes to a call, or asks for one. Call it when nothing else refuses the call. */
  ask(call: Call, who: Approvers): Asked {
    const now = this.#now();
    const name = nameOf(call);
    const known = this.#byName.get(name);
    if (known === undefined) return this.#open(call, name, now);
    const { handle, end, state } = known;
    if (state === 'denied') return { kind: 'denied', handle, end };
    const yeses = yesesOf(known, who);
    if (state === 'taken' || missing(yeses, who) > 0) return { kind: 'asked', handle, end };
    // Fewer are needed than when it was said.
    if (Math.max(...yeses.map(({ at }) => at)) + ANSWER_SECS <= now) {
      this.#drop(known);
      return this.#open(call, name, now);
    }
    known.state = 'taken';
    return {
      kind: 'yes',
      statement: known.statement,
      yeses,
      decided: (isUsed) => {
        // Only once, and not after a no, which stays.
        if (known.state !== 'taken') return;
        if (isUsed) this.#drop(known);
        known.state = isUsed ? 'used' : 'asked';
      },
    };
  }

  /** @returns `null` if it is unknown, or over */
  get(handle: string): Question | null {
    this.#now();
    return this.#byHandle.get(handle) ?? null;
  }

  /**
   * Takes what a passkey has signed.
   *
   * @param credential the id of the passkey
   * @param who may say yes now
   * @returns how many persons are still missing, or why it is no yes
   */
  approve(handle: string, credential: string, assertion: Assertion, who: Approvers): Reading<number> {
    const now = this.#now();
    const question = this.#byHandle.get(handle);
    if (question === undefined) return { problem: 'there is no such question, or it is over' };
    if (question.state === 'denied') return { problem: 'somebody said no' };
    const approver = who.approvers.find(({ id }) => id === credential);
    if (approver === undefined) return { problem: 'this passkey is not one of an approver' };
    const known = yesesOf(question, who);
    // A second one changes nothing: sent again and again, it would make a yes last.
    if (known.some((yes) => yes.approver.id === credential)) return { value: missing(known, who) };
    const checked = checkAssertion(assertion, approver, challengeOf(question.statement));
    if ('problem' in checked) return checked;
    const { clientDataJSON, authenticatorData, signature } = assertion;
    question.yeses.set(credential, { approver, at: now, counter: checked.value, assertion });
    this.#grow(
      question,
      OVERHEAD_BYTES + clientDataJSON.length + authenticatorData.length + signature.length,
    );
    const left = missing(yesesOf(question, who), who);
    if (left === 0) question.end = now + ANSWER_SECS;
    return { value: left };
  }

  /** Takes a no, which anybody with the link can say. @returns whether there is such a question */
  deny(handle: string): boolean {
    const now = this.#now();
    const question = this.#byHandle.get(handle);
    if (question === undefined) return false;
    // Said again, it does not hold longer.
    if (question.state !== 'denied') question.end = now + ANSWER_SECS;
    question.state = 'denied';
    return true;
  }

  #open(call: Call, name: string, now: number): Asked {
    const { agent, root } = call;
    const full = (whose: string, max: number) =>
      ({ kind: 'refused', problem: `${max} questions of this ${whose} wait for an answer` }) as const;
    if ((this.#agents.get(agent) ?? 0) >= MAX_OF_AGENT) return full('agent', MAX_OF_AGENT);
    if ((this.#roots.get(root) ?? 0) >= MAX_OF_ROOT) return full('principal', MAX_OF_ROOT);
    const handle = randomBytes(16).toString('base64url');
    const statement = statementOf(call, now, handle);
    if (statement === null)
      return { kind: 'refused', problem: 'it is larger than a statement can be (64 KiB)' };
    const bytes = OVERHEAD_BYTES + statement.length;
    if (this.#byHandle.size >= MAX_QUESTIONS || this.#bytes + bytes > MAX_BYTES)
      return { kind: 'refused', problem: 'there is no room for another question here' };
    const end = now + OPEN_SECS;
    const held: Held = {
      handle,
      root,
      statement,
      end,
      name,
      agent,
      yeses: new Map(),
      bytes: 0,
      state: 'asked',
    };
    this.#grow(held, bytes);
    this.#byHandle.set(handle, held);
    this.#byName.set(name, held);
    count(this.#agents, agent, 1);
    count(this.#roots, root, 1);
    return { kind: 'asked', handle, end };
  }

  /** The time. What is over is dropped in the first call of a second: at most 10,000 are looked at. */
  #now(): number {
    const now = this.#clock();
    if (now > this.#sweptAt)
      for (const question of this.#byHandle.values()) if (question.end <= now) this.#drop(question);
    this.#sweptAt = now;
    return now;
  }

  #grow(question: Held, bytes: number): void {
    question.bytes += bytes;
    this.#bytes += bytes;
  }

  #drop(question: Held): void {
    if (!this.#byHandle.delete(question.handle)) return;
    this.#byName.delete(question.name);
    this.#bytes -= question.bytes;
    count(this.#agents, question.agent, -1);
    count(this.#roots, question.root, -1);
  }
}

/** Those that count: of approvers who are in the entry, unchanged. */
function yesesOf({ yeses }: Held, { approvers }: Approvers): Yes[] {
  const now = new Set(approvers.map((approver) => JSON.stringify(approver)));
  return [...yeses.values()].filter(({ approver }) => now.has(JSON.stringify(approver)));
}

function missing(yeses: readonly Yes[], { needed }: Approvers): number {
  return Math.max(0, needed - new Set(yeses.map(({ approver }) => approver.name)).size);
}

function count(counts: Map<string, number>, of: string, step: number): void {
  const now = (counts.get(of) ?? 0) + step;
  if (now === 0) counts.delete(of);
  else counts.set(of, now);
}
