import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openEngine } from '../../src/verifier/create-verifier.js';
import type { Engine } from '../../src/verifier/engine.js';
import { GATE_PROTOCOLS } from '../../src/gate/open.js';
import { readHeaders, type Denial } from '../../src/gate/request.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { openGate } from '../../src/service/gate-decider.js';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';
import { generateKey } from '../../src/issue/index.js';
import { WorkDropped } from '../../src/signatures/signature-verifier.js';
import { a2aBundle, a2aCall, httpCall, mcpBundle, toolCall } from '../gate/attacks.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';

/** The gate where a verifier fails, or a list is old, which no service does on demand; `test/e2e/gate*.test.ts` have the rest. */

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine(readConfiguration({ WORKER_THREADS: '0' }));
});
afterAll(() => engine.close());

interface Changes {
  readonly parts?: Partial<Engine['parts']>;
  readonly list?: { readonly ageSecs: number };
}

async function open(env: Record<string, string> = {}, { parts, list }: Changes = {}) {
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0]) });
  const metrics = new Metrics();
  /** What the logs of verdicts are told. */
  const recorded: unknown[] = [];
  const changed = { parts: { ...engine.parts, ...parts }, revocation: { list: list ?? null } };
  const gate = await openGate({
    engine: Object.assign(Object.create(engine) as Engine, changed),
    configuration: readConfiguration({ SERVER_IDENTITY: 'any', GATE_ROUTES: 'any', ...env }),
    verdicts: {
      record: (
        _asked: unknown,
        _outcome: unknown,
        _bundle: unknown,
        denial: Denial | null,
        isObserved: boolean,
      ) => void recorded.push({ denial: denial?.failure.code, isObserved }),
    } as never,
    ...{ log, metrics },
  });
  const counted = (protocol: 'http' | 'mcp' | 'a2a') =>
    Object.entries(metrics.decisions[protocol]).flatMap(([decision, codes]) =>
      [...codes].flatMap(([code, count]) => (count === 0 ? [] : [`${decision} ${code} ${count}`])),
    );
  const { gate: rejections } = metrics.gateRejections;
  return { ...gate, counted, rejections, lines, recorded };
}

const asked = { endpoint: 'gate' as const, parent: null, code: null, requestId: 'r-1', address: null };
const CALLS = {
  http: { bundle: () => mcpBundle(), body: httpCall },
  mcp: { bundle: () => mcpBundle(), body: toolCall() },
  a2a: { bundle: () => a2aBundle(), body: a2aCall() },
};

function callOf(protocol: keyof typeof CALLS, bundle = CALLS[protocol].bundle()) {
  const { body: text } = CALLS[protocol];
  const headers = readHeaders({ 'X-DRS-Bundle': bundle });
  return {
    protocol,
    ...{ endpoint: 'gate' as const, asked },
    request: { method: 'POST', target: '/a2a', headers, body: { kind: 'text', text } as const },
  };
}

describe.each(GATE_PROTOCOLS)('a gate for %s', (protocol) => {
  it.each<[string, () => never | Promise<boolean[]>, boolean]>([
    [
      'at once',
      () => {
        throw new RangeError('Maximum call stack size exceeded');
      },
      true,
    ],
    ['later', () => Promise.reject(new Error('no verdict')), true],
    ['since nobody waits any more', () => Promise.reject(new WorkDropped('nobody waits')), false],
  ])('denies where the verifier throws: %s', async (_, verify, isFault) => {
    const parts = { signatures: { verify } };
    const { decider, counted, rejections, lines, recorded } = await open({}, { parts });
    for (let call = 0; call < 2; call++)
      expect(await decider.decide(callOf(protocol))).toMatchObject({
        ...{ kind: 'deny', code: 'VERIFIER_UNAVAILABLE', response: { status: 503 } },
      });
    expect(counted(protocol)).toEqual([`deny VERIFIER_UNAVAILABLE 2`]);
    expect(rejections.internal).toBe(isFault ? 2 : 0);
    const fault = { level: 50, msg: 'a request failed inside the gate', err: expect.anything() as unknown };
    expect(lines).toMatchObject(isFault ? [fault, fault] : []);
    // Nobody gets the answer of one that was given up.
    const denied = { denial: 'VERIFIER_UNAVAILABLE', isObserved: false };
    expect(recorded).toEqual(isFault ? [denied, denied] : []);
  });

  it('denies and counts where the body did not come', async () => {
    const { decider, counted, rejections } = await open();
    expect(decider.unread({ protocol, endpoint: 'gate' }, 'timeout')).toMatchObject({
      code: 'BODY_TIMEOUT',
      response: { status: 408 },
    });
    expect([counted(protocol), rejections.timeout]).toEqual([['deny BODY_TIMEOUT 1'], 1]);
  });
});

