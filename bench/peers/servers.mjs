import { once } from 'node:events';
import express from 'express';
import fastify from 'fastify';
import { compactVerify, importJWK } from 'jose';
import { LRUCache } from 'lru-cache';
import sodium from 'sodium-native';
import { publicKeyOf } from '../../dist/protocol/did-key.js';
import { verifyPlainly } from './plain.mjs';

// What an experienced engineer would write: Fastify, libsodium, and a cache of verified receipts. Invocations are not
// cached, since each call has a new one.
const verified = new LRUCache({ maxSize: 64 * 1024 * 1024, sizeCalculation: (_, jwt) => jwt.length });
const keys = new LRUCache({ max: 10_000 });

function keyOf(did, make) {
  let key = keys.get(did);
  if (key === undefined) keys.set(did, (key = make(Buffer.from(publicKeyOf(did) ?? []))));
  return key;
}

function checkBySodium(jwt, did, isInvocation) {
  // A receipt names its issuer, so its text also determines the key.
  if (!isInvocation && verified.has(jwt)) return true;
  const end = jwt.lastIndexOf('.');
  const signature = Buffer.from(jwt.slice(end + 1), 'base64url');
  const key = keyOf(did, (bytes) => bytes);
  if (signature.length !== 64 || key.length !== 32) return false;
  if (!sodium.crypto_sign_verify_detached(signature, Buffer.from(jwt.slice(0, end)), key)) return false;
  if (!isInvocation) verified.set(jwt, true);
  return true;
}

async function serveFastify() {
  const app = fastify();
  app.post('/verify', (request) => verifyPlainly(request.body, checkBySodium));
  await app.listen({ port: 0, host: '127.0.0.1' });
  return app.server.address().port;
}

/** The plain one: Express and jose, one signature after the other, nothing remembered but keys. */
async function serveExpress() {
  const importKey = (bytes) =>
    importJWK({ kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, 'EdDSA');
  const check = async (jwt, did) => {
    try {
      await compactVerify(jwt, await keyOf(did, importKey));
      return true;
    } catch {
      return false;
    }
  };
  const app = express();
  app.use(express.json({ limit: '1mb' }));
  app.post('/verify', async (request, response) => {
    response.json(await verifyPlainly(request.body, check));
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
}

process.on('SIGTERM', () => process.exit(0));
console.log(
  JSON.stringify({ port: await (process.argv[2] === 'express-jose' ? serveExpress() : serveFastify()) }),
);
