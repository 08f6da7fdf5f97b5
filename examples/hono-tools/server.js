import { serve } from '@hono/node-server';
import { createVerifier } from 'drs-verify';
import { createMemoryReplayStore, drsHono } from 'drs-verify/hono';
import { Hono } from 'hono';

const app = new Hono();
const weather = drsHono({
  verifier: createVerifier(),
  trustedRoots: process.env['TRUSTED_ROOTS']?.split(',') ?? 'any',
  serverIdentity: 'https://weather.example',
  replayStore: createMemoryReplayStore(),
  tool: 'weather',
  eventSink: process.stderr,
});
app.post('/weather', weather, async (c) => {
  const { city } = /** @type {{ city: string }} */ (await c.req.json());
  return c.json({ forecast: `sunny in ${city}`, for: c.var.drs.root_principal });
});
serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000), hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`listening on http://127.0.0.1:${port}/weather`);
});
