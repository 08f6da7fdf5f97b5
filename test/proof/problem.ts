import {
  init,
  type Bool,
  type Context,
  type FuncDecl,
  type Seq,
  type SeqSort,
  type Solver,
  type BoolSort,
} from 'z3-solver';

/** Formulas for z3, and the little more that lists of texts need. */

export type Formula = Bool;
export type Text = Seq;
export type Z3 = Context;

/** The part of z3's WebAssembly that is called past its API. */
interface Wasm {
  readonly PThread: { terminateAllThreads(): void };
  _Z3_solver_check(context: Context['ptr'], solver: Solver['ptr']): -1 | 0 | 1;
}

let wasm: Wasm;

/** Starts z3; ends its threads with `close`. */
export async function openZ3(): Promise<{ z3: Z3; close: () => void }> {
  const api = await init();
  wasm = api.em as Wasm;
  return { z3: api.Context('main'), close: () => wasm.PThread.terminateAllThreads() };
}

/**
 * Whether hypotheses can all hold, found on this thread. `Solver.check` uses another one, while garbage collection may free
 * formulas of the same context on this one, which z3 does not allow: once, it waited for the lock of its memory for ever.
 */
export function solve(z3: Z3, hypotheses: readonly Formula[]): 'unsat' | 'unknown' | 'sat' {
  const solver = new z3.Solver();
  solver.add(...hypotheses);
  const found = wasm._Z3_solver_check(z3.ptr, solver.ptr);
  if (found === 0) return 'unknown';
  return found < 0 ? 'unsat' : 'sat';
}

/** A list of texts: one of unknown entries (`has` tells which), or exactly these entries. */
export type TextList =
  { readonly has: FuncDecl<'main', [SeqSort], BoolSort> } | { readonly entries: readonly Text[] };

type Claim = (entry: Text) => Formula;

/**
 * Hypotheses that are to be refuted. Over a list that can be any, `some` names a witness, and `every` is applied to all
 * texts that were named for that list: fewer hypotheses than there are, so what is refuted is refuted. z3 gives up on
 * quantifiers over texts.
 *
 * Both are for places without a negation in front of them.
 */
export class Problem {
  readonly z3: Z3;
  readonly #hypotheses: Formula[] = [];
  readonly #named = new Map<TextList, Text[]>();
  readonly #general: { list: TextList; guard: Formula; claim: Claim; applied: number }[] = [];
  #serial = 0;

  constructor(z3: Z3) {
    this.z3 = z3;
  }

  name(word: string): string {
    return `${word}${this.#serial++}`;
  }

  anyList(): TextList {
    const { z3 } = this;
    return { has: z3.Function.declare(this.name('list'), z3.String.sort(), z3.Bool.sort()) };
  }

  contains(list: TextList, text: Text): Formula {
    if ('entries' in list)
      return this.z3.Or(this.z3.Bool.val(false), ...list.entries.map((entry) => entry.eq(text)));
    this.#nameFor(list, text);
    return list.has.call(text);
  }

  some(list: TextList, claim: Claim): Formula {
    const { z3 } = this;
    if ('entries' in list) return z3.Or(z3.Bool.val(false), ...list.entries.map(claim));
    const witness = z3.String.const(this.name('witness'));
    this.#nameFor(list, witness);
    return z3.And(list.has.call(witness), claim(witness));
  }

  every(list: TextList, claim: Claim): Formula {
    const { z3 } = this;
    if ('entries' in list) return z3.And(z3.Bool.val(true), ...list.entries.map(claim));
    const guard = z3.Bool.const(this.name('every'));
    this.#general.push({ list, guard, claim, applied: 0 });
    return guard;
  }

  assume(...hypotheses: Formula[]): void {
    this.#hypotheses.push(...hypotheses);
  }

  /** `unsat` where the hypotheses cannot all hold. */
  check(): string {
    // A claim about every entry may name witnesses for another list, to which that one's claims are applied in turn.
    for (let isDone = false, round = 0; !isDone && round < 4; round++) {
      isDone = true;
      for (const one of this.#general) {
        const named = this.#named.get(one.list) ?? [];
        for (const text of named.slice(one.applied)) {
          isDone = false;
          if (!('has' in one.list)) continue;
          this.assume(this.z3.Implies(one.guard.and(one.list.has.call(text)), one.claim(text)));
        }
        one.applied = named.length;
      }
    }
    return solve(this.z3, this.#hypotheses);
  }

  #nameFor(list: TextList, text: Text): void {
    const named = this.#named.get(list) ?? [];
    this.#named.set(list, named);
    if (!named.includes(text)) named.push(text);
  }
}
