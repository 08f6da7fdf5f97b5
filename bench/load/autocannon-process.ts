import autocannon from 'autocannon';
import { encodeLatencies, newLatencies } from '../measure/latencies.js';
import type { AutocannonJob, AutocannonReport } from './autocannon.js';
import { RequestSource } from './request-source.js';

const { workload, port, connections, seconds } = JSON.parse(process.argv[2] ?? '') as AutocannonJob;
const requests = new RequestSource(workload);
const latencies = newLatencies();
let firstWrong = '';

const options: autocannon.Options = {
  url: `http://127.0.0.1:${port}`,
  connections,
  duration: seconds,
  timeout: 30,
  sampleInt: 100,
  requests: [
    {
      method: 'POST',
      path: '/verify',
      headers: { 'Content-Type': 'application/json' },
      setupRequest: (request) => ({ ...request, body: requests.next().body }),
    },
  ],
  // Its own histogram counts in whole milliseconds.
  setupClient: (client) =>
    client.on('response', (_status, _bytes, milliseconds) =>
      latencies.recordValue(Math.max(1, Math.round(milliseconds * 1000))),
    ),
  verifyBody: (body) => {
    const text = String(body);
    if (text.includes(workload.marker)) return true;
    firstWrong ||= text.slice(0, 300);
    return false;
  },
};
const start = performance.now();
const result = await autocannon(options);
const report: AutocannonReport = {
  seconds: (performance.now() - start) / 1000,
  requests: result.requests.total,
  latencies: encodeLatencies(latencies),
  wrong: result.mismatches + result.errors + result.timeouts + result.non2xx,
  firstWrong,
};
process.stdout.write(JSON.stringify(report));
