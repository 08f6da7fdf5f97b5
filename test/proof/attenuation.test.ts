import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/protocol/json.js';
import { POLICY_MEMBERS, type LimitValue } from '../../src/protocol/policy.js';
import { findEscalation } from '../../src/verify/attenuation.js';
import { findViolation } from '../../src/verify/tools.js';
import {
  anyArgument,
  argumentOf,
  KINDS,
  PREFIX_LEMMAS,
  Resources,
  type Argument,
  type Kind,
} from './models.js';
import { openZ3, Problem, solve, type Formula, type Z3 } from './problem.js';

// Whatever a chain that verifies allows, each of its ancestors alone allows: proved by z3 for each row of the table of
// policy members, for any limits and any argument, from formulas that are compared with the code on every combination of
// some values.

let z3: Z3;
let close: () => void;
beforeAll(async () => {
  ({ z3, close } = await openZ3());
}, 60_000);
afterAll(() => close());

/** Values of every type; a kind is known by those that a member reads. */
const VALUES: readonly JsonValue[] = [
  ...[[], ['a'], ['a', 'b'], ['*'], ['*', 'a'], ['a/*'], ['a/b/*', 'a'], ['/*'], ['a*']],
  ...[0, 1.9e-6, 0.5, 1, 5, 1e9, 1e300, true, false],
];
const ARGUMENTS: readonly (JsonValue | undefined)[] = [
  ...[undefined, null, true, false, 0, 1e-7, 1e-6, 1.9e-6, 0.5, 1, 1e9, 2e9, 1e300, -1, [], ['a'], {}],
  ...['', 'a', 'b', '*', 'a/b', 'a/b/c', 'a/', 'ab', 'a/b/', '/'],
];

type Row = (typeof POLICY_MEMBERS)[number];
const valuesOf = ({ kind }: Row) => VALUES.filter((value) => kind.accepts(value));

/** One level of a chain, as far as one member goes. */
interface Level {
  readonly isPresent: Formula;
  readonly limit: never;
}

/** The formulas of a member: those of its kind, with what its row says. They mirror findEscalation and findViolation. */
class Member {
  readonly #kind: Kind<never>;
  readonly #row: Row;
  readonly #problem: Problem;

  constructor(row: Row, problem: Problem) {
    this.#row = row;
    this.#kind = KINDS[row.name];
    this.#problem = problem;
  }

