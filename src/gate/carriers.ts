import { readBundle } from '../protocol/bundle.js';
import { isJsonObject, type JsonValue } from '../protocol/json.js';
import { gateFailure, type GateFailure, type Protocol } from './codes.js';
import type { HeaderLookup } from './request.js';

/** The header that carries the bundle. */
export const BUNDLE_HEADER = 'X-DRS-Bundle';

/**
 * The longest bundle, in characters, that a client sends in the header if it can send it elsewhere: servers and proxies
 * take 8 to 16 kB of headers.
 */
export const MAX_HEADER_BUNDLE = 4096;

/** The members of `params._meta` that can carry a bundle in an MCP request. We write the first and read both. */
export const META_KEYS = [BUNDLE_HEADER, 'xyz.okeyamy.drs/bundle'] as const;

/**
 * Finds the encoded bundle of a request. It may come in several carriers if all hold the same text.
 *
 * @param meta `params._meta`, if the protocol has it; over `http` an envelope's bundle as one of its members
 * @param explainMissing what to say if there is no bundle
 */
export function findBundle(
  protocol: Protocol,
  headers: HeaderLookup,
  meta: unknown,
  explainMissing: () => { readonly message: string; readonly suggestion?: string } = () => ({
    message: `no ${BUNDLE_HEADER} header`,
  }),
): string | GateFailure {
  const inHeader = headers('x-drs-bundle');
  const [only = ''] = inHeader;
  // Proxies join repeated headers with a comma, which is not a base64url character. JSON has commas of its own.
  if (inHeader.length > 1 || (only.includes(',') && !only.startsWith('{'))) {
    return gateFailure('MULTIPLE_BUNDLES', protocol, `the header ${BUNDLE_HEADER} came more than once`);
  }
  const carried: unknown[] = [...inHeader];
  if (isJsonObject(meta)) {
    for (const key of META_KEYS) {
      if (Object.hasOwn(meta, key) && meta[key] !== undefined) carried.push(meta[key]);
    }
  }
  const [first] = carried;
  if (carried.length === 0) {
    const { message, suggestion } = explainMissing();
    return gateFailure('MISSING_BUNDLE', protocol, message, { suggestion });
  }
  if (typeof first !== 'string' || !carried.every((value) => typeof value === 'string')) {
    return gateFailure('MALFORMED_BUNDLE', protocol, 'the bundle is not one string of base64url');
  }
  if (!carried.every((value) => value === first)) {
    const where = protocol === 'http' ? 'the envelope' : 'params._meta';
    const message = `the bundles in the header ${BUNDLE_HEADER} and in ${where} are not the same`;
    return gateFailure('MULTIPLE_BUNDLES', protocol, message);
  }
  return first;
}

/** Decodes a bundle to a JSON value. The verifier checks its members. */
export function decodeCarried(
  protocol: Protocol,
  encoded: string,
): { readonly bundle: JsonValue } | GateFailure {
  const read = readBundle(encoded);
  if (read.defect === undefined) return { bundle: read.value };
  return gateFailure('MALFORMED_BUNDLE', protocol, mistakeIn(encoded) ?? read.defect.message);
}

/** Names the two mistakes that people make; else `null`. */
function mistakeIn(encoded: string): string | null {
  if (encoded.startsWith('{'))
    return 'the bundle is JSON, expected that JSON in base64url, as encodeBundle() writes it';
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(encoded)) return null;
  return 'this is one receipt (a JWT), expected a bundle: all receipts and the invocation, as encodeBundle() writes them';
}
