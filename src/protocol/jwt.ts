import { decodeBase64url, decodeUtf8, encodeBase64url, encodeUtf8, sha256Hex } from '#platform';
import { isJsonObject, MAX_JSON_NODES, parseStrictJson, type JsonObject } from './json.js';

/** The header of everything issued here, encoded: `{"alg":"EdDSA","typ":"JWT"}`. */
export const ISSUED_HEADER = encodeBase64url(encodeUtf8('{"alg":"EdDSA","typ":"JWT"}'));
const ISSUED_START = `${ISSUED_HEADER}.`;

/** A compact JWT taken apart. Nothing about its signature is decided. */
export interface CompactJwt {
  /** `alg` of the header, whatever it is; `undefined` if there is none. */
  readonly algorithm: unknown;
  /** `kid` of the header, if it is a text. */
  readonly kid: string | null;
  readonly payload: JsonObject;
  /** The decoded third segment, of any length. */
  readonly signature: Uint8Array;
  /** The signing input is this many leading characters of the JWT. RFC 7515 §5.2 */
  readonly signingInputLength: number;
  readonly defect?: never;
}

/** One signature to verify: RFC 7515 §5.2 over the leading characters of a JWT, which are ASCII. */
export interface SignatureCheck {
  readonly jwt: string;
  readonly signingInputLength: number;
  readonly signature: Uint8Array;
  readonly publicKey: Uint8Array;
}

/**
 * Takes a compact JWT apart, strictly: three non-empty segments of strict base64url, header and payload JSON objects
 * as {@link parseStrictJson} accepts them, no `crit` and no `b64` in the header.
 *
 * @param maxNodes maximum number of objects, arrays and members in its payload
 * @returns what is in it, or for a person what is wrong with it
 * @see RFC 7515 §3.1, §5.2; RFC 7519 §7.2
 * @example parseCompactJwt('a.b').defect; // 'it has 2 segments, expected 3 separated by dots'
 */
export function parseCompactJwt(
  jwt: string,
  maxNodes = MAX_JSON_NODES,
): CompactJwt | { readonly defect: string } {
  const headerEnd = jwt.indexOf('.');
  const payloadEnd = jwt.indexOf('.', headerEnd + 1);
  if (payloadEnd === -1 || jwt.includes('.', payloadEnd + 1))
    return { defect: `it has ${jwt.split('.', 9).length} segments, expected 3 separated by dots` };
  let algorithm: unknown = 'EdDSA';
  let kid: unknown = null;
  // Nearly every header is this one; comparing it in place saves cutting it out.
  if (!jwt.startsWith(ISSUED_START)) {
    const header = decodeJsonSegment('header', jwt.slice(0, headerEnd), MAX_JSON_NODES);
    if (typeof header === 'string') return { defect: header };
    const refused = ['crit', 'b64'].find((name) => Object.hasOwn(header, name));
    if (refused !== undefined)
      return { defect: `its header has a "${refused}" member, which is not accepted` };
    algorithm = Object.hasOwn(header, 'alg') ? header['alg'] : undefined;
    kid = Object.hasOwn(header, 'kid') ? header['kid'] : null;
  }
  const payload = decodeJsonSegment('payload', jwt.slice(headerEnd + 1, payloadEnd), maxNodes);
  if (typeof payload === 'string') return { defect: payload };
  const signature = decodeBase64url(jwt.slice(payloadEnd + 1));
  if (signature === null || signature.length === 0)
    return { defect: 'its signature is empty or not strict base64url' };
  const signingInputLength = payloadEnd;
  return { algorithm, kid: typeof kid === 'string' ? kid : null, payload, signature, signingInputLength };
}

/** The JSON object that a segment encodes, or what is wrong with it. */
function decodeJsonSegment(segment: 'header' | 'payload', encoded: string, maxNodes: number) {
  if (encoded === '') return `its ${segment} is empty`;
  const bytes = decodeBase64url(encoded);
  if (bytes === null) return `its ${segment} is not strict base64url (RFC 4648 §5, no padding)`;
  const text = decodeUtf8(bytes);
  if (text === null) return `its ${segment} is not UTF-8`;
  const { value, defect } = parseStrictJson(text, maxNodes);
  if (defect) return `its ${segment} is not strict JSON: ${defect.message}`;
  return isJsonObject(value) ? value : `its ${segment} is not a JSON object`;
}

/**
 * The digest by which receipts name one another: `sha256:` and 64 lowercase hex digits, over the ASCII bytes of the whole JWT.
 *
 * @example digestOf('eyJ….eyJ….c2ln'); // 'sha256:3f0a…'
 */
export function digestOf(jwt: string): string {
  return `sha256:${sha256Hex(jwt)}`;
}
