import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { callOf, challengeOf, nameOf, statementOf } from '../../src/approval/statement.js';
import type { JsonObject } from '../../src/protocol/json.js';
import { judgedOf } from '../../src/gate/decide.js';
import type { Proof } from '../../src/verify/judge.js';
import { canonical } from '../oracle/jcs.js';
import { readJson, type Json } from '../oracle/json.js';
import { invoke, makeChain, sha256 } from '../support/chain.js';

const HANDLE = 'AAAAAAAAAAAAAAAAAAAAAA';

function callWith(args: JsonObject, overrides: object = {}) {
  const chain = makeChain(2);
  const bundle = invoke(chain, { args, ...overrides });
  const proof = judgedOf({ bundle: { ...bundle, receipts: [...bundle.receipts] } }, { valid: true }) as Proof;
  return { chain, bundle, call: callOf(proof) };
}

const textOf = (args: JsonObject) => {
  const { call } = callWith(args);
  const statement = statementOf(call, 1_700_000_000, HANDLE);
  return statement && Buffer.from(statement).toString();
};

it('a statement has exactly these members, in the order of RFC 8785', () => {
  const { chain, bundle, call } = callWith({ tool: 'transfer', amount: 50 }, { tool_server: 'https://bank' });
  const [root, , agent] = chain.parties.map(({ did }) => did);
  const leaf = sha256(bundle.receipts.at(-1) as string);
  const statement = statementOf(call, 1_700_000_000, HANDLE) as Uint8Array;
  expect(Buffer.from(statement).toString()).toBe(
    `{"agent":"${agent}","args":{"amount":50,"tool":"transfer"},"command":"/mcp/tools/call","handle":"${HANDLE}",` +
      `"leaf":"${leaf}","requested_at":1700000000,"root":"${root}","tool_server":"https://bank","v":1}`,
  );
  expect(challengeOf(statement)).toEqual(createHash('sha256').update(statement).digest());
});

it.each<JsonObject>([
  { n: [0, -0, 1e21, 1e-7, 0.1, 5e-324, 1.7976931348623157e308, 9007199254740991, 333333333.3333333] },
  { ä: 'Zürich', '€': '\u202e evil', '\u{1f600}': '\u0000\u001f\u007f"\\/', '\ufb33': 'é', é: 'e\u0301' },
  { b: { d: null, c: [true, false, {}] }, a: [] },
  JSON.parse('{"__proto__":{"tool":"x"},"constructor":1,"toJSON":2}') as JsonObject,
])('says %j as the canonical form does', (args) => {
  const text = textOf(args) as string;
  // The oracle's canonical form shares no code with ours.
  expect(text).toBe(canonical(readJson(text) as Json));
  expect(text).toContain(`"args":${canonical(readJson(JSON.stringify(args)) as Json)},"command"`);
});

it('has at most 65,536 bytes, in UTF-8', () => {
  const rest = Buffer.byteLength(textOf({ text: '' }) as string);
  expect(Buffer.byteLength(textOf({ text: 'a'.repeat(65_536 - rest) }) as string)).toBe(65_536);
  expect(textOf({ text: 'a'.repeat(65_537 - rest) })).toBeNull();
  expect(textOf({ text: '€'.repeat(21_900) })).toBeNull();
  expect(textOf({ list: Array.from({ length: 30_000 }, () => 1) })).toHaveLength(59_999 + rest);
});

const PARAMS = 'xyz.okeyamy.drs/params';
it.each([
  ['/mcp/tools/call', true],
  ['/mcp/resources/read', true],
  ['/mcp/prompts/get', true],
  ['/mcp/tasks/update', false],
  ['/mcp/tools/call/x', false],
  ['/tools', false],
])('a continuation of %s is the same call: %s', (cmd, isSame) => {
  const args = { tool: 'transfer', amount: 50 };
  const continued = { ...args, [PARAMS]: { requestState: 'x', inputResponses: {} } };
  const { call } = callWith(args, { cmd });
  const proof = (other: JsonObject) => ({ ...call, args: other });
  const again = { ...call, args: callWith(continued, { cmd }).call.args };
  expect(nameOf(again) === nameOf(proof(args))).toBe(isSame);
});

it('another call has another name, the same one never', () => {
  const { call } = callWith({ tool: 'transfer', amount: 50, to: 'a' });
  const others = [
    { ...call, args: { ...call.args, amount: 51 } },
    { ...call, args: { ...call.args, amount: '50' } },
    { ...call, args: { tool: 'transfer', amount: 50 } },
    { ...call, args: { ...call.args, more: null } },
    ...(['tool_server', 'root', 'agent', 'command', 'leaf'] as const).map((member) => ({
      ...call,
      [member]: `${call[member]}x`,
    })),
  ];
  expect(new Set([call, ...others].map(nameOf)).size).toBe(10);
  expect(nameOf({ ...call, args: { to: 'a', amount: 50.0, tool: 'transfer' } })).toBe(nameOf(call));
});
