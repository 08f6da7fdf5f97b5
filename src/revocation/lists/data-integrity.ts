import { createHash } from 'node:crypto';
import { decodeBase58 } from '../../protocol/base58.js';
import { toJcs } from '../../protocol/jcs.js';
import { equalsByJcs, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { verifyEd25519 } from '../../signatures/in-thread.js';

// 64 bytes have at most 88 base58 digits. Longer texts cannot be a signature.
const MAX_PROOF_VALUE_LENGTH = 1 + 88;

/**
 * Verifies one `eddsa-jcs-2022` proof of a document.
 *
 * The caller checks whose key it is, and the members `verificationMethod`, `proofPurpose` and `created`.
 *
 * @param document the secured document, with or without its `proof` member
 * @param proof a member or element of its `proof`
 * @param publicKey 32 bytes
 * @returns `null` if the proof verifies, otherwise why it does not
 * @see W3C vc-di-eddsa §3.3 (eddsa-jcs-2022)
 */
export function findProofDefect(document: JsonObject, proof: JsonObject, publicKey: Buffer): string | null {
  if (proof['type'] !== 'DataIntegrityProof' || proof['cryptosuite'] !== 'eddsa-jcs-2022') {
    return `its proof is ${name(proof['type'])} with ${name(proof['cryptosuite'])}, expected DataIntegrityProof with eddsa-jcs-2022`;
  }
  const signature = decodeProofValue(proof['proofValue']);
  if (signature === null) return 'its proofValue is not "z" and base58btc';

  const proofConfig = without('proofValue', proof);
  const unsecured = without('proof', document);
  const context = proofConfig['@context'];
  if (context !== undefined) {
    if (!startsWith(unsecured['@context'], context)) return "its @context does not begin with its proof's";
    unsecured['@context'] = context;
  }
  const message = Buffer.concat([sha256(toJcs(proofConfig)), sha256(toJcs(unsecured))]);
  return verifyEd25519(signature, message, publicKey) ? null : 'its proof does not verify';
}

function decodeProofValue(value: JsonValue | undefined): Buffer | null {
  if (typeof value !== 'string' || !value.startsWith('z') || value.length > MAX_PROOF_VALUE_LENGTH)
    return null;
  const bytes = decodeBase58(value.slice(1));
  return bytes && Buffer.from(bytes);
}

function without(member: string, object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== member));
}

function startsWith(whole: JsonValue | undefined, start: JsonValue): boolean {
  if (whole === undefined) return false;
  if (!Array.isArray(whole) || !Array.isArray(start)) return equalsByJcs(whole, start);
  return equalsByJcs(whole.slice(0, start.length), start);
}

const sha256 = (text: string) => createHash('sha256').update(text).digest();
const name = (value: JsonValue | undefined) =>
  typeof value === 'string' ? JSON.stringify(value) : 'unnamed';
