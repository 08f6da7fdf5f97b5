import type { Arith } from 'z3-solver';
import type { JsonValue } from '../../src/protocol/json.js';
import type { KnownPolicyMember } from '../../src/protocol/policy.js';
import type { Formula, Problem, Text, TextList } from './problem.js';

/** An argument of a call: absent, or of one of the JSON types. Numbers are reals: doubles compare as those do. */
export interface Argument {
  readonly isPresent: Formula;
  readonly isText: Formula;
  readonly isNumber: Formula;
  readonly isBoolean: Formula;
  /** Of a number: whether a double holds it. */
  readonly isFinite: Formula;
  readonly text: Text;
  readonly number: Arith;
  readonly boolean: Formula;
}

export function anyArgument(problem: Problem): Argument {
  const { z3 } = problem;
  const flag = (word: string) => z3.Bool.const(problem.name(word));
  const [isText, isNumber, isBoolean] = [flag('isText'), flag('isNumber'), flag('isBoolean')];
  // Of one type at most; of none of them it is null, an array or an object.
  problem.assume(z3.AtMost([isText, isNumber, isBoolean], 1));
  return {
    isPresent: flag('isPresent'),
    isText,
    isNumber,
    isBoolean,
    isFinite: flag('isFinite'),
    text: z3.String.const(problem.name('text')),
    number: z3.Real.const(problem.name('number')),
    boolean: flag('boolean'),
  };
}

export function argumentOf({ z3 }: Problem, value: JsonValue | undefined): Argument {
  const is = (type: string) => z3.Bool.val(typeof value === type);
  const number = typeof value === 'number' && Number.isFinite(value) ? value : 0;
  return {
    isPresent: z3.Bool.val(value !== undefined),
    isText: is('string'),
    isNumber: is('number'),
    isBoolean: is('boolean'),
    isFinite: z3.Bool.val(Number.isFinite(value)),
    text: z3.String.val(typeof value === 'string' ? value : ''),
    number: z3.Real.val(number),
    boolean: z3.Bool.val(value === true),
  };
}

/** What the specification says of one kind of limit, as formulas without a negation in front of them. */
export interface Kind<L> {
  /** Any limit of this kind. */
  readonly any: (problem: Problem) => L;
  /** The limit with this value. */
  readonly of: (problem: Problem, value: JsonValue) => L;
  readonly isOpen: (problem: Problem, limit: L) => Formula;
  readonly allows: (problem: Problem, limit: L, argument: Argument) => Formula;
  readonly refuses: (problem: Problem, limit: L, argument: Argument) => Formula;
  readonly contains: (problem: Problem, parent: L, child: L) => Formula;
  /** Whether an argument has the type that such a limit is about. */
  readonly isWellTyped: (problem: Problem, argument: Argument) => Formula;
}

const textsOf = ({ z3 }: Problem, value: JsonValue): TextList => ({
  entries: (value as string[]).map((entry) => z3.String.val(entry)),
});
const star = ({ z3 }: Problem) => z3.String.val('*');

/** Names, `*` for any. */
const nameList: Kind<TextList> = {
  any: (problem) => problem.anyList(),
  of: textsOf,
  isOpen: (problem, list) => problem.contains(list, star(problem)),
  allows: (problem, list, { isText, text }) =>
    isText.and(problem.z3.Or(problem.contains(list, star(problem)), problem.contains(list, text))),
  refuses: (problem, list, { isText, text }) =>
    isText
      .not()
      .or(problem.z3.And(problem.contains(list, star(problem)).not(), problem.contains(list, text).not())),
  contains: (problem, parent, child) => problem.every(child, (name) => problem.contains(parent, name)),
  isWellTyped: (_, { isText }) => isText,
};

/**
 * What entries of lists of resources cover, by three relations that z3 need not look into: an entry is a `prefix/*`, a
 * text begins with such a prefix, a text is plain (nothing in it is a dot segment or the like). What holds between them
 * is assumed for all texts that a problem names; {@link PREFIX_LEMMAS} prove that it does.
 */
export class Resources {
  readonly #problem: Problem;
  readonly #texts = new Set<Text>();

  private constructor(problem: Problem) {
    this.#problem = problem;
  }

  static readonly #all = new WeakMap<Problem, Resources>();

  static of(problem: Problem): Resources {
    const resources = Resources.#all.get(problem) ?? new Resources(problem);
    Resources.#all.set(problem, resources);
    return resources;
  }

