import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openEngine } from '../../src/verifier/create-verifier.js';
import type { Engine } from '../../src/verifier/engine.js';
import { judge, type Call, type Judgement } from '../../src/verify/judge.js';
import { GATE_PROTOCOLS } from '../../src/gate/open.js';
import { headersOf } from '../../src/gate/request.js';
import { createMemoryReplayStore } from '../../src/usage/index.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { deciderOf, openGate, type GateDeciderContext } from '../../src/service/gate-decider.js';
import { Metrics } from '../../src/service/observe/metrics/metrics.js';
import { generateKey } from '../../src/issue/index.js';
import { WorkDropped } from '../../src/signatures/signature-verifier.js';
import { a2aBundle, a2aCall, httpCall, mcpBundle, toolCall } from '../gate/attacks.js';

// A fake judge, since the real one cannot fail on demand.
type Verify = (request: Call) => Promise<Judgement>;

function open(verify: Verify, more: Partial<GateDeciderContext> = {}) {
  const counted: string[] = [];
  const rejected: string[] = [];
  const recorded: string[] = [];
  const decider = deciderOf({
    judge: verify,
    clock: () => Math.floor(Date.now() / 1000),
    configuration: readConfiguration({ SERVER_IDENTITY: 'any' }),
    log: pino({ level: 'silent' }),
    verdicts: { record: (_, { failure }, __, denial) => recorded.push(failure?.code ?? denial ?? 'valid') },
    replays: createMemoryReplayStore(),
    signer: null,
    routes: { current: 'any' },
    metrics: {
      gate: {},
      countDecision: (protocol, decision, code) => counted.push(`${protocol} ${decision} ${code}`),
      countOutcome: () => undefined,
      countRejection: (endpoint, reason) => rejected.push(`${endpoint} ${reason}`),
    },
    ...more,
  });
  return { counted, rejected, recorded, decider };
}

const asked = { endpoint: 'gate', traceparent: null, code: null, requestId: 'r-1', address: null } as const;
const CALLS = {
  http: { bundle: () => mcpBundle(), body: httpCall },
  mcp: { bundle: () => mcpBundle(), body: toolCall() },
  a2a: { bundle: () => a2aBundle(), body: a2aCall() },
};

function callOf(protocol: keyof typeof CALLS) {
  const { bundle, body: text } = CALLS[protocol];
  const headers = headersOf({ 'X-DRS-Bundle': bundle() });
  return {
    protocol,
    ...{ endpoint: 'gate' as const, asked },
    request: { method: 'POST', path: '/a2a', headers, body: { kind: 'text', text } as const },
  };
}

const UNAVAILABLE = {
  kind: 'deny',
  code: 'VERIFIER_UNAVAILABLE',
  response: expect.objectContaining({ status: 503 }) as object,
};

describe.each(GATE_PROTOCOLS)('a gate for %s', (protocol) => {
  it.each<[string, Verify, string?]>([
    [
      'at once',
      () => {
        throw new RangeError('Maximum call stack size exceeded');
      },
    ],
    ['later', () => Promise.reject(new Error('no verdict'))],
    ['since nobody waits any more', () => Promise.reject(new WorkDropped('nobody waits')), 'nothing'],
    ['in its answer', () => Promise.resolve({ failure: null } as Judgement)],
    ['by answering nothing', () => Promise.resolve(undefined as never)],
  ])('denies where the verifier throws: %s', async (_, verify, reason = 'gate internal') => {
    const { counted, rejected, decider } = open(verify);
    for (let call = 0; call < 2; call++) expect(await decider.decide(callOf(protocol))).toEqual(UNAVAILABLE);
    expect(counted).toEqual(Array(2).fill(`${protocol} deny VERIFIER_UNAVAILABLE`));
    expect(rejected).toEqual(reason === 'nothing' ? [] : [reason, reason]);
  });

  it('asks its transport before it waits for the status list', async () => {
    const asked: Call[] = [];
    const { decider } = open((request) => (asked.push(request), Promise.reject(new Error('no verdict'))));
    await decider.decide({ ...callOf(protocol), mayWait: () => false });
    await decider.decide(callOf(protocol));
    expect(asked.map(({ mayWait }) => mayWait?.())).toEqual([false, undefined]);
  });
});

