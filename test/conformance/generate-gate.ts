import { gateRequests, type GateRequest } from '../oracle/differential/gate/requests.js';
import { Random } from '../oracle/generator/random.js';
import { askOracleGate, type Decision, type GateAsked, type Profile } from './oracle.js';

const PLAIN: Profile = { settings: {}, revocation: { remote: 'none', local: [] } };
const MAX_LENGTH = 6_000;
const OF_A_KIND = 2;
const TRIES = 6_000;

/** Makes vectors for a gate: single requests without replay protection, and sequences of requests with it. */
export function gateVectors(seed: number, now: number, times: readonly number[]): object[] {
  const next = gateRequests(new Random(seed));
  const counts = new Map<string, number>();
  const vectors: object[] = [];
  const allowed: GateAsked[] = [];
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const request = toAsked(next(now));
    if (JSON.stringify(request).length > MAX_LENGTH) continue;
    const ask = (at: number) => askOracleGate(PLAIN, [{ request, now: at }], 'nothing')[0] as Decision;
    const expected = ask(now);
    if (!times.every((at) => JSON.stringify(ask(at)) === JSON.stringify(expected))) continue;
    const { decision, code, status } = expected;
    // There are other vectors for verdicts. Here, one code of a verdict is enough to show that the gate asks for one.
    const isVerdict = status === 403 && !GATE_CODES.has(code ?? '');
    const kind = isVerdict ? String(code) : `${request.protocol} ${code ?? decision} ${status ?? ''}`;
    if (expected.decision === 'allow' && isFresh(request, now)) allowed.push(request);
    const count = (counts.get(kind) ?? 0) + 1;
    if (count > (isVerdict ? 1 : OF_A_KIND)) continue;
    counts.set(kind, count);
    vectors.push({
      id: `gate-${request.protocol}-${(code ?? decision).toLowerCase().replaceAll('_', '-')}-${count}`,
      ...{ kind: 'gate', profile: 'plain', description: `${request.method}: ${code ?? decision}` },
      ...{ now, anyTime: true, request, expected },
    });
  }
  return [...uniqueIds(vectors), ...replayVectors(allowed, now)];
}

const GATE_CODES: ReadonlySet<string> = new Set([
  'UNKNOWN_METHOD',
  'MISSING_BUNDLE',
  'BINDING_MISMATCH',
  'COMMAND_MISMATCH',
  'MALFORMED_BUNDLE',
]);
const uniqueIds = (vectors: object[]) => [
  ...new Map(vectors.map((vector) => [(vector as { id: string }).id, vector])).values(),
];

/** Whether a gate allows a request also if it counts for the limits of all calls. */
const isFresh = (request: GateAsked, now: number) =>
  askOracleGate(PLAIN, [{ request, now }], 'usage')[0]?.decision === 'allow';

/** Vectors that repeat a request: at other times, and after it was refused for another reason. */
function replayVectors(allowed: readonly GateAsked[], now: number): object[] {
  const of = (protocol: string) => allowed.filter((request) => request.protocol === protocol).slice(0, 2);
  return ['http', 'mcp', 'a2a'].flatMap((protocol) => {
    const [one, other] = of(protocol);
    if (one === undefined || other === undefined) throw new Error(`no allowed request over ${protocol}`);
    const altered = { ...one, body_text: one.body_text.replace(/\}\s*$/, ',"x":1}') };
    const games: Record<string, { request: GateAsked; now: number }[]> = {
      twice: [0, 0].map(() => ({ request: one, now })),
      'again until it is stale': [0, 900, 901, 2_000].map((later) => ({ request: one, now: now + later })),
      'two calls': [one, other, one, other].map((request) => ({ request, now })),
      'refused first': [altered, one, one].map((request) => ({ request, now })),
      'from the future': [-1_000, -61, 0].map((earlier) => ({ request: one, now: now + earlier })),
    };
    return Object.entries(games).map(([name, steps]) => {
      const decisions = askOracleGate(PLAIN, steps, 'invocations');
      // These vectors are for verifiers that do not count, too.
      const counted = askOracleGate(PLAIN, steps, 'usage');
      if (JSON.stringify(counted) !== JSON.stringify(decisions)) throw new Error(`${name} reaches a limit`);
      return {
        id: `replay-${protocol}-${name.replaceAll(' ', '-')}`,
        ...{ kind: 'replay', profile: 'plain', description: name, now, anyTime: false },
        steps,
        expected: { decisions },
      };
    });
  });
}

function toAsked({ protocol, method, path, headers, body }: GateRequest): GateAsked {
  const map: Record<string, string[]> = {};
  for (const [name, value] of headers) if (!/^content[-_]/i.test(name)) (map[name] ??= []).push(value);
  return { protocol, method, ...(protocol === 'a2a' ? { path } : {}), headers: map, body_text: body };
}
