import { expect, test } from 'vitest';
import { gateRequests, type GateRequest } from '../oracle/differential/gate/requests.js';
import { hasAnswer, lineOf } from '../oracle/differential/gate/doors.js';
import { verifyRemembered as verifySignature } from '../oracle/differential/signatures.js';
import { decide, Replays } from '../oracle/gate.js';
import { NOW } from '../oracle/generator/forest.js';
import { Random } from '../oracle/generator/random.js';
import { fromValue } from '../oracle/json.js';
import { ECHO, startGuard } from './guard-process.js';

/** 400 take a second of processor time, most of it the oracle's. The long run says how many. */
const MESSAGES = Number(process.env['GUARD_MESSAGES'] ?? 400);
const CLOCK = `data:text/javascript,Date.now=()=>${NOW}000`;

/** The line of a random request: over stdio, a bundle can only be in the message, and each request has an id of its own. */
function lineOfRequest({ headers, body }: GateRequest, at: number): string {
  const bundle = headers.find(([name]) => name === 'X-DRS-Bundle')?.[1];
  const carrying =
    bundle !== undefined && /^[\w-]+$/.test(bundle) && body.endsWith('}}') && !body.includes('"_meta"')
      ? `${body.slice(0, -2)},"_meta":{"X-DRS-Bundle":"${bundle}"}}}`
      : body;
  return carrying
    .replace(/"id":(?:"[^"]*"|-?[\d.]{1,9})(?=[,}])/, `"id":"r-${at}"`)
    .replace(/"method":"[^"]*"/, (method) =>
      at % 10 === 0 ? `"method":${PASSING[(at / 10) % PASSING.length] ?? ''}` : method,
    );
}

const PASSING = [
  '"tools/list"',
  '"ping"',
  '"subscriptions/listen"',
  '"acme/search"',
  '"notifications/progress"',
];

test('random messages get the decisions that the specification gives', async () => {
  const next = gateRequests(new Random(20_261_124));
  const guard = startGuard(['--trusted-root', 'any', '--tool-server', 'any'], ECHO, {
    NODE_OPTIONS: `--import=${CLOCK}`,
    DRS_LOG_LEVEL: 'silent',
  });
  const replays = new Replays(0);
  const expected: { forwarded: string[]; refused: string[] } = { forwarded: [], refused: [] };
  const kinds = new Map<string, number>();
  for (let at = 0; at < MESSAGES;) {
    const request = next(NOW);
    if (request.protocol !== 'mcp') continue;
    const line = lineOfRequest(request, at++);
    if (/^\s*$|\n/.test(line)) continue;
    const asked = { protocol: 'mcp', method: 'POST', headers: [], body: { text: line } } as const;
    const revocation = { remote: 'none', local: new Set<number>() } as const;
    const answer = decide({ ...asked, now: NOW, settings: {}, revocation, replays, verifySignature });
    const decision = lineOf(answer, undefined);
    const [kind = ''] = decision.split(' {');
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    if (answer.decision === 'pass') expected.forwarded.push(shownMessage(line));
    else if (answer.decision === 'allow') expected.forwarded.push(decision);
    else if (hasAnswer(line)) expected.refused.push(answer.code);
    guard.say(line);
    // Both sides read and write at their own pace.
    if (at % 500 === 0) await new Promise(setImmediate);
  }
  guard.process.stdin?.end();
  expect(await guard.ended).toBe(0);
  const found: typeof expected = { forwarded: [], refused: [] };
  for (const line of guard.lines) {
    const said = JSON.parse(line) as {
      method?: string;
      params?: { line: string };
      error?: { data: { code: string } };
    };
    if (said.error !== undefined) found.refused.push(said.error.data.code);
    else if (said.method === 'got') found.forwarded.push(shownForwarded(said.params?.line ?? ''));
  }
  expect(found.refused).toEqual(expected.refused);
  expect(found.forwarded).toEqual(expected.forwarded);
  // Without this, a generator that no longer reaches the checks would pass too.
  expect(kinds.size).toBeGreaterThan(15);
  for (const kind of ['pass', 'allow']) expect(kinds.get(kind), kind).toBeGreaterThan(5);
}, 300_000);

/** What an allowed message looks like to the server: its context, and nothing of its bundle. Else what passes. */
function shownForwarded(line: string): string {
  const meta = (JSON.parse(line) as { params?: { _meta?: Record<string, unknown> } }).params?._meta;
  const context = meta?.['xyz.okeyamy.drs/context'] as { leaf_policy: unknown } | undefined;
  if (context === undefined) return shownMessage(line);
  expect(line).not.toMatch(/X-DRS-Bundle|drs\/bundle/);
  return lineOf(
    { decision: 'allow', context: { ...context, leaf_policy: fromValue(context.leaf_policy) } },
    undefined,
  );
}

/** A passing message without what the guard takes out, as a value: one in which a name comes twice is written anew. */
function shownMessage(line: string): string {
  const message = JSON.parse(line) as { params?: { _meta?: Record<string, unknown> } };
  const meta = message.params?._meta;
  if (typeof meta !== 'object') return JSON.stringify(message);
  const kept = Object.entries(meta).filter(
    ([name]) => !/^(?:X-DRS-Bundle|xyz\.okeyamy\.drs\/bundle)$/.test(name),
  );
  return JSON.stringify({ ...message, params: { ...message.params, _meta: Object.fromEntries(kept) } });
}
