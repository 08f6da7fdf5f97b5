import { once } from 'node:events';
import { createServer } from 'node:http';
import { expect, it } from 'vitest';
import { startOnPort } from './ports.mjs';
import { startService } from './service-in-process.js';

it('leaves its port to whoever listens on it next, whatever that answers', async () => {
  const service = await startOnPort((port) => startService({ PORT: String(port) }));
  await service.stop();
  const next = createServer((_, res) => res.writeHead(418).end()).listen(service.port, '127.0.0.1');
  await once(next, 'listening');
  expect((await fetch(`${service.url}/healthz`)).status).toBe(418);
  next.close();
});
