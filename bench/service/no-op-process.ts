import uWS from 'uWebSockets.js';

// Reads the body and answers at once: what uWebSockets.js, the kernel and the load generator cost without any
// verification.
const policy = { allowed_tools: ['search', 'fetch', 'summarise'], max_cost_usd: 10 };
const root = `did:key:z${'6'.repeat(47)}`;
const context = { root_principal: root, chain_depth: Number(process.env['DEPTH'] ?? 1), leaf_policy: policy };
const ANSWER = JSON.stringify({ valid: true, context });

uWS
  .App()
  .post('/*', (res) => {
    res.onAborted(() => undefined);
    res.onData((_chunk, isLast) => {
      if (!isLast) return;
      res.cork(() => {
        res.writeHeader('Content-Type', 'application/json');
        res.end(ANSWER);
      });
    });
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('the server cannot listen on 127.0.0.1');
    process.stdout.write(`${JSON.stringify({ port: uWS.us_socket_local_port(socket) })}\n`);
  });
process.on('SIGTERM', () => process.exit(0));