  covers(entry: Text, resource: Text): Formula {
    const { z3 } = this.#problem;
    for (const text of [entry, resource]) this.#name(text);
    return z3.Or(
      entry.eq(resource),
      entry.eq(z3.String.val('*')),
      z3.And(this.isPrefix(entry), this.begins(entry, resource), this.isPlain(resource)),
    );
  }

  isPrefix(entry: Text): Formula {
    return this.#relation('isPrefix', entry);
  }

  /** Whether a text begins with the `prefix/` of a `prefix/*`. */
  begins(entry: Text, text: Text): Formula {
    return this.#relation('begins', entry, text);
  }

  isPlain(text: Text): Formula {
    return this.#relation('isPlain', text);
  }

  /** The facts about a known text. */
  assumeOf(text: string, others: readonly string[]): void {
    const { z3 } = this.#problem;
    const value = (of: string) => z3.String.val(of);
    const isPrefix = text.endsWith('/*');
    this.#problem.assume(this.isPrefix(value(text)).eq(isPrefix), this.isPlain(value(text)));
    for (const other of isPrefix ? others : [])
      this.#problem.assume(this.begins(value(text), value(other)).eq(other.startsWith(text.slice(0, -1))));
  }

  #relation(word: string, ...texts: Text[]): Formula {
    const { z3 } = this.#problem;
    const sorts = texts.map(() => z3.String.sort());
    return z3.Function.declare(word, ...sorts, z3.Bool.sort()).call(...texts);
  }

  #name(text: Text): void {
    // For a literal, assumeOf states all facts.
    if (this.#texts.has(text) || text.sexpr().startsWith('"')) return;
    this.#texts.add(text);
    const star = this.#problem.z3.String.val('*');
    this.#problem.assume(this.isPrefix(text).and(this.begins(text, star)).not());
    const all = [...this.#texts];
    for (const one of all)
      for (const two of all)
        for (const three of all)
          if ([one, two, three].includes(text)) this.#assumeTransitive(one, two, three);
  }

  #assumeTransitive(above: Text, below: Text, text: Text): void {
    const arePrefixes = this.isPrefix(above).and(this.isPrefix(below));
    const isLine = this.begins(above, below).and(this.begins(below, text));
    this.#problem.assume(this.#problem.z3.Implies(arePrefixes.and(isLine), this.begins(above, text)));
  }
}

/** The proofs of these assumptions, for real texts. Each states the opposite, which must be refuted. */
export const PREFIX_LEMMAS: Readonly<Record<string, (problem: Problem) => void>> = {
  'no prefix/ begins *': (problem) => {
    const { z3 } = problem;
    const text = (word: string): Text => z3.String.const(word);
    problem.assume(z3.String.val('/').suffixOf(text('prefix')));
    problem.assume(z3.String.val('*').eq(text('prefix').concat(text('rest'))));
  },
  'where prefix/ begins below/*, it begins below/': (problem) => {
    const { z3 } = problem;
    const text = (word: string): Text => z3.String.const(word);
    const [prefix, below] = [text('prefix'), text('below')];
    problem.assume(z3.String.val('/').suffixOf(prefix), below.concat('*').eq(prefix.concat(text('rest'))));
    problem.assume(prefix.prefixOf(below).not());
  },
  'where prefix/ begins below/, it begins what that begins': (problem) => {
    const text = (word: string): Text => problem.z3.String.const(word);
    const [prefix, below, resource] = [text('prefix'), text('below'), text('resource')];
    problem.assume(below.eq(prefix.concat(text('rest'))), resource.eq(below.concat(text('more'))));
    problem.assume(prefix.prefixOf(resource).not());
  },
};

/** Resources, `prefix/*`, `*`. */
const resourceList: Kind<TextList> = {
  any: (problem) => problem.anyList(),
  of: textsOf,
  isOpen: (problem, list) => problem.contains(list, star(problem)),
  allows: (problem, list, { isText, text }) =>
    isText.and(problem.some(list, (entry) => Resources.of(problem).covers(entry, text))),
  refuses: (problem, list, { isText, text }) =>
    isText.not().or(problem.every(list, (entry) => Resources.of(problem).covers(entry, text).not())),
  contains: (problem, parent, child) =>
    problem.every(child, (resource) =>
      problem.some(parent, (entry) => Resources.of(problem).covers(entry, resource)),
    ),
  isWellTyped: (_, { isText }) => isText,
};

