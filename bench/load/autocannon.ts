import autocannon from 'autocannon';
import { build } from 'hdr-histogram-js';
import type { Bench } from '../run/suite.js';
import type { ServerProcess } from '../service/start.js';

/**
 * Measures warm calls with a generator that is not ours, as a check of ours: autocannon, in this process, which does
 * nothing else meanwhile. Each answer is checked. It records throughput and latencies.
 */
export async function measureByAutocannon(
  { plan, recorder, say, watch, workloads }: Bench,
  { server, depth, connections }: { server: ServerProcess; depth: number; connections: number },
): Promise<void> {
  const id = `throughput/autocannon/warm/d${depth}/c${connections}`;
  const bodies = workloads.warm(depth).map(({ body }) => body);
  // Its own histogram counts in whole milliseconds.
  const latencies = build({ lowestDiscernibleValue: 1, numberOfSignificantValueDigits: 3 });
  let [next, firstWrong] = [0, ''];
  const result = await watch(id, server.pids, () =>
    autocannon({
      url: `http://127.0.0.1:${server.port}`,
      connections,
      duration: plan.seconds,
      timeout: 30,
      requests: [
        {
          method: 'POST',
          path: '/verify',
          headers: { 'Content-Type': 'application/json' },
          setupRequest: (request) => ({ ...request, body: bodies[next++ % bodies.length] ?? '' }),
        },
      ],
      setupClient: (client) =>
        client.on('response', (_status, _bytes, milliseconds) =>
          latencies.recordValue(Math.max(1, Math.round(milliseconds * 1000))),
        ),
      verifyBody(body) {
        const isRight = String(body).startsWith('{"valid":true,');
        if (!isRight) firstWrong ||= String(body).slice(0, 300);
        return isRight;
      },
    }),
  );
  recorder.blame(id, result.mismatches + result.errors + result.timeouts + result.non2xx, firstWrong);
  const rate = result.requests.total / result.duration;
  recorder.record(`${id}/throughput`, rate);
  recorder.recordLatencies(id, latencies);
  say(`${id}: ${Math.round(rate)} /s`);
}
