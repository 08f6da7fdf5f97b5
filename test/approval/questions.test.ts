import { describe, expect, it } from 'vitest';
import type { ApprovalEvent } from '../../src/approval/events.js';
import { Questions, steadyClock, type Asked } from '../../src/approval/questions.js';
import { challengeOf, type Call } from '../../src/approval/statement.js';
import type { Approvers } from '../../src/verify/approval.js';
import { Passkey } from './passkey.js';

const CALL: Call = {
  tool_server: 'https://bank',
  root: 'did:key:root',
  agent: 'did:key:agent',
  command: '/mcp/tools/call',
  args: { tool: 'transfer', amount: 50 },
  leaf: `sha256:${'0'.repeat(64)}`,
};
const call = (amount: number, overrides: Partial<Call> = {}): Call => ({
  ...CALL,
  args: { ...CALL.args, amount },
  ...overrides,
});

const alice = new Passkey();
const phone = new Passkey('P-256');
const bob = new Passkey('P-256', { name: 'Bob' });
const by = (needed: number, ...passkeys: Passkey[]): Approvers => ({
  needed,
  approvers: passkeys.map(({ approver }) => approver),
});
const one = by(1, alice);
const two = by(2, alice, phone, bob);

const START = 1_700_000_000;
function questionsAt(start = START) {
  const clock = { now: start };
  const questions = new Questions(() => clock.now);
  const handleOf = (asked: Asked) => ('handle' in asked ? asked.handle : '');
  const ask = (what = CALL, who = one) => questions.ask(what, who);
  const sign = (handle: string, passkey = alice) =>
    passkey.assert(challengeOf(questions.get(handle)?.statement ?? Buffer.alloc(0)));
  const yes = (handle: string, passkey = alice, who = one) =>
    questions.approve(handle, passkey.approver.id, sign(handle, passkey), who);
  return { clock, questions, ask, sign, yes, handleOf };
}

describe('a question', () => {
  it('is asked once: the same call gets the same handle, of 128 random bits', () => {
    const { questions, ask, handleOf } = questionsAt();
    const asked = ask();
    expect(asked).toEqual({
      kind: 'asked',
      handle: expect.stringMatching(/^[\w-]{22}$/) as unknown,
      end: START + 86_400,
    });
    expect(ask()).toEqual(asked);
    expect(handleOf(ask(call(51)))).not.toBe(handleOf(asked));
    expect(questions.size.questions).toBe(2);
    const statement = JSON.parse(
      Buffer.from(questions.get(handleOf(asked))?.statement ?? []).toString(),
    ) as object;
    expect(statement).toEqual({ v: 1, ...CALL, requested_at: START, handle: handleOf(asked) });
  });

  it('is open for a day', () => {
    const { clock, questions, ask, yes, handleOf } = questionsAt();
    const handle = handleOf(ask());
    clock.now += 86_399;
    expect(handleOf(ask())).toBe(handle);
    clock.now += 1;
    expect(questions.get(handle)).toBeNull();
    expect(yes(handle)).toEqual({ problem: 'there is no such question, or it is over' });
    expect(questions.deny(handle)).toBe(false);
    expect(handleOf(ask())).not.toBe(handle);
  });
});

