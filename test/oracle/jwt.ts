import { fromBase64url } from './encoding.js';
import { faithful } from './jcs.js';
import { depthOf, hasDuplicateNames, member, readJson, sizeOf, type JsonObject } from './json.js';

/** A compact JWT that was decoded but not verified. */
export interface Jwt {
  readonly text: string;
  readonly header: JsonObject;
  readonly payload: JsonObject;
  /** The signed bytes: `header.payload`. */
  readonly signed: Buffer;
  readonly signature: Buffer;
}

const MAX_DEPTH = 64;
const MAX_NODES = 12_288;
const MAX_COMMAS = 32_768;

/** Decodes a JWT (docs/spec/encoding.md); `undefined` if it is not a JWT with JSON objects. */
export function readJwt(text: string, maxNodes = MAX_NODES): Jwt | undefined {
  const segments = text.split('.');
  if (segments.length !== 3 || segments.includes('')) return undefined;
  const [header, payload, signature] = segments.map(fromBase64url);
  if (header === undefined || payload === undefined || signature === undefined) return undefined;
  const headerObject = readObject(header);
  const payloadObject = readObject(payload);
  if (headerObject === undefined || payloadObject === undefined) return undefined;
  if (sizeOf(payloadObject).nodes > maxNodes) return undefined;
  // The specification says this only of `args` and bodies. For other claims it follows from "valid UTF-8, a JSON
  // object" and "serialized in JCS order": a value without a faithful RFC 8785 form cannot have been serialized that
  // way.
  if (faithful(payloadObject) === undefined) return undefined;
  if (['crit', 'b64'].some((name) => member(headerObject, name) !== undefined)) return undefined;
  const signed = Buffer.from(segments.slice(0, 2).join('.'), 'ascii');
  return { text, header: headerObject, payload: payloadObject, signed, signature };
}

/** Decodes bytes that are valid UTF-8. A byte order mark counts as a character. */
export function textOf(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Reads valid UTF-8 with a JSON object without repeated names that is neither nested too deep nor too large. */
function readObject(bytes: Buffer): JsonObject | undefined {
  const text = textOf(bytes);
  const json = text === undefined ? undefined : readJson(text);
  if (json?.kind !== 'object' || hasDuplicateNames(json) || depthOf(json) > MAX_DEPTH) return undefined;
  const { nodes, commas } = sizeOf(json);
  return nodes > MAX_NODES || commas > MAX_COMMAS ? undefined : json;
}