describe('a request without a verdict', () => {
  const { decider, counted, rejected } = open(() => Promise.reject(new Error('nobody asks')));
  const bodyOf = (decision: ReturnType<typeof decider.unread>) =>
    decision.kind === 'deny' ? [decision.response.status, decision.response.body] : decision;

  it('is denied in the form of its protocol', () => {
    const [http, mcp, a2a] = (['http', 'mcp', 'a2a'] as const).map((protocol) =>
      bodyOf(decider.unread({ protocol, endpoint: 'gate' }, 'overloaded')),
    );
    expect(http).not.toEqual(mcp);
    expect(a2a).not.toEqual(http);
  });

  it.each(GATE_PROTOCOLS)('is denied and counted where its body did not come: %s', (protocol) => {
    expect(decider.unread({ protocol, endpoint: 'gate' }, 'timeout')).toMatchObject({
      code: 'BODY_TIMEOUT',
      response: { status: 408 },
    });
    expect(counted.at(-1)).toBe(`${protocol} deny BODY_TIMEOUT`);
    expect(rejected.at(-1)).toBe('gate timeout');
  });

  it('is counted where its body is too large', async () => {
    const call = callOf('http');
    const body = { kind: 'too large', reason: 'it is large' } as const;
    const decision = await decider.decide({ ...call, request: { ...call.request, body } });
    expect(decision).toMatchObject({ code: 'BODY_TOO_LARGE', response: { status: 413 } });
    expect([counted.at(-1), rejected.at(-1)]).toEqual(['http deny BODY_TOO_LARGE', 'gate too_large']);
  });
});

