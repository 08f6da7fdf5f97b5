// Simulates N instances behind a balancer: the hit ratio of their receipt caches, and their requests to the status list
// and to Redis. No service runs. `node scripts/simulate-scaling.mjs`; docs/scaling.md has the results.
//   --instances 10   --agents 1000000   --zipf 1.0   --requests 2000000   --chains 16000 (that fit into one cache)
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    instances: { type: 'string', default: '1,4,10,40' },
    agents: { type: 'string', default: '1000000' },
    zipf: { type: 'string', default: '1.0' },
    requests: { type: 'string', default: '2000000' },
    chains: { type: 'string', default: '16000' },
  },
});
const [agents, zipf, requests, chains] = [values.agents, values.zipf, values.requests, values.chains].map(
  Number,
);

// A seeded random generator (mulberry32), so that two runs give the same table.
let state = 1;
const random = () => {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};

/** The cumulative share of calls of the agents, busiest first. */
const shares = new Float64Array(agents);
let total = 0;
for (let agent = 0; agent < agents; agent++) shares[agent] = total += 1 / (agent + 1) ** zipf;
const drawAgent = () => {
  const wanted = random() * total;
  let [low, high] = [0, agents - 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (shares[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
};
/** @param {number} agent */
const hash = (agent) => Math.imul(agent + 1, 0x9e3779b1) >>> 0;

/**
 * The share of requests whose chain is in the cache of their instance, after a first half that fills the caches.
 *
 * @param {number} instances
 * @param {boolean} byPrincipal
 */
function simulate(instances, byPrincipal) {
  /** @type {Map<number, boolean>[]} */
  const caches = Array.from({ length: instances }, () => new Map());
  const load = Array.from({ length: instances }, () => 0);
  let hits = 0;
  for (let request = 0; request < requests; request++) {
    const agent = drawAgent();
    const at = byPrincipal ? hash(agent) % instances : Math.floor(random() * instances);
    const cache = caches[at];
    load[at]++;
    const isHit = cache.delete(agent);
    if (isHit && request >= requests / 2) hits++;
    cache.set(agent, true);
    if (cache.size > chains) cache.delete(cache.keys().next().value);
  }
  return { ratio: hits / (requests / 2), busiest: (Math.max(...load) * instances) / requests };
}

console.log(`${agents} agents (Zipf ${zipf}), ${chains} chains to a cache, ${requests} requests\n`);
console.log(
  '| instances | hit ratio, any instance | hit ratio, by root principal | busiest instance, by root principal |',
);
console.log('|--:|--:|--:|--:|');
for (const instances of values.instances.split(',').map(Number)) {
  const [any, by] = [simulate(instances, false), simulate(instances, true)];
  const percent = (ratio) => `${(100 * ratio).toFixed(1)} %`;
  console.log(
    `| ${instances} | ${percent(any.ratio)} | ${percent(by.ratio)} | ${by.busiest.toFixed(2)} × the mean |`,
  );
}