describe('a yes', () => {
  it('serves one call, and then it is asked again', () => {
    const { ask, yes, questions, handleOf } = questionsAt();
    const handle = handleOf(ask());
    expect(yes(handle)).toEqual({ value: 0 });
    expect(ask(call(51)).kind).toBe('asked');
    const taken = ask();
    expect(taken).toMatchObject({ kind: 'yes', yeses: [{ approver: alice.approver, at: START }] });
    if (taken.kind === 'yes') taken.decided(true);
    expect(questions.get(handle)).toBeNull();
    expect(handleOf(ask())).not.toBe(handle);
  });

  it('goes to one of two racing calls', () => {
    const { ask, yes, handleOf } = questionsAt();
    const handle = handleOf(ask());
    yes(handle);
    const [first, second] = [ask(), ask()];
    expect([first.kind, second.kind, handleOf(second)]).toEqual(['yes', 'asked', handle]);
    if (first.kind === 'yes') first.decided(true);
    expect(ask()).toMatchObject({ kind: 'asked', handle: expect.not.stringMatching(handle) as unknown });
  });

  it('comes back from a call that is refused, once', () => {
    const { ask, yes, handleOf } = questionsAt();
    yes(handleOf(ask()));
    const refused = ask();
    if (refused.kind === 'yes') refused.decided(false);
    const allowed = ask();
    if (allowed.kind === 'yes') allowed.decided(true);
    expect([refused.kind, allowed.kind, ask().kind]).toEqual(['yes', 'yes', 'asked']);
    // Said twice, a refusal brings nothing back.
    if (refused.kind === 'yes') refused.decided(false);
    expect(ask().kind).toBe('asked');
  });

  it('can be used for ten minutes, also if it is sent again', () => {
    const { clock, ask, yes, sign, questions, handleOf } = questionsAt();
    const handle = handleOf(ask());
    clock.now += 80_000;
    const assertion = sign(handle);
    const { id } = alice.approver;
    expect(questions.approve(handle, id, assertion, one)).toEqual({ value: 0 });
    clock.now += 599;
    expect(questions.approve(handle, id, assertion, one)).toEqual({ value: 0 });
    expect(yes(handle)).toEqual({ value: 0 });
    const taken = ask();
    expect(taken.kind).toBe('yes');
    if (taken.kind === 'yes') taken.decided(false);
    clock.now += 1;
    expect(ask().kind).toBe('asked');
    expect(questions.approve(handle, id, assertion, one)).toHaveProperty('problem');
  });

  it('is for its own question: an assertion for another handle or call is refused', () => {
    const { ask, sign, questions, handleOf } = questionsAt();
    const [first, second] = [handleOf(ask()), handleOf(ask(call(51)))];
    const elsewhere = questionsAt();
    const { id } = alice.approver;
    for (const [handle, assertion] of [
      [first, sign(second)],
      [first, elsewhere.sign(elsewhere.handleOf(elsewhere.ask()))],
    ] as const)
      expect(questions.approve(handle, id, assertion, one)).toEqual({
        problem: expect.stringMatching(/^challenge is/) as unknown,
      });
    expect(ask().kind).toBe('asked');
  });

  it('is that of an approver', () => {
    const { ask, sign, yes, questions, handleOf } = questionsAt();
    const handle = handleOf(ask());
    expect(yes(handle, bob)).toEqual({ problem: 'this passkey is not one of an approver' });
    // The id of one, the key of another.
    expect(questions.approve(handle, alice.approver.id, sign(handle, bob), one)).toEqual({
      problem: 'the signature is not one of this passkey',
    });
    expect(ask().kind).toBe('asked');
  });

  it('does not count when its approver is withdrawn, or changed, before the call', () => {
    const { ask, yes, handleOf } = questionsAt();
    yes(handleOf(ask()));
    const { approver } = alice;
    for (const changed of [
      by(1, bob),
      { needed: 1, approvers: [{ ...approver, key: bob.approver.key }] },
      { needed: 1, approvers: [{ ...approver, origin: 'https://drs.example:1' }] },
      { needed: 1, approvers: [{ ...approver, name: 'Mallory' }] },
      by(2, alice, bob),
    ])
      expect(ask(CALL, changed).kind).toBe('asked');
    expect(ask(CALL, { needed: 1, approvers: [structuredClone(approver)] }).kind).toBe('yes');
  });
});

describe('four eyes', () => {
  it('are those of two persons, not of two passkeys', () => {
    const { clock, ask, yes, handleOf } = questionsAt();
    const handle = handleOf(ask(CALL, two));
    expect(yes(handle, alice, two)).toEqual({ value: 1 });
    expect(yes(handle, phone, two)).toEqual({ value: 1 });
    expect(ask(CALL, two).kind).toBe('asked');
    // The first may be hours old.
    clock.now += 7200;
    expect(yes(handle, bob, two)).toEqual({ value: 0 });
    clock.now += 599;
    const taken = ask(CALL, two);
    expect(taken.kind === 'yes' && taken.yeses.map(({ approver }) => approver.name)).toEqual([
      'Alice',
      'Alice',
      'Bob',
    ]);
  });

  it('become two when the operator says so; the old yes does not last', () => {
    const { clock, ask, yes, handleOf } = questionsAt();
    const handle = handleOf(ask(CALL, two));
    yes(handle, alice, two);
    clock.now += 599;
    expect(ask(CALL, one)).toMatchObject({ kind: 'yes' });
    const other = questionsAt();
    const stale = other.handleOf(other.ask(CALL, two));
    other.yes(stale, alice, two);
    other.clock.now += 600;
    expect(other.ask(CALL, one)).toMatchObject({
      kind: 'asked',
      handle: expect.not.stringMatching(stale) as unknown,
    });
  });
});

