import { createRequire } from 'node:module';
import { decodeBase64url } from '../../src/protocol/base64url.js';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import type { SignatureVerifier } from '../../src/signatures/signature-verifier.js';
import type { SignatureCheck } from '../../src/protocol/jwt.js';
import type { Exchange } from '../workload/chains.js';

/** A way to bring signatures to libsodium. */
export interface Design {
  readonly name: string;
  readonly about: string;
  readonly open: (workers: number) => SignatureVerifier;
}

/** Finds a module in node_modules, for Piscina. */
export const { resolve: resolveModule } = createRequire(import.meta.url);

/** The signature check of an invocation, as block C plans it. */
export function checkOf({ body }: Exchange): SignatureCheck {
  const { invocation: jwt } = JSON.parse(body) as { invocation: string };
  const signingInputLength = jwt.lastIndexOf('.');
  const payload = Buffer.from(jwt.slice(jwt.indexOf('.') + 1, signingInputLength), 'base64url').toString();
  const { iss } = JSON.parse(payload) as { iss: string };
  const signature = decodeBase64url(jwt.slice(signingInputLength + 1));
  const publicKey = publicKeyOf(iss);
  if (signature === null || publicKey === null)
    throw new Error('the suite made an invocation that does not decode');
  return { jwt, signingInputLength, signature, publicKey };
}

/** Whether one check, submitted alone, verified. */
export async function verifyOne(verifier: SignatureVerifier, check: SignatureCheck): Promise<boolean> {
  const [isVerified] = await verifier.verify([check]);
  return isVerified === true;
}
