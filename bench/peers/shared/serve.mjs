import fastify from 'fastify';

// Serves the peer of this name.
const { verify } = await import(`../${process.argv[2]}.mjs`);
const app = fastify();
app.post('/verify', (request) => verify(request.body));
await app.listen({ port: 0, host: '127.0.0.1' });
process.on('SIGTERM', () => process.exit(0));
console.log(JSON.stringify({ port: app.server.address().port }));
