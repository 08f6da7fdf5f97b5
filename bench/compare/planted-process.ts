import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { median } from 'simple-statistics';
import type uWebSockets from 'uWebSockets.js';

// Loaded before the service. Each POST first does a number of rounds of fixed work. So a planted slow-down is the same
// amount of work in slow and fast moments of the machine. At its end, the process writes how long the work took.
const ROUNDS = Number(process.env['BENCH_PLANTED_ROUNDS']);
const REPORT = process.env['BENCH_PLANTED_REPORT'] ?? '';
const MEASURE_EVERY = 8;
const SAMPLES = 4096;

let sink = 1;
function burn(rounds: number): void {
  let state = sink;
  for (let at = 0; at < rounds * 32; at++) state = (Math.imul(state, 48_271) + at) | 0;
  sink = state;
}

if (isMainThread && ROUNDS > 0) {
  // The service's own copy of the package, wherever its tree is.
  const require = createRequire(path.resolve(process.argv[1] ?? ''));
  const uWS = require('uWebSockets.js') as typeof uWebSockets;
  const samples = new Float64Array(SAMPLES);
  let count = 0;
  // The median time of a round is processor time, since few rounds are interrupted.
  const burnOnce = () => {
    if (count++ % MEASURE_EVERY !== 0) {
      burn(ROUNDS);
      return;
    }
    const start = process.hrtime.bigint();
    burn(ROUNDS);
    samples[((count / MEASURE_EVERY) % SAMPLES) | 0] = Number(process.hrtime.bigint() - start) / 1000;
  };
  const makeApp = uWS.App;
  uWS.App = (...options) => {
    const app = makeApp(...options);
    for (const method of ['any', 'post'] as const) {
      const route = app[method].bind(app);
      app[method] = (pattern, handler) =>
        route(pattern, (res, req) => {
          if (req.getMethod() === 'post') burnOnce();
          return handler(res, req);
        });
    }
    return app;
  };
  process.on('exit', () => {
    const taken = samples.filter((micros) => micros > 0);
    if (taken.length > 0) writeFileSync(REPORT, String(median([...taken])));
  });
}