describe('a no', () => {
  it('holds for ten minutes, whatever is said after it', () => {
    const { clock, ask, yes, questions, handleOf } = questionsAt();
    const handle = handleOf(ask());
    clock.now += 80_000;
    expect(questions.deny(handle)).toBe(true);
    const denied = { kind: 'denied', handle, end: clock.now + 600 };
    expect(ask()).toEqual(denied);
    clock.now += 599;
    questions.deny(handle);
    expect(yes(handle)).toEqual({ problem: 'somebody said no' });
    expect(ask()).toEqual(denied);
    expect(ask(call(51)).kind).toBe('asked');
    clock.now += 1;
    expect(ask().kind).toBe('asked');
  });

  it('takes a yes back that is not used, also of a call that is being decided', () => {
    const { ask, yes, questions, handleOf } = questionsAt();
    const handle = handleOf(ask());
    yes(handle);
    const taken = ask();
    questions.deny(handle);
    for (const isUsed of [true, false]) {
      if (taken.kind === 'yes') taken.decided(isUsed);
      expect(ask().kind).toBe('denied');
    }
  });
});

describe('bounds', () => {
  const problem = (asked: Asked) => (asked.kind === 'refused' ? asked.problem : asked.kind);

  it('are 10 questions of an agent, with those that have an answer', () => {
    const { clock, ask, yes, questions, handleOf } = questionsAt();
    const handles = Array.from({ length: 10 }, (_, at) => handleOf(ask(call(at))));
    yes(handles[0] as string);
    questions.deny(handles[1] as string);
    const full = '10 questions of this agent wait for an answer';
    expect(problem(ask(call(10)))).toBe(full);
    expect(ask(call(5)).kind).toBe('asked');
    expect(problem(ask(call(10, { root: 'did:key:other' })))).toBe(full);
    expect(ask(call(10, { agent: 'did:key:other' })).kind).toBe('asked');
    clock.now += 600;
    expect([ask(call(10)).kind, ask(call(11)).kind, problem(ask(call(12)))]).toEqual([
      'asked',
      'asked',
      full,
    ]);
  });

  it('are 50 questions of a root', () => {
    const { ask } = questionsAt();
    for (let at = 0; at < 50; at++) expect(ask(call(at, { agent: `a${at % 25}` })).kind).toBe('asked');
    expect(problem(ask(call(50, { agent: 'b' })))).toBe('50 questions of this principal wait for an answer');
    expect(ask(call(50, { agent: 'b', root: 'r' })).kind).toBe('asked');
  });

  it('are 10,000 questions, which go when they are over', () => {
    const { clock, questions, ask } = questionsAt();
    const many = (from: number, to: number) => {
      for (let at = from; at < to; at++)
        expect(ask(call(at, { agent: `a${at}`, root: `r${at}` })).kind).toBe('asked');
    };
    many(0, 10_000);
    expect(problem(ask())).toBe('there is no room for another question here');
    const { bytes } = questions.size;
    expect(bytes).toBeGreaterThan(10_000 * 1024);
    clock.now += 86_400;
    expect(ask().kind).toBe('asked');
    expect(questions.size).toEqual({ questions: 1, bytes: expect.any(Number) as unknown });
    many(10_000, 19_999);
    expect(problem(ask(call(1)))).toBe('there is no room for another question here');
  });

  it('are 64 MiB, by what is really kept', () => {
    const { questions, ask } = questionsAt();
    const text = 'a'.repeat(64_000);
    let asked = 0;
    const next = () => ask(call(asked, { agent: `a${asked}`, root: `r${asked}`, args: { text } }));
    while (next().kind === 'asked') asked++;
    expect(problem(next())).toBe('there is no room for another question here');
    expect(asked).toBeGreaterThan(1000);
    expect(questions.size.bytes).toBeLessThanOrEqual(64 * 1024 * 1024);
    expect(questions.size.bytes).toBeGreaterThan(64 * 1024 * 1024 - 66_000);
  });

  it('are 64 KiB of a statement, and a refused one takes no place', () => {
    const { questions, ask } = questionsAt();
    expect(problem(ask({ ...CALL, args: { text: 'a'.repeat(65_536) } }))).toBe(
      'it is larger than a statement can be (64 KiB)',
    );
    expect(questions.size).toEqual({ questions: 0, bytes: 0 });
  });

  it('nothing is left when all is over', () => {
    const { clock, questions, ask, yes, handleOf } = questionsAt();
    for (let at = 0; at < 10; at++) yes(handleOf(ask(call(at))));
    clock.now += 600;
    questions.get('');
    expect(questions.size).toEqual({ questions: 0, bytes: 0 });
  });
});

