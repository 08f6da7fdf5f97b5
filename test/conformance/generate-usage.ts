import { NOW } from '../oracle/generator/forest.js';
import { didOf } from '../oracle/generator/keys.js';
import { buildBundle, type Link } from '../oracle/generator/recipe.js';
import { fromValue, writeJson, type JsonObject } from '../oracle/json.js';
import { askOracleGate, type GateAsked, type Profile } from './oracle.js';

const PLAIN: Profile = { settings: {}, revocation: { remote: 'none', local: [] } };

type Value = Record<string, unknown>;
interface Step {
  readonly request: GateAsked;
  readonly now: number;
}

let serial = 0;
const toLink = (key: number, claims: Value): Link => ({ key, claims: fromValue(claims) as JsonObject });

/** A chain by the keys 0, 1, 2 …, a receipt for each policy. Another chain with the same policies has other receipts. */
function chainOf(...policies: readonly Value[]): Link[] {
  return policies.reduce<Link[]>((above, policy) => [...above, below(above, policy)], []);
}

/** One more receipt under a chain. */
function below(above: readonly Link[], policy: Value, exp?: number): Link {
  const key = above.length % 10;
  return toLink(key, {
    ...{ drs_type: 'delegation-receipt', drs_v: '4.0', jti: `dr:usage-${serial++}` },
    ...{ iss: didOf(key), aud: didOf((key + 1) % 10), sub: didOf(0), cmd: '/tools' },
    ...{ policy, iat: NOW - 100, nbf: NOW - 100, exp: exp ?? null },
    ...(above.length === 0 && { drs_root_type: 'organisation' }),
  });
}

/** A new call under a chain, of a cost if one is given. */
function call(chain: readonly Link[], cost?: number, later = 0): Step {
  const key = chain.length % 10;
  const args = { tool: 'search', ...(cost !== undefined && { estimated_cost_usd: cost }) };
  const invocation = toLink(key, {
    ...{ drs_type: 'invocation-receipt', drs_v: '4.0', jti: `inv:usage-${serial++}` },
    ...{ iss: didOf(key), sub: didOf(0), cmd: '/tools', tool_server: 'https://tools.example' },
    ...{ args, iat: NOW + later },
  });
  const bundle = writeJson(buildBundle({ links: chain, call: invocation, edits: [] }));
  const headers = { 'X-DRS-Bundle': [Buffer.from(bundle).toString('base64url')] };
  const request = { protocol: 'http', method: 'POST', headers, body_text: JSON.stringify(args) } as const;
  return { request, now: NOW + later };
}

const altered = ({ request, now }: Step): Step => ({
  request: { ...request, body_text: request.body_text.replace('}', ',"x":1}') },
  now,
});
const calls = (chain: readonly Link[], ...costs: readonly number[]) => costs.map((cost) => call(chain, cost));

/** Sequences of calls to one gate. Each has chains of its own. */
const GAMES: Readonly<Record<string, () => Step[]>> = {
  'a number of calls': () => {
    const chain = chainOf({ max_calls: 2 });
    return [call(chain), call(chain), call(chain)];
  },
  'no calls': () => [call(chainOf({ max_calls: 0 }))],
  'a replay is not charged, and comes before a limit': () => {
    const chain = chainOf({ max_calls: 2 });
    const [one, two, three] = [call(chain), call(chain), call(chain)];
    return [one, one, two, three, one];
  },
  'a refused call is neither charged nor used up': () => {
    const chain = chainOf({ max_calls: 1 });
    const [one, two] = [call(chain), call(chain)];
    return [altered(one), one, two, two];
  },
  'receipts with the same policy are counted apart': () => [
    call(chainOf({ max_calls: 1 })),
    call(chainOf({ max_calls: 1 })),
  ],
  'receipts below one receipt share its limit': () => {
    const root = chainOf({ max_calls: 2 });
    const [left, right] = [below(root, { max_calls: 2 }), below(root, { max_calls: 2 })];
    return [call([...root, left]), call([...root, right]), call([...root, left])];
  },
  'all levels are charged, or none': () => {
    const root = chainOf({ max_calls: 3 });
    const [narrow, wide] = [below(root, { max_calls: 1 }), below(root, { max_calls: 3 })];
    return [narrow, narrow, wide, wide, wide].map((leaf) => call([...root, leaf]));
  },
  'a sum of costs': () => calls(chainOf({ max_total_cost_usd: 1 }), 0.6, 0.6, 0.4, 0, 1e-7),
  'tenths are exact': () => calls(chainOf({ max_total_cost_usd: 0.3 }), 0.1, 0.1, 0.1, 0, 1e-7),
  'costs are rounded up, limits down': () =>
    calls(chainOf({ max_total_cost_usd: 0.0000029 }), 1e-7, 1.1e-6, 1e-7, 0, 1e-7),
  'the largest amounts': () =>
    calls(chainOf({ max_total_cost_usd: 1e9, max_calls: 2 ** 53 - 1 }), 1e9, 0, 1e-7, 1e9),
  'a call without a cost': () => {
    const chain = chainOf({ max_total_cost_usd: 1, max_calls: 1 });
    return [call(chain), call(chain, 1)];
  },
  'both limits at two levels': () =>
    calls(
      chainOf({ max_total_cost_usd: 1, max_calls: 3 }, { max_total_cost_usd: 0.5, max_calls: 2 }),
      ...[0.4, 0.2, 0.1, 0],
    ),
  'a count outlives the record of invocations': () => {
    const chain = [below([], { max_calls: 2 }, NOW + 2_000)];
    return [0, 1_000, 2_000, 2_001].map((later) => call(chain, undefined, later));
  },
  'sixteen levels': () => {
    const chain = chainOf(...Array.from({ length: 16 }, () => ({ max_calls: 1 })));
    return [call(chain), call(chain)];
  },
};

/** Vectors for gates that count: sequences of calls with what becomes of each. */
export function usageVectors(now: number): object[] {
  return Object.entries(GAMES).map(([name, play]) => {
    const steps = play();
    return {
      id: `usage-${name.replace(/[^a-z0-9]+/g, '-')}`,
      ...{ kind: 'usage', profile: 'plain', description: name, now, anyTime: false },
      steps,
      expected: { decisions: askOracleGate(PLAIN, steps, 'usage') },
    };
  });
}
