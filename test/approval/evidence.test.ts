import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';
import { callOf, statementOf, type Call } from '../../src/approval/statement.js';
import { checkYesLine, readYesLine, type YesLine } from '../../src/cli/approval-line.js';
import type { JsonObject } from '../../src/protocol/json.js';
import type { Approved, Approver, EntryApproval } from '../../src/verify/approval.js';
import { kindOf } from '../cli/log-members.js';
import { proofOf } from '../gate/decide.js';
import { invoke, makeChain } from '../support/chain.js';
import { ASKED_AT, HANDLE, lineBy, lineOf, yesTo, type YesEvent } from './evidence.js';
import { Passkey, type Said } from './passkey.js';

const ARGS = { tool: 'transfer', amount: 50, to: 'Zürich \u202e\u009b\u2028\u007f', note: '"\\' };
const chain = makeChain(2, { 0: { policy: {} }, 1: { policy: {} } });
const callWith = (args: object, of = chain) => callOf(proofOf(invoke(of, { args })));
const CALL = callWith(ARGS);

const alice = new Passkey('P-256');
const bob = new Passkey('Ed25519', { name: 'Bob' });
const entryOf = (...approvers: Approver[]): EntryApproval => ({
  ...{ tools: ['*'], aboveUsd: null, approvers, needed: 1, isPrivate: false },
});
const ENTRY = entryOf(alice.approver, bob.approver);

const check = (line: string, call = CALL, entry: EntryApproval | null = ENTRY) =>
  checkYesLine(readYesLine(line) as YesLine, call, entry);
const yesOf = (said?: Parameters<typeof yesTo>[2]) => yesTo(CALL, alice, said);
const problemLike = (problem: RegExp) => ({ problem: expect.stringMatching(problem) as string });

describe('the line of a yes', () => {
  it('has all that proves it, and controls no terminal', () => {
    const event = yesOf();
    const line = lineOf(event);
    expect(line).toMatch(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$/u);
    const { assertion, statement } = event;
    const read = JSON.parse(line) as JsonObject;
    expect(kindOf(read)).toEqual(['approval']);
    expect(read).toMatchObject({
      ...{ endpoint: 'approve', event: 'approved', rootPrincipal: CALL.root, rootName: 'alice' },
      ...{ agent: CALL.agent, command: '/mcp/tools/call' },
      approval: {
        ...{ handle: HANDLE, requested_at: ASKED_AT, statement, counter: 7, missing: 0 },
        digest: createHash('sha256').update(statement).digest('base64url'),
        approver: { name: 'Alice', id: alice.approver.id },
        client_data_json: assertion.clientDataJSON.toString('base64url'),
        authenticator_data: assertion.authenticatorData.toString('base64url'),
        signature: assertion.signature.toString('base64url'),
      },
    });
    expect(check(line)).toEqual({ value: 'Alice' });
  });

  it('proves the same where the log has no arguments', () => {
    const line = lineOf(yesOf(), false);
    for (const text of ['statement', 'amount', 'transfer', 'rich']) expect(line).not.toContain(text);
    expect(check(line)).toEqual({ value: 'Alice' });
    expect(check(line, callWith({ ...ARGS, amount: 51 }))).toEqual(problemLike(/^challenge is /));
  });

  it('serves each invocation of the call, also one that goes on with it', () => {
    const line = lineOf(yesOf());
    const again = { ...ARGS, 'xyz.okeyamy.drs/params': { requestState: 'x' } };
    expect(check(line, callWith(again))).toEqual({ value: 'Alice' });
  });

  it.each(['asked', 'denied', 'expired', 'used'] as const)(
    'of %s has no argument and proves nothing',
    (kind) => {
      const { statement: _, ...event } = yesOf();
      const line = lineOf({ ...event, kind });
      expect(JSON.parse(line)).toMatchObject({
        event: kind,
        approval: { handle: HANDLE, requested_at: ASKED_AT },
      });
      expect(Object.keys((JSON.parse(line) as { approval: object }).approval)).toEqual([
        'handle',
        'requested_at',
      ]);
      expect(kindOf(JSON.parse(line) as object)).toEqual(['approval']);
      expect(readYesLine(line)).toBeNull();
    },
  );

  it.each([
    ...['', '[]', '{}', '{"approval":7}', `${lineOf(yesOf())}\n${lineOf(yesOf())}`],
    JSON.stringify({ endpoint: 'gate', approval: { statement: 'x', by: [{ name: 'Alice', at: 1 }] } }),
    lineOf(yesOf()).replace('"signature":"', '"signature":"='),
    lineOf(yesOf()).replace('"counter":7', '"counter":-7'),
    lineOf(yesOf()).replace('"handle":', '"handle":"x","handle":'),
  ])('is no other text %#', (text) => {
    expect(readYesLine(text)).toBeNull();
  });
});

