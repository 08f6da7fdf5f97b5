import { decodeBase64url, decodeUtf8 } from '#platform';
import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../../protocol/json.js';
import { parseCompactJwt } from '../../protocol/jwt.js';
import { show } from '../../verify/codes.js';
import { inflateBits } from './bitstring.js';
import { assertSigned, untrusted, type ListIssuer } from './list-issuer.js';
import { assertValid, type StatusList } from './read-status-list.js';
import { malformed } from './status-list-error.js';

const TYPE = /^(?:application\/)?statuslist\+jwt$/i;

/**
 * Reads a Token Status List as a JWT. It takes the calling thread up to 50 ms.
 *
 * @param body at most `MAX_WIRE_BYTES`
 * @param expected its name, who must have signed it, and how large its entries may be together, unpacked
 * @throws {@link StatusListError} if it is not such a list, or cannot be trusted
 * @see draft-ietf-oauth-status-list-21 §5.1, §8.3
 */
export async function readTokenList(
  body: Buffer,
  expected: { name: string; issuer: ListIssuer; maxBytes: number; nowMs: number; clockSkewSecs: number },
): Promise<StatusList> {
  const { name, issuer, maxBytes, nowMs, clockSkewSecs } = expected;
  // latin1 maps every byte to one character, so the signed bytes are exactly the parsed ones.
  const text = body.toString('latin1').trim();
  const jwt = parseCompactJwt(text);
  if (jwt.defect !== undefined) throw malformed(`it is not a JWT: ${jwt.defect}`);
  const type = headerOf(text)['typ'];
  if (typeof type !== 'string' || !TYPE.test(type))
    throw malformed(`its typ is ${show(type)}, expected "statuslist+jwt"`);
  assertSigned(text, jwt, issuer);
  const { payload } = jwt;
  const { sub, status_list: list } = payload;
  if (sub !== name)
    throw untrusted(`its sub is ${show(sub)}, expected ${show(name)}: correct the id of the list in the row`);
  const time = (claim: string, absent?: number) => {
    const value = payload[claim] === undefined ? absent : payload[claim];
    if (typeof value === 'number') return value * 1000;
    throw malformed(`its ${claim} is ${show(value)}, expected a number`);
  };
  const validity = { validFromMs: time('iat'), validUntilMs: time('exp', Infinity) };
  assertValid(validity, nowMs, clockSkewSecs * 1000);
  assertValid({ ...validity, validFromMs: time('nbf', -Infinity) }, nowMs, clockSkewSecs * 1000);
  const ttlMs = time('ttl', Infinity);
  if (ttlMs <= 0) throw malformed(`its ttl is ${show(payload['ttl'])}, expected more than 0`);
  const { packed, tokenBits } = readTokenEntries(list);
  const bits = await inflateBits(packed, maxBytes);
  if (bits.length === 0) throw malformed('it has no entries');
  return { bits, tokenBits, ttlMs, ...validity };
}

/** The entries of a Token Status List, still packed. @throws {@link StatusListError} `malformed` */
export function readTokenEntries(list: JsonValue | undefined) {
  if (!isJsonObject(list)) throw malformed(`its status_list is ${show(list)}, expected an object`);
  const { bits: tokenBits, lst } = list;
  if (tokenBits !== 1 && tokenBits !== 2 && tokenBits !== 4 && tokenBits !== 8)
    throw malformed(`its status_list.bits is ${show(tokenBits)}, expected 1, 2, 4 or 8`);
  const packed = typeof lst === 'string' ? decodeBase64url(lst) : null;
  if (packed === null) throw malformed('its status_list.lst is not base64url without padding');
  return { packed, tokenBits };
}

/** The header of a JWT that has been parsed. */
function headerOf(text: string): JsonObject {
  const bytes = decodeBase64url(text.slice(0, text.indexOf('.')));
  const { value } = parseStrictJson((bytes && decodeUtf8(bytes)) ?? '');
  return isJsonObject(value) ? value : {};
}
