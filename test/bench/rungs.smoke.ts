import { expect, it } from 'vitest';
import { ServerProcess } from '../../bench/service/start.js';
import { forge, garble, makeCall, makeChain } from '../../bench/workload/chains.js';

// In the order of the ladder: what each rung finds out first.
const call = makeCall(makeChain(2));
const bodies = ['', '{', garble(call), forge(call), makeCall(makeChain(2), { tool: 'x' }).body, call.body];

it.each([
  ['no-op', 0],
  ['body', 1],
  ['parse', 2],
  ['invocation', 3],
  ['verification', 4],
  ['judge', 5],
])('the rung "%s" of the ladder does what it is named after, and no more', async (rung, first) => {
  const env = { RUNG: rung, SERVER_IDENTITY: 'any', WORKER_THREADS: '0' };
  await using server = await ServerProcess.start('service/ladder-process.js', { env });
  const ask = async (body: string) => {
    const response = await fetch(`http://127.0.0.1:${server.port}/rung`, { method: 'POST', body });
    return ((await response.json()) as { valid: boolean }).valid;
  };
  expect(await Promise.all(bodies.map(ask))).toEqual(bodies.map((_, at) => at >= first));
});