/** A number that must not be exceeded. */
const ceiling: Kind<Arith> = {
  any(problem) {
    const limit = problem.z3.Real.const(problem.name('limit'));
    problem.assume(limit.ge(0));
    return limit;
  },
  of: ({ z3 }, value) => z3.Real.val(value as number),
  isOpen: ({ z3 }) => z3.Bool.val(false),
  allows: ({ z3 }, limit, { isNumber, isFinite, number }) =>
    z3.And(isNumber, isFinite, number.ge(0), number.le(limit)),
  refuses: ({ z3 }, limit, { isNumber, isFinite, number }) =>
    z3.Not(z3.And(isNumber, isFinite, number.ge(0), number.le(limit))),
  contains: (_, parent, child) => child.le(parent),
  isWellTyped: ({ z3 }, { isNumber, isFinite, number }) => z3.And(isNumber, isFinite, number.ge(0)),
};

/** An amount of money that all calls together must not exceed, in dollars. What is compared are micro-dollars. */
const budget: Kind<Arith> = {
  ...ceiling,
  allows: (problem, limit, argument) => isWithinBudget(problem, limit, argument),
  refuses: (problem, limit, argument) => problem.z3.Not(isWithinBudget(problem, limit, argument)),
  isWellTyped: (problem, argument) => isMoney(problem, argument),
};

function isMoney({ z3 }: Problem, { isNumber, isFinite, number }: Argument): Formula {
  return z3.And(isNumber, isFinite, number.ge(0), number.le(1_000_000_000));
}

function isWithinBudget(problem: Problem, limit: Arith, argument: Argument): Formula {
  const { z3 } = problem;
  const down = (dollars: Arith) => z3.ToInt(dollars.mul(1_000_000));
  const up = (dollars: Arith) => down(dollars.neg()).neg();
  return isMoney(problem, argument).and(up(argument.number).le(down(limit)));
}

/** A permission, which `false` denies. */
const permission: Kind<Formula> = {
  any: (problem) => problem.z3.Bool.const(problem.name('permission')),
  of: ({ z3 }, value) => z3.Bool.val(value === true),
  isOpen: (_, value) => value,
  allows: (_, value, { isBoolean, boolean }) => value.or(isBoolean.and(boolean.not())),
  refuses: (_, value, { isBoolean, boolean }) => value.not().and(isBoolean.and(boolean.not()).not()),
  // Only evaluated if the parent denies.
  contains: (_, _parent, child) => child.not(),
  isWellTyped: (_, { isBoolean }) => isBoolean,
};

/** Names of tools whose calls wait for a yes. What needs none is allowed. */
const askedList: Kind<TextList> = {
  any: (problem) => problem.anyList(),
  of: textsOf,
  isOpen: (problem, list) => problem.every(list, () => problem.z3.Bool.val(false)),
  allows: (problem, list, { isText, text }) =>
    problem.z3.Or(
      askedList.isOpen(problem, list),
      problem.z3.And(isText, problem.contains(list, star(problem)).not(), problem.contains(list, text).not()),
    ),
  refuses: (problem, list, { isText, text }) =>
    problem.z3.Or(
      problem.z3.And(
        isText.not(),
        problem.some(list, () => problem.z3.Bool.val(true)),
      ),
      problem.z3.And(
        isText,
        problem.z3.Or(problem.contains(list, star(problem)), problem.contains(list, text)),
      ),
    ),
  contains: (problem, parent, child) => problem.every(parent, (name) => problem.contains(child, name)),
  isWellTyped: (_, { isText }) => isText,
};

/** The model of each member. */
export const KINDS: Readonly<Record<KnownPolicyMember, Kind<never>>> = {
  allowed_tools: nameList as unknown as Kind<never>,
  max_cost_usd: ceiling as unknown as Kind<never>,
  max_total_cost_usd: budget as unknown as Kind<never>,
  max_calls: ceiling as unknown as Kind<never>,
  max_delegations: ceiling as unknown as Kind<never>,
  pii_access: permission as unknown as Kind<never>,
  write_access: permission as unknown as Kind<never>,
  allowed_resources: resourceList as unknown as Kind<never>,
  allowed_data_classes: nameList as unknown as Kind<never>,
  approve_tools: askedList as unknown as Kind<never>,
};
