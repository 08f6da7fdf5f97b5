import { createVerifier } from 'drs-verify';
import { BUNDLE_HEADER_ROOM, createMemoryReplayStore, drsFastify } from 'drs-verify/fastify';
import fastify from 'fastify';

const app = fastify({ http: { maxHeaderSize: BUNDLE_HEADER_ROOM } });
// Only the routes of this scope are protected.
await app.register(async (tools) => {
  await tools.register(drsFastify, {
    verifier: createVerifier(),
    trustedRoots: process.env['TRUSTED_ROOTS']?.split(',') ?? 'any',
    serverIdentity: 'https://weather.example',
    replayStore: createMemoryReplayStore(),
    // The route says which tool it serves.
    tool: (request) => request.url.slice(1),
    eventSink: process.stderr,
  });
  tools.post('/weather', (request) => {
    const { city } = /** @type {{ city: string }} */ (request.body);
    return { forecast: `sunny in ${city}`, for: request.drs?.root_principal };
  });
});
const url = await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' });
console.log(`listening on ${url}/weather`);
