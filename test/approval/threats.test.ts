import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Questions, type Asked } from '../../src/approval/questions.js';
import { challengeOf, type Call } from '../../src/approval/statement.js';
import type { Approvers } from '../../src/verify/approval.js';
import { Passkey } from './passkey.js';

/** What docs/threat-model.md says of yeses, and the other tests of this folder do not show. */

const CALL: Call = {
  ...{ tool_server: 'https://bank', root: 'did:key:root', agent: 'did:key:agent' },
  ...{ command: '/mcp/tools/call', args: { tool: 'transfer', amount: 50 }, leaf: `sha256:${'0'.repeat(64)}` },
};
const START = 1_700_000_000;
const alice = new Passkey();
const byAlice: Approvers = { approvers: [alice.approver], needed: 1 };

function gate() {
  const clock = { now: START };
  const questions = new Questions(() => clock.now);
  const ask = (args: Call['args'] = CALL.args, who = byAlice) => questions.ask({ ...CALL, args }, who);
  const handleOf = (asked: Asked) => ('handle' in asked ? asked.handle : '');
  const challenge = (handle: string) =>
    challengeOf(questions.get(handle)?.statement ?? Buffer.from('there is no question'));
  const approve = (handle: string, passkey: Passkey, { id } = passkey.approver, who = byAlice) =>
    questions.approve(handle, id, passkey.assert(challenge(handle)), who);
  return { clock, questions, ask, handleOf, challenge, approve };
}

describe('an agent that opens the link itself', () => {
  it('has no passkey that counts, whatever id it gives', () => {
    const { ask, handleOf, approve } = gate();
    const handle = handleOf(ask());
    for (const kind of ['Ed25519', 'P-256', 'RSA'] as const) {
      const own = new Passkey(kind, { name: 'Alice' });
      expect(approve(handle, own)).toHaveProperty('problem');
      expect(approve(handle, own, alice.approver)).toHaveProperty('problem');
    }
    expect(ask().kind).toBe('asked');
  });

  it('can say no, which stops its own call alone', () => {
    const { ask, handleOf, questions } = gate();
    questions.deny(handleOf(ask()));
    expect([ask().kind, ask({ tool: 'transfer', amount: 51 }).kind]).toEqual(['denied', 'asked']);
  });
});

it('an agent that asks a hundred times asks once, or ten times', () => {
  const { ask, handleOf, questions } = gate();
  const handles = Array.from({ length: 100 }, () => handleOf(ask()));
  expect(new Set(handles).size).toBe(1);
  const others = Array.from({ length: 100 }, (_, amount) => ask({ tool: 'transfer', amount: 1000 + amount }));
  expect(others.filter(({ kind }) => kind === 'asked')).toHaveLength(9);
  // A no keeps its place for ten minutes, so that it brings no new question.
  for (const handle of [...handles, ...others.map(handleOf)]) questions.deny(handle);
  expect(ask({ tool: 'transfer', amount: 9999 }).kind).toBe('refused');
});

it('an agent that swaps arguments after the yes has none', () => {
  const { ask, handleOf, approve } = gate();
  expect(approve(handleOf(ask()), alice)).toEqual({ value: 0 });
  for (const args of [
    { tool: 'transfer', amount: 5000 },
    { tool: 'transfer', amount: '50' },
    { tool: 'transfer', amount: 50, to: 'mallory' },
    { tool: 'refund', amount: 50 },
  ])
    expect(ask(args).kind).toBe('asked');
  expect(ask().kind).toBe('yes');
});

describe('an assertion is no second yes', () => {
  it('after its call, and for the same call that is asked about again', () => {
    const { ask, handleOf, challenge, questions } = gate();
    const handle = handleOf(ask());
    const assertion = alice.assert(challenge(handle));
    const { id } = alice.approver;
    questions.approve(handle, id, assertion, byAlice);
    const taken = ask();
    if (taken.kind === 'yes') taken.decided(true);
    expect(questions.approve(handle, id, assertion, byAlice)).toHaveProperty('problem');
    const next = handleOf(ask());
    expect(questions.approve(next, id, assertion, byAlice)).toEqual({
      problem: expect.stringMatching(/^challenge is/) as string,
    });
  });

  it('at another gate that asks about the same call in the same second', () => {
    const [here, there] = [gate(), gate()];
    const [handle, other] = [here.handleOf(here.ask()), there.handleOf(there.ask())];
    const assertion = alice.assert(here.challenge(handle));
    const { id } = alice.approver;
    for (const at of [handle, other])
      expect(there.questions.approve(at, id, assertion, byAlice)).toHaveProperty('problem');
    expect(here.questions.approve(handle, id, assertion, byAlice)).toEqual({ value: 0 });
  });

  it('if its owner only wanted to see the question', () => {
    const { ask, handleOf, questions } = gate();
    const handle = handleOf(ask());
    const view = createHash('sha256').update(`drs-approval-view:${handle}`).digest();
    expect(questions.approve(handle, alice.approver.id, alice.assert(view), byAlice)).toHaveProperty(
      'problem',
    );
  });
});

it('a page on another port of localhost, whose RP ID is the same, gets no yes', () => {
  const { ask, handleOf, challenge, questions } = gate();
  const local = new Passkey('Ed25519', { origin: 'http://localhost:8080' });
  const who = { approvers: [local.approver], needed: 1 };
  const handle = handleOf(ask(CALL.args, who));
  const approve = (origin: string) =>
    questions.approve(
      handle,
      local.approver.id,
      local.assert(challenge(handle), { client: { origin } }),
      who,
    );
  for (const origin of ['http://localhost:9090', 'http://localhost', 'https://localhost:8080', 'null'])
    expect(approve(origin)).toEqual({ problem: expect.stringMatching(/^origin is/) as string });
  expect(approve('http://localhost:8080')).toEqual({ value: 0 });
});