  level(): Level {
    const isPresent = this.#problem.z3.Bool.const(this.#problem.name('isPresent'));
    return { isPresent, limit: this.#kind.any(this.#problem) };
  }

  levelOf(value: JsonValue | undefined): Level {
    const isPresent = z3.Bool.val(value !== undefined);
    return { isPresent, limit: this.#kind.of(this.#problem, value ?? valuesOf(this.#row)[0] ?? null) };
  }

  /** The child stays within its parent. */
  narrows(parent: Level, child: Level): Formula {
    return z3.Or(
      parent.isPresent.not(),
      this.#kind.isOpen(this.#problem, parent.limit),
      child.isPresent.and(this.#kind.contains(this.#problem, parent.limit, child.limit)),
      child.isPresent.not().and(this.#row.isInherited),
    );
  }

  /** The level, asked alone, lets the call pass. */
  allows({ isPresent, limit }: Level, argument: Argument): Formula {
    if (this.#row.argument === null) return z3.Bool.val(true);
    const { allows, isOpen } = this.#kind;
    return z3.Or(
      isPresent.not(),
      argument.isPresent.and(allows(this.#problem, limit, argument)),
      // What is not stated is refused.
      argument.isPresent.not().and(isOpen(this.#problem, limit)),
    );
  }

  refuses({ isPresent, limit }: Level, argument: Argument): Formula {
    if (this.#row.argument === null) return z3.Bool.val(false);
    const { refuses, isOpen } = this.#kind;
    return isPresent.and(
      z3.Or(
        argument.isPresent.and(refuses(this.#problem, limit, argument)),
        argument.isPresent.not().and(isOpen(this.#problem, limit).not()),
      ),
    );
  }

  isWellTyped(argument: Argument): Formula {
    return argument.isPresent.not().or(this.#kind.isWellTyped(this.#problem, argument));
  }
}

function pose(row: Row) {
  const problem = new Problem(z3);
  const member = new Member(row, problem);
  return { problem, member, argument: anyArgument(problem) };
}

describe.each(POLICY_MEMBERS)('$name', (row) => {
  it('is narrowed by a child that states it, for arguments of any type', () => {
    const { problem, member, argument } = pose(row);
    const [parent, child] = [member.level(), member.level()];
    problem.assume(child.isPresent, member.narrows(parent, child));
    problem.assume(member.allows(child, argument), member.refuses(parent, argument));
    expect(problem.check()).toBe('unsat');
  });

  it('is not widened by a child that leaves it out, unless the parent goes on being asked', () => {
    const { problem, member, argument } = pose(row);
    const [parent, child] = [member.level(), member.level()];
    problem.assume(child.isPresent.not(), member.narrows(parent, child));
    problem.assume(member.isWellTyped(argument), member.refuses(parent, argument));
    // What no call breaks is not got around by a call: block D asks every level how many receipts follow it.
    expect(problem.check()).toBe(row.isInherited && row.argument !== null ? 'sat' : 'unsat');
  });

  it('holds along a chain of three, whose levels are all asked', () => {
    for (const ancestor of [0, 1, 2] as const) {
      const { problem, member, argument } = pose(row);
      const levels = [member.level(), member.level(), member.level()] as const;
      problem.assume(member.narrows(levels[0], levels[1]), member.narrows(levels[1], levels[2]));
      problem.assume(...levels.map((level) => member.allows(level, argument)));
      problem.assume(member.refuses(levels[ancestor], argument));
      expect(problem.check()).toBe('unsat');
    }
  });

  // A limit that looks at no argument, a ceiling and a budget cannot be got around.
  if (row.argument !== null && !row.name.endsWith('_cost_usd'))
    it('would not hold if only the leaf were asked: z3 finds the way around', () => {
      const { problem, member, argument } = pose(row);
      const [parent, child] = [member.level(), member.level()];
      problem.assume(member.narrows(parent, child), member.allows(child, argument));
      problem.assume(member.refuses(parent, argument));
      expect(problem.check()).toBe('sat');
    });

  it('does in the code what the formulas say', () => {
    const values = [undefined, ...valuesOf(row)];
    const policyOf = (found: JsonValue | undefined) => {
      const value = found as LimitValue;
      const limits = found === undefined ? [] : [{ member: row, value, isOpen: row.kind.isOpen(value) }];
      return { limits, hasOtherMembers: false, policy: {} };
    };
    const right = new Problem(z3);
    const wrong = new Problem(z3);
    // None of the texts here has anything odd in it.
    const texts = [...new Set([...VALUES.flat(), ...ARGUMENTS])].filter((text) => typeof text === 'string');
    for (const problem of [right, wrong])
      for (const text of texts) Resources.of(problem).assumeOf(text, texts);
    const differences: Formula[] = [];
    const compare = (isSo: boolean, say: (member: Member, problem: Problem) => Formula) => {
      if (isSo) right.assume(say(new Member(row, right), right));
      else differences.push(say(new Member(row, wrong), wrong));
    };
    let count = 0;
    for (const parent of values) {
      for (const child of values) {
        count++;
        const isNarrower = findEscalation(policyOf(parent), policyOf(child)) === null;
        compare(isNarrower, (member) => member.narrows(member.levelOf(parent), member.levelOf(child)));
      }
      if (row.argument === null) continue;
      for (const claimed of ARGUMENTS) {
        count++;
        const args = claimed === undefined ? {} : { [row.argument]: claimed };
        const isAllowed = findViolation(policyOf(parent).limits, args) === null;
        compare(isAllowed, (member, problem) =>
          member.allows(member.levelOf(parent), argumentOf(problem, claimed)),
        );
        compare(!isAllowed, (member, problem) =>
          member.refuses(member.levelOf(parent), argumentOf(problem, claimed)),
        );
      }
    }
    expect(right.check()).toBe('sat');
    wrong.assume(z3.Or(...differences));
    expect(wrong.check()).toBe('unsat');
    expect(count).toBeGreaterThan(8);
  });
});

it('what a receipt asks a yes for, each receipt below it asks for, too', () => {
  const asked = KINDS.approve_tools as unknown as Kind<unknown>;
  for (const isNarrowed of [true, false]) {
    const problem = new Problem(z3);
    const argument = anyArgument(problem);
    const [parent, child] = [asked.any(problem), asked.any(problem)];
    if (isNarrowed) problem.assume(asked.contains(problem, parent, child));
    problem.assume(asked.refuses(problem, parent, argument), asked.allows(problem, child, argument));
    expect(problem.check()).toBe(isNarrowed ? 'unsat' : 'sat');
  }
});

it.each(Object.entries(PREFIX_LEMMAS))('%s', (_, pose) => {
  const problem = new Problem(z3);
  pose(problem);
  expect(problem.check()).toBe('unsat');
});

describe('what is no policy member', () => {
  const text = (word: string) => z3.String.const(word);
  it('a command that is below the child is below the parent', () => {
    // Where one of them is the same as the next, there is nothing to prove.
    const [parent, child, call] = [text('parent'), text('child'), text('call')];
    expect(
      solve(z3, [
        child.eq(parent.concat('/').concat(text('rest'))),
        call.eq(child.concat('/').concat(text('more'))),
        parent.concat('/').prefixOf(call).not(),
      ]),
    ).toBe('unsat');
  });

  it('a time inside the window of the child is inside that of the parent', () => {
    const number = (word: string) => z3.Int.const(word);
    const [now, skew, grace] = [number('now'), number('skew'), number('grace')];
    const level = (word: string) => ({
      nbf: number(`nbf of the ${word}`),
      exp: number(`exp of the ${word}`),
      isStanding: z3.Bool.const(`the ${word} is standing`),
    });
    const [parent, child] = [level('parent'), level('child')];
    const isInside = ({ nbf, exp, isStanding }: typeof parent) =>
      z3.And(now.ge(nbf.sub(skew)), isStanding.or(now.le(exp.add(grace))));
    const isWithin = z3.And(
      child.nbf.ge(parent.nbf),
      parent.isStanding.or(child.isStanding.not().and(child.exp.le(parent.exp))),
    );
    expect(solve(z3, [isWithin, isInside(child), isInside(parent).not()])).toBe('unsat');
  });
});