it('asks its transport whether somebody waits, and whether it may wait for the status list', async () => {
  const verify = vi.spyOn(engine.parts.signatures, 'verify');
  const revocation = { ...engine.parts.revocation, refreshIfStale: () => Promise.resolve() };
  const { decider } = await open({}, { parts: { revocation } });
  const [isWanted, mayWait] = [() => true, vi.fn(() => false)];
  const revocable = encode(liveCall(liveChain(2, { drs_status_list_index: 7 }), { tool: 'search' }));
  await decider.decide({ ...callOf('mcp', revocable), isWanted, mayWait });
  expect(verify).toHaveBeenCalledWith(expect.anything(), isWanted);
  expect(mayWait).toHaveBeenCalledOnce();
});

it('keeps no record and says so where it may not, and closes the one that it keeps', async () => {
  const { decider, replays, lines } = await open({ GATE_REPLAY: 'off', TRUSTED_ROOTS_FILE: 'roots.jsonl' });
  const call = callOf('mcp');
  for (let time = 0; time < 2; time++) expect((await decider.decide(call)).kind).toBe('allow');
  expect(replays).toBeNull();
  expect(lines).toMatchObject([
    { msg: expect.stringMatching(/^GATE_REPLAY is off: a call .* can be repeated/) as string },
  ]);
  const gate = await open();
  if (gate.replays === null) throw new Error('it keeps no record');
  const close = vi.spyOn(gate.replays, 'close');
  await gate.close();
  expect(close).toHaveBeenCalledOnce();
});

it.each([
  [7.9, 7],
  [-1, 0],
])('signs the age of the list that was checked, in whole seconds from 0 on: %d', async (ageSecs, said) => {
  const key = generateKey();
  const url = 'https://lists.example/a';
  const env = { GATE_SIGNING_KEY: key.toJwk().d, STATUS_LIST_BASE_URL: url };
  const { decider, signer } = await open(env, { list: { ageSecs } });
  const decision = await decider.decide(callOf('mcp'));
  const claims = signer?.read((decision.kind === 'allow' && decision.token) || '');
  expect(claims).toMatchObject({ iss: key.did, revocation: { list_age_secs: said, lists: [url] } });
});

