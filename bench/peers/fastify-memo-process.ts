import cluster from 'node:cluster';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import fastify from 'fastify';
import { LRUCache } from 'lru-cache';
import sodium from 'sodium-native';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import { verifyPlainly } from './plain-verification.js';

// What an experienced engineer would write: Fastify, libsodium, and a cache of verified receipts. Invocations are
// not cached, since each call has a new one. With PEER_CLUSTER=1 it runs on node:cluster; each process has its own
// cache.
const MEMO_BYTES = 64 * 1024 * 1024;
const verified = new LRUCache<string, true>({ maxSize: MEMO_BYTES, sizeCalculation: (_, jwt) => jwt.length });
const keys = new LRUCache<string, Buffer>({ max: 10_000 });

function keyOf(did: string): Buffer {
  const known = keys.get(did);
  if (known !== undefined) return known;
  const key = Buffer.from(publicKeyOf(did) ?? []);
  keys.set(did, key);
  return key;
}

function check(jwt: string, did: string, isInvocation: boolean): boolean {
  // A receipt names its issuer, so its text also determines the key.
  if (!isInvocation && verified.has(jwt)) return true;
  const end = jwt.lastIndexOf('.');
  const signature = Buffer.from(jwt.slice(end + 1), 'base64url');
  const key = keyOf(did);
  if (signature.length !== 64 || key.length !== 32) return false;
  if (!sodium.crypto_sign_verify_detached(signature, Buffer.from(jwt.slice(0, end)), key)) return false;
  if (!isInvocation) verified.set(jwt, true);
  return true;
}

async function serve(): Promise<number> {
  const app = fastify();
  app.post('/verify', (request) => verifyPlainly(request.body, check));
  await app.listen({ port: 0, host: '127.0.0.1' });
  return (app.server.address() as AddressInfo).port;
}

/** Starts a process for each core. They share the port. */
async function serveOnAllCores(): Promise<void> {
  const workers = Array.from({ length: availableParallelism() }, () => cluster.fork());
  const ports = await Promise.all(
    workers.map(async (worker) => ((await once(worker, 'listening')) as [AddressInfo])[0].port),
  );
  const pids = workers.map(({ process: { pid } }) => pid);
  process.stdout.write(`${JSON.stringify({ port: ports[0], pids: [process.pid, ...pids] })}\n`);
  process.on('SIGTERM', () => {
    for (const worker of workers) worker.process.kill();
    process.exit(0);
  });
}

if (process.env['PEER_CLUSTER'] === '1' && cluster.isPrimary) await serveOnAllCores();
else {
  const port = await serve();
  if (cluster.isPrimary) process.stdout.write(`${JSON.stringify({ port })}\n`);
  process.on('SIGTERM', () => process.exit(0));
}
