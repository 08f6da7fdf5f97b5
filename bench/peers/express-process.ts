import type { AddressInfo } from 'node:net';
import express from 'express';
import { compactVerify, importJWK, type CryptoKey } from 'jose';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import { verifyPlainly } from './plain-verification.js';

// Express 5 and jose, one signature after the other.
const keys = new Map<string, CryptoKey | Uint8Array>();

async function keyOf(did: string): Promise<CryptoKey | Uint8Array> {
  const known = keys.get(did);
  if (known !== undefined) return known;
  const x = Buffer.from(publicKeyOf(did) ?? []).toString('base64url');
  const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x }, 'EdDSA');
  keys.set(did, key);
  return key;
}

async function check(jwt: string, did: string): Promise<boolean> {
  try {
    await compactVerify(jwt, await keyOf(did));
    return true;
  } catch {
    return false;
  }
}

const app = express();
app.use(express.json({ limit: '1mb' }));
app.post('/verify', async (request, response) => {
  response.json(await verifyPlainly(request.body, check));
});
const server = app.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
});
process.on('SIGTERM', () => process.exit(0));
