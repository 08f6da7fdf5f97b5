import { readBundle } from '../protocol/bundle.js';
import { isJsonObject, type JsonValue } from '../protocol/json.js';
import { gateFailure, type GateFailure, type Protocol } from './codes.js';
import type { HeaderLookup } from './request.js';

/** The header in which bundles come, as it is written. */
export const BUNDLE_HEADER = 'X-DRS-Bundle';

/** Where a bundle stands in `params._meta` of an MCP request: the first is written, either is read. */
export const META_KEYS = [BUNDLE_HEADER, 'xyz.okeyamy.drs/bundle'] as const;

/**
 * The encoded bundle of a request. More than one carrier is fine where all hold the same text.
 *
 * @param meta `params._meta`, where the protocol has it
 * @param missing what to say where there is none
 */
export function findBundle(
  protocol: Protocol,
  headers: HeaderLookup,
  meta: unknown,
  missing: { readonly message: string; readonly suggestion?: string } = {
    message: `no ${BUNDLE_HEADER} header`,
  },
): string | GateFailure {
  const inHeader = headers('x-drs-bundle');
  // Proxies join repeated headers by a comma, which base64url does not have.
  if (inHeader.length > 1 || inHeader[0]?.includes(',') === true) {
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
    const { message, suggestion } = missing;
    return gateFailure('MISSING_BUNDLE', protocol, message, suggestion === undefined ? {} : { suggestion });
  }
  if (typeof first !== 'string' || !carried.every((value) => typeof value === 'string')) {
    return gateFailure('MALFORMED_BUNDLE', protocol, 'the bundle is not one string of base64url');
  }
  if (!carried.every((value) => value === first)) {
    const message = `the bundles in the header ${BUNDLE_HEADER} and in params._meta are not the same`;
    return gateFailure('MULTIPLE_BUNDLES', protocol, message);
  }
  return first;
}

/** What an encoded bundle holds. Whether that is a bundle is for the verifier to say. */
export function decodeCarried(
  protocol: Protocol,
  encoded: string,
): { readonly bundle: JsonValue } | GateFailure {
  const read = readBundle(encoded);
  if (read.defect === undefined) return { bundle: read.value };
  return gateFailure('MALFORMED_BUNDLE', protocol, read.defect.message);
}
