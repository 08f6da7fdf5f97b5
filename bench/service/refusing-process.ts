import sodium from 'sodium-native';
import { Worker } from 'node:worker_threads';
import { serveBare } from './bare-server.js';

// Refuses everything at once, and is otherwise as busy as an overloaded service: WORKERS threads that never rest, and a
// main thread that looks at its sockets every tenth of a millisecond. The time of a refusal here is the time that the load
// generator and the operating system take.
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
serveBare((res) => {
  res.writeStatus('503 Service Unavailable');
  res.writeHeader('Content-Type', 'application/json');
  res.writeHeader('Retry-After', '1');
  res.end(REFUSAL);
});
work();
