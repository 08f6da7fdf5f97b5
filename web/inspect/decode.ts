import { decodeBase64url, decodeUtf8, encodeBase64url, encodeUtf8 } from '#platform';
import { equalsByJcs, isJsonObject, type JsonObject, type JsonValue } from '../../src/protocol/json.js';
import { readPolicy, type PolicyLimit } from '../../src/protocol/policy.js';

/** One JWT of a bundle, as far as it can be read. Nothing about it has been checked: for display only. */
export interface Token {
  readonly jwt: string;
  /** The text of the payload, `null` if the JWT has none that is UTF-8. */
  readonly text: string | null;
  readonly claims: JsonObject;
  /** The limits of its policy; empty if they cannot be read. */
  readonly limits: readonly PolicyLimit[];
}

/** Reads a JWT leniently. */
export function readToken(jwt: string): Token {
  const text = textOf(jwt.split('.', 3)[1]);
  const value = text === null || nestsTooDeep(text) ? undefined : parseOrUndefined(text);
  const claims = isJsonObject(value) ? value : {};
  const policy = claims['policy'];
  const limits = isJsonObject(policy) ? (readPolicy(policy).limits ?? []) : [];
  return { jwt, text, claims, limits };
}

/** The text that a segment encodes, or `null`. */
function textOf(segment: string | undefined): string | null {
  const bytes = segment === undefined ? null : decodeBase64url(segment);
  return bytes === null ? null : decodeUtf8(bytes);
}

/**
 * The same JWT with another payload. A text that says the same as the payload leaves it as it was signed, byte for byte:
 * white space is for the reader.
 */
export function withPayload(jwt: string, text: string): string {
  const [header = '', payload = '', ...rest] = jwt.split('.');
  const value = nestsTooDeep(text) ? undefined : parseOrUndefined(text);
  const old = parseOrUndefined(textOf(payload) ?? '');
  if (value !== undefined && old !== undefined && equals(value, old)) return jwt;
  const written = value === undefined ? text : JSON.stringify(value);
  return [header, encodeBase64url(encodeUtf8(written)), ...rest].join('.');
}

/** A payload for a reader. */
export function pretty(text: string): string {
  const value = nestsTooDeep(text) ? undefined : parseOrUndefined(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}

function equals(left: JsonValue, right: JsonValue): boolean {
  try {
    return equalsByJcs(left, right);
  } catch {
    return false;
  }
}

export function parseOrUndefined(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

const MAX_DEPTH = 200;

/**
 * Whether brackets nest deeper than a page should follow them, wherever they stand: a verifier refuses arguments that nest
 * deeper than 64, and functions that call themselves would use up the stack.
 */
export function nestsTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charAt(at);
    if (unit === '[' || unit === '{') depth++;
    else if ((unit === ']' || unit === '}') && depth > 0) depth--;
    else continue;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

/** A claim as text; `null` if it is something else. */
export function textClaim({ claims }: Token, name: string): string | null {
  const value = claims[name];
  return typeof value === 'string' ? value : null;
}

/** A claim as a number; `null` if it is something else. */
export function numberClaim({ claims }: Token, name: string): number | null {
  const value = claims[name];
  return typeof value === 'number' ? value : null;
}

/** A DID, or another long name, cut to what a picture can hold. */
export function short(name: string | null): string {
  if (name === null || name === '') return '(unknown)';
  const key = name.replace(/^did:key:/, '');
  return key.length > 20 ? `${key.slice(0, 8)}…${key.slice(-6)}` : key;
}
