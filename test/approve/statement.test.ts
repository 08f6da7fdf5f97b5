import { describe, expect, it } from 'vitest';
import { statementOf, type Call } from '../../src/approval/statement.js';
import { readStatement, walk, type Question } from '../../web/approve/statement.js';

const CALL: Call = {
  tool_server: 'https://bank.example/mcp',
  root: 'did:key:root',
  agent: 'did:key:agent',
  command: '/mcp/tools/call',
  args: { tool: 'transfer', amount: 50 },
  leaf: `sha256:${'0'.repeat(64)}`,
};
const HANDLE = 'A'.repeat(22);
const text = Buffer.from(statementOf(CALL, 1_790_000_000, HANDLE) ?? []).toString();
const question = (statement: string, receipts = [{ iss: CALL.root, aud: CALL.agent }]): Question => ({
  ...{ state: 'asked', ends: 0, needed: 1, said: [], approvers: [], root_name: null, statement, receipts },
});
const withMember = (name: string, value: unknown) =>
  JSON.stringify(
    Object.fromEntries(
      Object.entries({ ...(JSON.parse(text) as object), [name]: value }).sort(([a], [b]) => (a < b ? -1 : 1)),
    ),
  );

describe('the page asks for no yes', () => {
  it('unless the text is the statement of this question, as the gate writes it', () => {
    expect(readStatement(question(text), HANDLE)).toMatchObject({ value: { args: { amount: 50 } } });
  });
  it.each([
    ['white space', text.replace(':', ': '), 'it is no canonical JSON'],
    ['a name that occurs twice', text.replace('{', '{"agent":"did:key:other",'), 'it is no canonical JSON'],
    ['an escape', text.replace('transfer', '\\u0074ransfer'), 'it is no canonical JSON'],
    ['no JSON', 'transfer 50', 'it is no canonical JSON'],
    ['a list', '[]', 'it is no canonical JSON'],
    ['a member more', withMember('z', 1), 'it has members that this page does not know, or lacks some'],
    ['another version', withMember('v', 2), 'a member is not what it should be'],
    ['arguments that are a list', withMember('args', []), 'a member is not what it should be'],
    ['a time that is a text', withMember('requested_at', '1'), 'a member is not what it should be'],
    ['another handle', withMember('handle', 'B'.repeat(22)), 'it is that of another question'],
    ['another agent', withMember('agent', 'did:key:other'), 'it is not about these receipts'],
    ['another principal', withMember('root', 'did:key:other'), 'it is not about these receipts'],
  ])('of %s', (_, statement, problem) => {
    expect(readStatement(question(statement), HANDLE)).toEqual({ problem });
  });
});

it('looks at each name and each text, and says what is folded', () => {
  const texts: string[] = [];
  let folded = 0;
  const value = { a: ['x', 1, { b: 'y'.repeat(401) }], c: Array.from({ length: 21 }, () => null) };
  walk(
    value,
    (found) => texts.push(found.slice(0, 2)),
    () => folded++,
  );
  expect([texts, folded]).toEqual([['a', 'x', 'b', 'yy', 'c'], 2]);
});
