// What each runtime does with the vectors: verifies bundles and signatures with `drs-verify/pure`, and compares.
import { createVerifier } from 'drs-verify/pure';

/**
 * @typedef {{ remote: string, local: (number | string)[] }} Revoked
 * @typedef {{ id: string, profile: string, now: number, request: string, bodyText?: string, expected: Record<string, unknown> }} Vector
 * @typedef {{ id: number, key: string, message: string, signature: string, valid: boolean }} SignatureVector
 * @typedef {{ profiles: Record<string, { settings: object, revocation: Revoked }>, vectors: Vector[], signatures: SignatureVector[] }} Vectors
 */

/**
 * @param {import('drs-verify/pure').Sodium} sodium
 * @param {Vectors} vectors
 */
export async function runVectors(sodium, { profiles, vectors, signatures }) {
  /** @type {string[]} */
  const differences = [];
  const verifiers = new Map(
    Object.entries(profiles).map(([name, { settings, revocation }]) => [
      name,
      createVerifier({ sodium, ...settings, revocation: viewOf(revocation) }),
    ]),
  );
  for (const { id, profile, now, request, bodyText, expected } of vectors) {
    const found = await answer(verifiers.get(profile), request, {
      now,
      ...(bodyText !== undefined && { bodyText }),
    });
    if (stable(found) !== stable(expected))
      differences.push(`${id}: ${stable(found)}, not ${stable(expected)}`);
  }
  const bytes = (/** @type {string} */ text) =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (at) => at.charCodeAt(0));
  for (const { id, key, message, signature, valid } of signatures) {
    const [given, publicKey] = [bytes(signature), bytes(key)];
    const isSized = given.length === 64 && publicKey.length === 32;
    if ((isSized && sodium.crypto_sign_verify_detached(given, bytes(message), publicKey)) !== valid)
      differences.push(`signature ${id}: ${!valid}`);
  }
  return { verdicts: vectors.length, signatures: signatures.length, differences };
}

/**
 * @param {import('drs-verify/pure').PureVerifier | undefined} verifier
 * @param {string} request
 * @param {import('drs-verify/pure').PureVerifyOptions} options
 */
async function answer(verifier, request, options) {
  /** @type {unknown} */
  let bundle;
  try {
    bundle = JSON.parse(request);
  } catch {
    return { status: 400 };
  }
  const verdict = await verifier?.verify(bundle, options);
  if (verdict === undefined) return {};
  const { valid, error, binding, context } = verdict;
  // As in the runner: not every verifier says which limits it does not count, and for whom the call was signed.
  const facts = context && { ...context, unenforced: undefined, tool_server: undefined };
  return { valid, code: error?.code, binding, context: facts };
}

/** @param {Revoked} revoked */
function viewOf({ remote, local }) {
  const list = /^(none|unavailable)$/.test(remote) ? null : remote;
  return {
    /** @param {number} index */
    remoteStatusOf(index) {
      if (remote === 'none') return /** @type {const} */ ('not_configured');
      if (list === null) return /** @type {const} */ ('unavailable');
      if (index >= list.length * 4) return /** @type {const} */ ('out_of_range');
      const digit = Number.parseInt(list.charAt(index >> 2), 16);
      const isSet = ((digit >> (3 - (index & 3))) & 1) === 1;
      return isSet ? /** @type {const} */ ('revoked') : /** @type {const} */ ('not_revoked');
    },
    isRevokedLocally: (/** @type {number} */ index) => local.includes(index),
    names: local.some((one) => typeof one === 'string') ? local : null,
    isNameRevoked: (/** @type {string} */ name) => local.includes(name),
  };
}

/** @type {(value: unknown) => string} JSON with sorted names, without what is undefined */
function stable(value) {
  return JSON.stringify(value, (_, inner) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(
          Object.entries(/** @type {object} */ (inner)).toSorted(([left], [right]) =>
            left < right ? -1 : 1,
          ),
        )
      : /** @type {unknown} */ (inner),
  );
}
