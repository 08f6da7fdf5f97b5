import { createPublicKey, verify, type KeyObject } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import { verifyPlainly } from './plain-verification.js';

// Fastify and node:crypto on the event loop, without a pool.
const keys = new Map<string, KeyObject>();

function keyOf(did: string): KeyObject {
  const known = keys.get(did);
  if (known !== undefined) return known;
  const x = Buffer.from(publicKeyOf(did) ?? []).toString('base64url');
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  keys.set(did, key);
  return key;
}

function check(jwt: string, did: string): boolean {
  const end = jwt.lastIndexOf('.');
  const signature = Buffer.from(jwt.slice(end + 1), 'base64url');
  return verify(null, Buffer.from(jwt.slice(0, end)), keyOf(did), signature);
}

const app = fastify();
app.post('/verify', (request) => verifyPlainly(request.body, check));
await app.listen({ port: 0, host: '127.0.0.1' });
process.stdout.write(`${JSON.stringify({ port: (app.server.address() as AddressInfo).port })}\n`);
process.on('SIGTERM', () => process.exit(0));