describe('a gate on trial', () => {
  const OBSERVE = { GATE_MODE: 'observe' };
  const mcp = (message: unknown, headers: object = {}) => {
    const body = {
      kind: 'text',
      text: typeof message === 'string' ? message : JSON.stringify(message),
    } as const;
    return {
      ...callOf('mcp'),
      request: { method: 'POST', target: '/mcp', headers: readHeaders({ ...headers }), body },
    };
  };
  const bare = (method: string, params: object = { name: 'search' }) => ({
    ...{ jsonrpc: '2.0', id: 1, method, params },
  });

  it.each<[string, ReturnType<typeof mcp>]>([
    ['MISSING_BUNDLE', mcp(bare('tools/call'))],
    ['MALFORMED_BUNDLE', mcp(bare('tools/call'), { 'X-DRS-Bundle': 'e30.x' })],
    ['MALFORMED_BUNDLE', mcp(bare('tools/call'), { 'X-DRS-Bundle': '{}' })],
    ['MULTIPLE_BUNDLES', mcp(bare('tools/call'), { 'X-DRS-Bundle': 'e30,e30' })],
    ['UNKNOWN_METHOD', mcp(bare('acme/search'))],
    ['HEADER_MISMATCH', mcp(bare('tools/list'), { 'Mcp-Method': 'tools/call' })],
    ['UNSUPPORTED_VERSION', mcp(bare('tools/list'), { 'MCP-Protocol-Version': '1999-01-01' })],
    ['INVALID_TOOL_CALL', mcp(bare('tools/call', {}), { 'X-DRS-Bundle': mcpBundle() })],
    ['BINDING_MISMATCH', mcp(bare('tools/call', { name: 'x' }), { 'X-DRS-Bundle': mcpBundle() })],
    ['MISSING_BUNDLE', { ...callOf('http'), request: { ...callOf('http').request, headers: new Map() } }],
  ])('lets pass, counts and records what it would deny: %s', async (code, call) => {
    const gate = await open(OBSERVE);
    expect(await gate.decider.decide(call)).toMatchObject({ kind: 'pass', observed: code });
    expect(gate.counted(call.protocol)).toEqual([`observe ${code} 1`]);
    expect(gate.recorded).toHaveLength(1);
    const enforcing = await open();
    expect(await enforcing.decider.decide(call)).toMatchObject({ kind: 'deny', code });
  });

  // In these, the tool server could find what only a gate may say, and no gate could take it out.
  const TOO_LARGE = { kind: 'too large', reason: 'it is' } as never;
  const gzip = { 'Content-Encoding': 'gzip' };
  it.each<[string, ReturnType<typeof mcp>]>([
    ['HOP_BY_HOP_HEADER', mcp(bare('tools/list'), { Connection: 'X-DRS-Observed' })],
    ['HOP_BY_HOP_HEADER', mcp(bare('tools/call'), { Upgrade: 'websocket' })],
    ['METHOD_NOT_ALLOWED', mcp(bare('tools/call'), { 'X-HTTP-Method-Override': 'GET' })],
    ['INVALID_PATH', { ...mcp(bare('tools/call')), request: { ...mcp('').request, target: '/mcp?x' } }],
    ['INVALID_JSONRPC', mcp('{"jsonrpc":"2.0","id":1,"method":"a","method":"tools/call"}')],
    ['INVALID_JSONRPC', mcp('no JSON')],
    ['BATCH_NOT_SUPPORTED', mcp([bare('tools/call')])],
    ['BODY_TOO_LARGE', { ...mcp(''), request: { ...mcp('').request, body: TOO_LARGE } }],
    ...['MISSING_BUNDLE', 'BINDING_MISMATCH'].map((code): [string, ReturnType<typeof mcp>] => {
      const headers = code === 'MISSING_BUNDLE' ? gzip : { ...gzip, 'X-DRS-Bundle': mcpBundle() };
      const body = { kind: 'unusable', reason: 'it is gzip' } as never;
      return [code, { ...mcp(''), request: { ...mcp('', headers).request, body } }];
    }),
  ])('denies what it cannot read as one request: %s', async (code, call) => {
    const gate = await open(OBSERVE);
    expect(await gate.decider.decide(call)).toMatchObject({ kind: 'deny', code });
    expect(gate.counted('mcp')).toEqual([`deny ${code} 1`]);
  });

  it('records limits and replays, and enforces neither', async () => {
    const gate = await open(OBSERVE);
    const call = callOf('mcp');
    expect((await gate.decider.decide(call)).kind).toBe('allow');
    expect(await gate.decider.decide(call)).toMatchObject({ kind: 'pass', observed: 'REPLAY_DETECTED' });
    const limited = liveChain(2, { policy: { allowed_tools: ['search'], max_calls: 1 } });
    const args = { tool: 'search', query: 'tea' };
    const calls = [1, 2].map(() =>
      callOf('mcp', encode(liveCall(limited, args, { cmd: '/mcp/tools/call' }))),
    );
    const decisions = [];
    for (const one of calls) decisions.push(await gate.decider.decide(one));
    expect(decisions).toMatchObject([{ kind: 'allow' }, { kind: 'pass', observed: 'LIMIT_REACHED' }]);
    expect(gate.recorded.slice(1)).toMatchObject([
      { denial: 'REPLAY_DETECTED', isObserved: true },
      { isObserved: false },
      { denial: 'LIMIT_REACHED', isObserved: true },
    ]);
  });

  it('lets pass where the check itself fails', async () => {
    const verify = () => Promise.reject(new Error('no verdict'));
    const { decider, rejections } = await open(OBSERVE, { parts: { signatures: { verify } } });
    const decision = await decider.decide(callOf('mcp'));
    expect(decision).toMatchObject({ kind: 'pass', observed: 'VERIFIER_UNAVAILABLE' });
    expect(rejections.internal).toBe(1);
  });

  it('says so each hour until it is closed', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const [trial, enforcing] = [await open(OBSERVE), await open()];
    vi.advanceTimersByTime(7_200_000);
    await trial.close();
    vi.advanceTimersByTime(7_200_000);
    vi.useRealTimers();
    const warning = {
      level: 40,
      msg: expect.stringMatching(/^GATE_MODE is observe: .* protects nobody/) as string,
    };
    expect(trial.lines).toMatchObject([warning, warning]);
    expect(enforcing.lines).toEqual([]);
    await enforcing.close();
  });
});
