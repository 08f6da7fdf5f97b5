import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import type { Engine, Outcome, Request } from '../../src/engine/engine.js';
import { GATE_PROTOCOLS, headersOf } from '../../src/gate/index.js';
import { createMemoryReplayStore } from '../../src/replay/index.js';
import { Admission } from '../../src/server/admission.js';
import { Backlog } from '../../src/server/backlog.js';
import { GateDecider, type GateDeciderContext } from '../../src/server/gate-decider.js';
import { WorkDropped } from '../../src/signatures/signature-verifier.js';
import { a2aBundle, a2aCall, httpCall, mcpBundle, toolCall } from '../gate/attacks.js';

// A fake engine, since the real one cannot fail on demand.
type Verify = (request: Request) => Promise<Outcome>;

function open(verify: Verify, more: Partial<GateDeciderContext> = {}) {
  const limits = { maxPending: 1, maxBodyMemory: 1024 * 1024, queueTargetMs: 60_000 };
  const admission = new Admission(limits, new Backlog(limits, { waitMs: 0 }));
  const counted: string[] = [];
  const decider = new GateDecider({
    engine: { verify } as unknown as Engine,
    configuration: { replayWindowSecs: 900, clockSkewSecs: 0, trustedRoots: undefined },
    admission,
    log: pino({ level: 'silent' }),
    replays: createMemoryReplayStore(),
    signer: null,
    observer: {
      decided: (protocol, decision, code) => counted.push(`${protocol} ${decision} ${code}`),
      countOutcome: () => undefined,
    },
    ...more,
  });
  return { admission, counted, decider };
}

const CALLS = {
  http: { bundle: () => mcpBundle(), body: httpCall },
  mcp: { bundle: () => mcpBundle(), body: toolCall() },
  chain: { bundle: () => mcpBundle(), body: toolCall() },
  a2a: { bundle: () => a2aBundle(), body: a2aCall() },
};

function callOf(protocol: keyof typeof CALLS) {
  const { bundle, body: text } = CALLS[protocol];
  const headers = headersOf({ 'X-DRS-Bundle': bundle() });
  return {
    protocol,
    request: { method: 'POST', headers, body: { kind: 'text', text } as const },
    bytes: text.length,
  };
}

const UNAVAILABLE = {
  kind: 'deny',
  code: 'VERIFIER_UNAVAILABLE',
  response: expect.objectContaining({ status: 503 }) as object,
};

describe.each(GATE_PROTOCOLS)('a gate for %s', (protocol) => {
  it.each<[string, Verify]>([
    [
      'at once',
      () => {
        throw new RangeError('Maximum call stack size exceeded');
      },
    ],
    ['later', () => Promise.reject(new Error('no verdict'))],
    ['since nobody waits any more', () => Promise.reject(new WorkDropped('nobody waits'))],
    ['in its answer', () => Promise.resolve({ failure: null } as Outcome)],
    ['by answering nothing', () => Promise.resolve(undefined as never)],
  ])('denies where the verifier throws: %s', async (_, verify) => {
    const { admission, counted, decider } = open(verify);
    // One request may wait at a time: if its place were not given back, the second would find none.
    for (let call = 0; call < 2; call++) expect(await decider.decide(callOf(protocol))).toEqual(UNAVAILABLE);
    expect([admission.pending, admission.bodyBytes]).toEqual([0, 0]);
    expect(counted).toEqual(Array(2).fill(`${protocol} deny VERIFIER_UNAVAILABLE`));
  });

  it('asks admission before a call waits for the status list', async () => {
    const waiting: { request: Request; fail: (error: Error) => void }[] = [];
    const { admission, decider } = open(
      (request) => new Promise((_, fail) => waiting.push({ request, fail })),
    );
    const decide = () => decider.decide(callOf(protocol));
    const decisions = [decide()];
    // The first leaves its place to the second. Nobody else may: half of one place is all that may wait.
    expect(waiting[0]?.request.mayWait?.()).toBe(true);
    decisions.push(decide());
    expect(waiting[1]?.request.mayWait?.()).toBe(false);
    for (const { fail } of waiting) fail(new Error('no verdict'));
    for (const decision of decisions) expect(await decision).toEqual(UNAVAILABLE);
    expect(admission.pending).toBe(0);
  });

  it('denies where there is no room, or the service is shutting down', async () => {
    let asked = 0;
    const { admission, decider } = open(() => Promise.reject(new Error(`asked ${++asked} times`)));
    const ticket = admission.enter(1);
    expect(await decider.decide(callOf(protocol))).toEqual(UNAVAILABLE);
    ticket?.release();
    admission.isDraining = true;
    expect(await decider.decide(callOf(protocol))).toEqual(UNAVAILABLE);
    expect(asked).toBe(0);
  });
});
