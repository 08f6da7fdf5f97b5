import { createRequire } from 'node:module';
import path from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type uWebSockets from 'uWebSockets.js';

// Loaded before a service. Each POST first does some fixed work: a slow-down that a comparison must find. Without `?rounds` it
// is many times a request, so that no neighbour hides it.
const rounds = Number(new URL(import.meta.url).searchParams.get('rounds') ?? 640_000);

let sink = 1;
function burn(): void {
  let state = sink;
  for (let at = 0; at < rounds; at++) state = (Math.imul(state, 48_271) + at) | 0;
  sink = state;
}

if (isMainThread) {
  // The service's own copy of the package, wherever its tree is.
  const require = createRequire(path.resolve(process.argv[1] ?? ''));
  const uWS = require('uWebSockets.js') as typeof uWebSockets;
  const makeApp = uWS.App;
  uWS.App = (...options) => {
    const app = makeApp(...options);
    for (const method of ['any', 'post'] as const) {
      const route = app[method].bind(app);
      app[method] = (pattern, handler) =>
        route(pattern, (res, req) => {
          // Not getMethod, which turns the request's own text into lower case.
          if (req.getCaseSensitiveMethod() === 'POST') burn();
          return handler(res, req);
        });
    }
    return app;
  };
}