describe('what the gate logs', () => {
  const linesOf = async (error: Error) => {
    const lines: Record<string, unknown>[] = [];
    const log = pino({}, { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
    const { decider } = open(() => Promise.reject(error), { log });
    await decider.decide(callOf('mcp'));
    return lines;
  };

  it('is a fault inside of it, but not a caller that has gone', async () => {
    expect(await linesOf(new Error('no verdict'))).toMatchObject([
      { level: 50, msg: 'a request failed inside the gate', err: { message: 'no verdict' } },
    ]);
    expect(await linesOf(new WorkDropped('nobody waits'))).toEqual([]);
  });
});

describe('with a verdict', () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine(
      readConfiguration({ WORKER_THREADS: '0', REPLAY_PROTECTION: 'memory', REQUIRE_BINDING: '1' }),
    );
  });
  afterAll(() => engine.close());

  function openReal(more: Partial<GateDeciderContext> = {}) {
    const warnings: unknown[] = [];
    const log = pino({}, { write: (line) => void warnings.push((JSON.parse(line) as { msg: unknown }).msg) });
    const parts = { ...engine.parts, requiresBinding: false, use: null };
    return { warnings, ...open((call) => judge(call, parts), { log, ...more }) };
  }
  const passing = () => ({
    ...{ protocol: 'mcp' as const, endpoint: 'gate' as const, asked },
    request: {
      method: 'POST',
      path: null,
      headers: headersOf({}),
      body: { kind: 'text', text: '{"jsonrpc":"2.0","id":1,"method":"ping"}' } as const,
    },
  });

  it.each(GATE_PROTOCOLS)('allows a call once and counts it: %s', async (protocol) => {
    const { decider, counted, recorded } = openReal();
    const call = callOf(protocol);
    const kinds = [await decider.decide(call), await decider.decide(call), await decider.decide(passing())];
    expect(kinds.map(({ kind }) => kind)).toEqual(['allow', 'deny', 'pass']);
    expect(counted).toEqual([`${protocol} allow `, `${protocol} deny REPLAY_DETECTED`, 'mcp pass ']);
    // Not the request that passes: it has no verdict.
    expect(recorded).toEqual(['valid', 'REPLAY_DETECTED']);
  });

  it('allows a call again where the gate keeps no record, and uses up nothing of /verify', async () => {
    const { decider } = openReal({ replays: null });
    const call = callOf('mcp');
    for (let time = 0; time < 2; time++) expect((await decider.decide(call)).kind).toBe('allow');
  });

  const key = generateKey();
  describe('and with what its configuration asks for', () => {
    const ANY = { SERVER_IDENTITY: 'any' };
    async function openWith(env: Record<string, string>, listAgeSecs = 0) {
      const warnings: unknown[] = [];
      const log = pino(
        {},
        { write: (line) => void warnings.push((JSON.parse(line) as { msg: unknown }).msg) },
      );
      const gate = await openGate({
        engine: Object.assign(Object.create(engine) as Engine, {
          parts: engine.parts,
          revocation: { list: 'STATUS_LIST_BASE_URL' in env ? { ageSecs: listAgeSecs } : null },
        }),
        configuration: readConfiguration(env),
        ...{ log, verdicts: { record: () => undefined } as never, metrics: new Metrics() },
      });
      return { gate, warnings };
    }

    it('keeps its own record, and closes it', async () => {
      const { gate, warnings } = await openWith(ANY);
      const call = callOf('mcp');
      expect((await gate.decider.decide(call)).kind).toBe('allow');
      expect(await gate.decider.decide(call)).toMatchObject({ code: 'REPLAY_DETECTED' });
      expect([gate.replays === null, gate.signer, gate.routes.current]).toEqual([false, null, null]);
      expect(warnings).toEqual([expect.stringMatching(/TRUSTED_ROOTS/)]);
      const { replays } = gate;
      if (replays === null) throw new Error('it keeps no record');
      const close = vi.spyOn(replays, 'close');
      await gate.close();
      expect(close).toHaveBeenCalledOnce();
    });

    it('keeps none and says so where it may not', async () => {
      const { gate, warnings } = await openWith({ ...ANY, GATE_REPLAY: 'off', GATE_ROUTES: 'any' });
      expect([gate.replays, gate.routes.current]).toEqual([null, 'any']);
      expect(warnings).toEqual([expect.stringMatching(/^GATE_REPLAY is off: a call .* can be repeated/)]);
      await gate.close();
    });

    it.each<[Record<string, string>, number, object]>([
      [{}, 7, { list_age_secs: null, lists: [] }],
      [
        { STATUS_LIST_BASE_URL: 'https://lists.example/a' },
        ...([7.9, { list_age_secs: 7, lists: ['https://lists.example/a'] }] as const),
      ],
      [
        { STATUS_LIST_BASE_URL: 'https://lists.example/a' },
        ...([-1, { list_age_secs: 0, lists: ['https://lists.example/a'] }] as const),
      ],
    ])(
      'signs the age of the lists that were checked, in whole seconds from 0 on: %j, %d s',
      async (env, age, revocation) => {
        const { gate } = await openWith({ ...ANY, GATE_SIGNING_KEY: key.toJwk().d, ...env }, age);
        const decision = await gate.decider.decide(callOf('mcp'));
        if (decision.kind !== 'allow') throw new Error('it is denied');
        expect(gate.signer?.read(decision.token ?? '')).toMatchObject({ iss: key.did, revocation });
        await gate.close();
      },
    );
  });

  it('warns once that calls under any root are allowed, but not where roots are trusted', async () => {
    const { decider, warnings } = openReal();
    expect((await decider.decide(passing())).kind).toBe('pass');
    expect(warnings).toEqual([]);
    for (let call = 0; call < 2; call++) expect((await decider.decide(callOf('mcp'))).kind).toBe('allow');
    expect(warnings).toEqual([
      expect.stringMatching(
        /^the gate allowed a call, and neither TRUSTED_ROOTS nor TRUSTED_ROOTS_FILE is set: .* principals whose delegations count$/,
      ),
    ]);
    for (const roots of [{ TRUSTED_ROOTS: key.did }, { TRUSTED_ROOTS_FILE: 'roots.jsonl' }]) {
      const trusting = openReal({ configuration: readConfiguration({ SERVER_IDENTITY: 'any', ...roots }) });
      expect((await trusting.decider.decide(callOf('mcp'))).kind).toBe('allow');
      expect(trusting.warnings).toEqual([]);
    }
  });
});