/** A line, changed by a forger who writes into the log. */
const bent = (change: (approval: Record<string, unknown>) => object, event = yesOf()) => {
  const line = JSON.parse(lineOf(event)) as { approval: Record<string, unknown> };
  return JSON.stringify({ ...line, approval: { ...line.approval, ...change(line.approval) } });
};
/** The same with other members of the statement. */
const stated = (change: object) =>
  bent(({ statement }) => {
    const other = { ...(JSON.parse(String(statement)) as object), ...change };
    return { statement: JSON.stringify(Object.fromEntries(Object.entries(other).sort())) };
  });
const statementWith = (overrides: Partial<Call>, at = ASKED_AT, handle = HANDLE) =>
  statementOf({ ...CALL, ...overrides }, at, handle) as Uint8Array;
const signedAs = (said: Said) => lineOf(yesOf(said));
const encoded = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');

describe('a forgery is found', () => {
  const dear = statementWith({ args: { ...ARGS, amount: 5000 } });
  const mallory = new Passkey('P-256', { id: alice.approver.id });
  it.each<[what: string, line: string, problem: RegExp, call?: Call, entry?: EntryApproval]>([
    [
      'an argument of the statement is changed',
      stated({ args: { ...ARGS, amount: 51 } }),
      /^args of the statement is /,
    ],
    [
      'an argument of the call is changed',
      lineOf(yesOf()),
      /^args of the statement is /,
      callWith({ ...ARGS, amount: 51 }),
    ],
    ['an argument of the call is left out', lineOf(yesOf()), /^args of the/, callWith({ tool: 'transfer' })],
    [
      'another command',
      stated({ command: '/mcp' }),
      /^command of the statement is "\/mcp", expected "\/mcp\/tools\/call"$/,
    ],
    [
      'another tool server',
      stated({ tool_server: 'https://bank' }),
      /^tool_server of the statement is "https:\/\/bank", exp/,
    ],
    ['another root', stated({ root: CALL.agent }), /^root of the statement is "did:key:/],
    ['another agent', stated({ agent: CALL.root }), /^agent of the statement is "did:key:/],
    [
      'root and agent of another chain',
      lineOf(yesOf()),
      /^agent of the statement is /,
      callWith(ARGS, makeChain(2, { 0: { policy: {} }, 1: { policy: {} } })),
    ],
    [
      'another last receipt',
      stated({ leaf: `sha256:${'0'.repeat(64)}` }),
      /^leaf of the statement is "sha256:0000/,
    ],
    [
      'another time in the statement',
      stated({ requested_at: ASKED_AT + 1 }),
      /^requested_at of the statement is 1700000001, expected 1700000000$/,
    ],
    [
      'another time in all of the line',
      bent(() => ({
        requested_at: ASKED_AT + 1,
        statement: Buffer.from(statementWith({}, ASKED_AT + 1)).toString(),
      })),
      /^challenge is /,
    ],
    [
      'another handle in the line',
      bent(() => ({ handle: 'B'.repeat(22) })),
      /^handle of the statement is "A+", expected "B+"$/,
    ],
    [
      'another handle in all of the line',
      bent(() => ({
        handle: 'B'.repeat(22),
        statement: Buffer.from(statementWith({}, ASKED_AT, 'B'.repeat(22))).toString(),
      })),
      /^challenge is /,
    ],
    ['another version', stated({ v: 2 }), /^v of the statement is 2, expected 1$/],
    ['a member more', stated({ more: true }), /^more of the statement is true, expected missing$/],
    [
      'a statement in another form',
      bent(({ statement }) => ({ statement: `${String(statement)} ` })),
      /^the statement is not written in canonical JSON$/,
    ],
    [
      'a member twice',
      bent(({ statement }) => ({ statement: String(statement).replace('"v":1', '"v":2,"v":1') })),
      /^the statement is no object in strict JSON$/,
    ],
    [
      'the name of another approver',
      bent(() => ({ approver: { ...alice.approver, name: 'Bob' } })),
      /^approver in the log is "Bob", expected "Alice"$/,
    ],
    [
      'the passkey of another approver',
      bent(() => ({ approver: bob.approver })),
      /^the signature is not one of this passkey$/,
    ],
    ['an approver of whom the entry has another key', lineOf(yesTo(CALL, mallory)), /^the signature is not/],
    [
      'an approver who was removed',
      lineOf(yesOf()),
      /^no approver in the line of did:key:\w+ has the passkey ".+", which is that of "Alice" in the log$/,
      CALL,
      entryOf(bob.approver),
    ],
    ['a root without approvers', lineOf(yesOf()), /^no approver in the line of /, CALL, null as never],
    [
      'a page of another origin',
      signedAs({ client: { origin: 'https://drs.example.evil' } }),
      /^origin is "https:\/\/drs.example.evil", expected "https:\/\/drs.example"$/,
    ],
    ['a page on another port', signedAs({ client: { origin: 'https://drs.example:8443' } }), /^origin is /],
    [
      'another origin in the entry since',
      lineOf(yesOf()),
      /^origin is /,
      CALL,
      entryOf({ ...alice.approver, origin: 'https://drs.example:8443' }),
    ],
    ['a page in a frame', signedAs({ client: { crossOrigin: true } }), /^crossOrigin is true/],
    ['another RP ID', signedAs({ rpId: 'example' }), /^the RP ID is another one/],
    ['nobody touched it', signedAs({ flags: 0x04 }), /^the user was not present/],
    ['nobody showed who they are', signedAs({ flags: 0x01 }), /^the user was not verified/],
    [
      'it is of a registration',
      signedAs({ client: { type: 'webauthn.create' } }),
      /^type is "webauthn.create"/,
    ],
    ['a yes to another amount', lineOf(yesOf({ signed: dear })), /^challenge is /],
    [
      'a yes to another amount under its digest',
      bent(() => ({ digest: encoded(createHash('sha256').update(dear).digest()) })),
      /^digest in the log is /,
    ],
    [
      'a signature over other bytes',
      bent(() => ({ signature: encoded(alice.assert(dear).signature) })),
      /^the signature is not/,
    ],
    [
      'client data of another yes',
      bent(() => ({ client_data_json: encoded(alice.assert(dear).clientDataJSON) })),
      /^the signature is not/,
    ],
    [
      'authenticator data that were cut',
      bent(() => ({ authenticator_data: encoded(yesOf().assertion.authenticatorData.subarray(0, 36)) })),
      /^the signature is not/,
    ],
    [
      'authenticator data that were cut before it was signed',
      lineOf(cut(yesOf())),
      /^authenticatorData is 36 bytes, expected 37/,
    ],
    [
      'a signature of P-256 that is no DER',
      bent(({ signature }) => ({ signature: encoded(rawOf(Buffer.from(String(signature), 'base64url'))) })),
      /^the signature is not/,
    ],
    ['a counter that was not signed', bent(() => ({ counter: 8 })), /^counter in the log is 8, expected 7$/],
    [
      'a call that is too large',
      lineOf(yesOf()),
      /^the call is larger/,
      { ...CALL, args: { text: 'a'.repeat(65_536) } },
    ],
  ])('%s', (_, line, problem, call = CALL, entry = ENTRY) => {
    expect(check(line, call, entry)).toEqual(problemLike(problem));
  });
});

it('the line of a call that has used a yes names it', () => {
  const bundle = invoke(chain, { args: ARGS });
  const asked = { endpoint: 'gate', requestId: 'r-1', address: null, parent: null, code: null } as never;
  const { digest } = readYesLine(lineOf(yesOf())) as YesLine;
  const by = [
    { name: 'Alice\u202e', at: ASKED_AT + 9 },
    { name: 'Bob', at: ASKED_AT + 99 },
  ];
  const record = (approval?: Approved) =>
    JSON.parse(
      lineBy((logs) => logs.record(asked, proofOf(bundle), bundle, null, false, approval)),
    ) as JsonObject;
  const line = record({ statement: digest, by });
  expect(kindOf(line)).toEqual(['call']);
  expect(line).toMatchObject({
    ...{ endpoint: 'gate', valid: true, agent: CALL.agent },
    approval: { statement: digest, by: [{ name: 'Alice?', at: ASKED_AT + 9 }, by[1]] },
  });
  expect(record()).not.toHaveProperty('approval');
});

it('what happens to questions is counted, with the time to each answer', () => {
  const metrics = new Metrics();
  const { statement: _, ...event } = yesOf();
  const askedAt = Math.floor(Date.now() / 1000) - 45;
  for (const kind of ['asked', 'asked', 'denied', 'expired', 'used'] as const)
    metrics.countApproval({ ...event, kind, askedAt });
  metrics.countApproval({ ...yesOf(), askedAt: askedAt - 3600 });
  // The clock was set back since.
  metrics.countApproval({ ...yesOf(), askedAt: askedAt + 3600 });
  expect(metrics.approvals).toEqual({ asked: 2, approved: 2, denied: 1, expired: 1, used: 1 });
  const { buckets, counts } = metrics.answerSeconds;
  const seen = counts.flatMap((count, at) => (count === 0 ? [] : [[buckets[at], count]]));
  expect(seen).toEqual([
    [1, 1],
    [60, 1],
    [14_400, 1],
  ]);
});

/** Authenticator data without the last byte, signed as they are. */
function cut(event: YesEvent): YesEvent {
  const { clientDataJSON, authenticatorData } = event.assertion;
  const short = authenticatorData.subarray(0, -1);
  return {
    ...event,
    assertion: { clientDataJSON, authenticatorData: short, signature: alice.sign(short, clientDataJSON) },
  };
}

/** Both numbers of a signature, without DER. */
function rawOf(der: Buffer): Buffer {
  const length = der[3] as number;
  const numbers = [der.subarray(4, 4 + length), der.subarray(6 + length)];
  return Buffer.concat(numbers.map((one) => Buffer.concat([Buffer.alloc(32), one]).subarray(-32)));
}