describe('what happens', () => {
  it('is told in its order, with what proves a yes', () => {
    const clock = { now: START };
    const events: ApprovalEvent[] = [];
    const options = { openSecs: 60, onEvent: (event: ApprovalEvent) => void events.push(event) };
    const questions = new Questions(() => clock.now, options);
    const kinds = () => events.splice(0).map(({ kind }) => kind);
    const asked = questions.ask(CALL, one);
    const handle = 'handle' in asked ? asked.handle : '';
    questions.ask(CALL, one);
    clock.now += 5;
    const statement = questions.get(handle)?.statement ?? Buffer.alloc(0);
    const assertion = alice.assert(challengeOf(statement), { counter: 7 });
    questions.approve(handle, alice.approver.id, assertion, one);
    questions.approve(handle, alice.approver.id, assertion, one);
    const told = { handle, root: CALL.root, agent: CALL.agent, command: CALL.command, askedAt: START };
    const text = Buffer.from(statement).toString();
    expect(events).toEqual([
      { ...told, kind: 'asked' },
      {
        ...told,
        kind: 'approved',
        statement: text,
        ...{ approver: alice.approver, assertion, counter: 7, missing: 0 },
      },
    ]);
    kinds();
    const taken = questions.ask(CALL, one);
    expect(kinds()).toEqual([]);
    if (taken.kind === 'yes') taken.decided(true);
    expect(kinds()).toEqual(['used']);
    const next = questions.ask(CALL, one);
    questions.deny('handle' in next ? next.handle : '');
    questions.deny('handle' in next ? next.handle : '');
    expect(kinds()).toEqual(['asked', 'denied']);
    questions.ask(call(51), one);
    clock.now += 60;
    questions.get('');
    expect(kinds()).toEqual(['asked', 'expired']);
    clock.now += 600;
    questions.get('');
    // Its no is over.
    expect(kinds()).toEqual([]);
  });

  it('has the claims of the receipts for whoever is asked, up to 64 KiB', () => {
    const questions = new Questions(() => START);
    const asked = questions.ask(CALL, one, () => [{ iss: 'did:key:root' }]);
    const { receipts = [] } = questions.get('handle' in asked ? asked.handle : '') ?? {};
    expect(Buffer.from(receipts).toString()).toBe('[{"iss":"did:key:root"}]');
    expect(questions.ask(call(51), one, () => ['a'.repeat(65_536)])).toEqual({
      kind: 'refused',
      problem: 'its receipts are larger than a page shows (64 KiB)',
    });
  });
});

it('the clock never goes back, and goes on while the machine sleeps', () => {
  const at = { wall: 1_700_000_000_500, steady: 5 };
  const clock = steadyClock(
    () => at.wall,
    () => at.steady,
  );
  expect(clock()).toBe(1_700_000_000);
  // Set back by an hour, and ten seconds pass.
  at.wall -= 3_600_000;
  expect(clock()).toBe(1_700_000_000);
  at.wall += 10_000;
  at.steady += 10_000;
  expect(clock()).toBe(1_700_000_010);
  // Set right, and it sleeps for a minute.
  at.wall += 3_600_000 + 60_000;
  expect(clock()).toBe(1_700_000_070);
});
