import { createRequire } from 'node:module';
import path from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type uWebSockets from 'uWebSockets.js';

// Loaded before the service: each POST first burns as much processor time as it is told, in rounds of a fixed piece of
// work, so that a planted slow-down is as much work on a slow moment of the machine as on a fast one.
const MICROSECONDS = Number(process.env['BENCH_PLANTED_MICROSECONDS']);
const CALIBRATION_ROUNDS = 100_000;

let sink = 1;
function burn(rounds: number): void {
  let state = sink;
  for (let at = 0; at < rounds * 32; at++) state = (Math.imul(state, 48_271) + at) | 0;
  sink = state;
}

if (isMainThread && MICROSECONDS > 0) {
  // The service's own copy of the package, wherever its tree is.
  const require = createRequire(path.resolve(process.argv[1] ?? ''));
  const uWS = require('uWebSockets.js') as typeof uWebSockets;
  // Twice before, for the compiler.
  for (let at = 0; at < 2; at++) burn(CALIBRATION_ROUNDS);
  const before = process.cpuUsage();
  burn(CALIBRATION_ROUNDS);
  const { user, system } = process.cpuUsage(before);
  const rounds = Math.max(1, Math.round((MICROSECONDS * CALIBRATION_ROUNDS) / (user + system)));
  const makeApp = uWS.App;
  uWS.App = (...options) => {
    const app = makeApp(...options);
    for (const method of ['any', 'post'] as const) {
      const route = app[method].bind(app);
      app[method] = (pattern, handler) =>
        route(pattern, (res, req) => {
          if (req.getMethod() === 'post') burn(rounds);
          return handler(res, req);
        });
    }
    return app;
  };
}
