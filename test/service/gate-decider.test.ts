import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openEngine } from '../../src/verifier/create-verifier.js';
import type { Engine } from '../../src/verifier/engine.js';
import { GATE_PROTOCOLS } from '../../src/gate/open.js';
import { headersOf, type Denial } from '../../src/gate/request.js';
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
  /** The codes in the decision log. */
  const recorded: (string | undefined)[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0]) });
  const metrics = new Metrics();
  const changed = { parts: { ...engine.parts, ...parts }, revocation: { list: list ?? null } };
  const gate = await openGate({
    engine: Object.assign(Object.create(engine) as Engine, changed),
    configuration: readConfiguration({ SERVER_IDENTITY: 'any', GATE_ROUTES: 'any', ...env }),
    verdicts: {
      record: (_: unknown, __: unknown, ___: unknown, denial: Denial | null) =>
        recorded.push(denial?.failure.code),
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

const asked = { endpoint: 'gate', traceparent: null, code: null, requestId: 'r-1', address: null } as const;
const CALLS = {
  http: { bundle: () => mcpBundle(), body: httpCall },
  mcp: { bundle: () => mcpBundle(), body: toolCall() },
  a2a: { bundle: () => a2aBundle(), body: a2aCall() },
};

function callOf(protocol: keyof typeof CALLS, bundle = CALLS[protocol].bundle()) {
  const { body: text } = CALLS[protocol];
  const headers = headersOf({ 'X-DRS-Bundle': bundle });
  return {
    protocol,
    ...{ endpoint: 'gate' as const, asked },
    request: { method: 'POST', path: '/a2a', headers, body: { kind: 'text', text } as const },
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
    expect(recorded).toEqual(isFault ? ['VERIFIER_UNAVAILABLE', 'VERIFIER_UNAVAILABLE'] : []);
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
