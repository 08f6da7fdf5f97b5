import sodium from 'sodium-native';
import { Worker } from 'node:worker_threads';
import uWS from 'uWebSockets.js';

// Refuses everything at once, and is otherwise as busy as an overloaded service: WORKERS threads that never rest, and a
// main thread that looks at its sockets every tenth of a millisecond. What a refusal takes here is what the load generator
// and the operating system take.
const BUSY_MS = 0.1;
const REFUSAL = JSON.stringify({ error: 'overloaded' });
const busy = 'for (;;);';
const message = Buffer.alloc(900);
const digest = Buffer.alloc(sodium.crypto_hash_sha512_BYTES);

function work(): void {
  const end = performance.now() + BUSY_MS;
  while (performance.now() < end) sodium.crypto_hash_sha512(digest, message);
  setImmediate(work);
}

for (let n = 0; n < Number(process.env['WORKERS'] ?? 0); n++) new Worker(busy, { eval: true });
uWS
  .App()
  .post('/*', (res) => {
    res.onAborted(() => undefined);
    res.onData((_chunk, isLast) => {
      if (!isLast) return;
      res.cork(() => {
        res.writeStatus('503 Service Unavailable');
        res.writeHeader('Content-Type', 'application/json');
        res.writeHeader('Retry-After', '1');
        res.end(REFUSAL);
      });
    });
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('the refusing server cannot listen on 127.0.0.1');
    process.stdout.write(`${JSON.stringify({ port: uWS.us_socket_local_port(socket) })}\n`);
    work();
  });
process.on('SIGTERM', () => process.exit(0));
