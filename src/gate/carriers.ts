import { decodeUtf8, type Bytes } from '#platform';
import { isJsonObject, parseStrictJson, type JsonValue } from '../protocol/json.js';
import { MAX_JSON_DEPTH } from '../protocol/json-defects.js';
import { readBundle } from '../protocol/bundle.js';
import { gateFailure, type GateFailure, type Protocol } from './codes.js';
import {
  shorten,
  valuesOf,
  type CallBody,
  type GateRequest,
  type HeaderMap,
  type HeaderName,
  type RequestBody,
} from './request.js';

// What a request carries for the gate: its bundle, in a header, in metadata or in an envelope, and the body that was signed.

/** The header that carries the bundle. */
export const BUNDLE_HEADER = 'X-DRS-Bundle';

/**
 * The longest bundle, in characters, that a client sends in the header if it can send it elsewhere: servers and proxies
 * take 8 to 16 kB of headers.
 */
export const MAX_HEADER_BUNDLE = 4096;

/** The members of `params._meta` that can carry a bundle in an MCP request. We read any. */
export const META_KEYS = [BUNDLE_HEADER, 'xyz.okeyamy.drs/bundle'] as const;

/** The longest bundle, in characters, that goes under several names: servers have limits on bodies. */
const MAX_DOUBLED = 65_536;

/** What a signer adds to `params._meta`: all of them, since other gates may read one alone. */
export const bundleMeta = (bundle: string) =>
  Object.fromEntries(META_KEYS.slice(0, bundle.length > MAX_DOUBLED ? 1 : 2).map((key) => [key, bundle]));

/**
 * Finds the encoded bundle of a request. It may come in several carriers if all hold the same text.
 *
 * @param meta `params._meta`, if the protocol has it; over `http` an envelope's bundle as one of its members
 * @param explainMissing what to say if there is no bundle
 */
export function findBundle(
  protocol: Protocol,
  headers: HeaderMap,
  meta: unknown,
  explainMissing: () => { readonly message: string; readonly suggestion?: string } = () => ({
    message: `no ${BUNDLE_HEADER} header`,
  }),
): string | GateFailure {
  const inHeader = valuesOf(headers, 'x-drs-bundle');
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

/**
 * Classifies the body of an HTTP request. The signer of a call also chooses its headers. With another charset, a form
 * or a compressed body, a handler's parser could read other arguments than UTF-8 JSON says. Such a body never matches
 * the signed arguments.
 */
export function bodyOfBytes(bytes: Bytes, headers: HeaderMap): BodyText {
  return bodyOfText(decodeUtf8(bytes), headers);
}

type BodyText = Extract<CallBody, { kind: 'text' | 'unusable' }>;

/** The same where the transport has the body as text; `null` if it is not UTF-8. */
export function bodyOfText(text: string | null, headers: HeaderMap): BodyText {
  const reason = whyNoJson(headers);
  if (reason !== null && !isEnvelope(headers)) return unusable(reason);
  if (text === null) return unusable('the body is not UTF-8');
  return reason === null ? { kind: 'text', text } : { ...unusable(reason), envelope: text };
}

/** The type of a body that holds the bundle of its call beside the body that is compared. */
export const ENVELOPE_TYPE = 'application/drs-call+json';

/** Whether a body came as an envelope, by its headers: in UTF-8, not encoded. */
export function isEnvelope(headers: HeaderMap): boolean {
  return jsonTypeOf(headers) === ENVELOPE_TYPE && codingOf(headers) === null;
}

/** The same where the transport has the whole body: nothing in it is no body. */
export function wholeBodyOfBytes(bytes: Bytes, headers: HeaderMap): RequestBody {
  const body = bodyOfBytes(bytes, headers);
  return body.kind === 'text' && body.text === '' ? { kind: 'none' } : body;
}

/** Why a handler could take a body for something else than JSON in UTF-8, by its headers; else `null`. */
export function whyNoJson(headers: HeaderMap): string | null {
  const coding = codingOf(headers);
  if (coding !== null)
    return `the body is encoded (Content-Encoding: ${shorten(coding)}), expected plain JSON`;
  const type = joined(headers, 'content-type');
  const json = jsonTypeOf(headers);
  // A tool server could take the arguments from inside an envelope.
  if (type === '' || (json !== null && json !== ENVELOPE_TYPE)) return null;
  return `the body is ${shorten(type)}, expected application/json with no parameter but charset=utf-8`;
}

/**
 * The type of a JSON body, in lower case; `null` if it is another one, or has a parameter but the charset UTF-8. Servers
 * know more names of a charset than `charset` (RFC 2231: `charset*0`).
 */
function jsonTypeOf(headers: HeaderMap): string | null {
  return JSON_TYPE.exec(joined(headers, 'content-type'))?.[1]?.toLowerCase() ?? null;
}

// A comma joins two header values, and parsers differ in which one they use.
const JSON_TYPE = /^(application\/(?:[\w.-]+\+)?json)(?:[ \t]*;[ \t]*charset=(?:utf-?8|"utf-?8"))?$/i;

/** How a body is encoded; `null` if it is not. */
function codingOf(headers: HeaderMap): string | null {
  const coding = joined(headers, 'content-encoding');
  return coding === '' || coding.toLowerCase() === 'identity' ? null : coding;
}

/** If a header is repeated, the joined value is no valid coding or type. */
const joined = (headers: HeaderMap, name: HeaderName): string => valuesOf(headers, name).join(', ');

/** A body that never matches the signed arguments. */
export const unusable = (reason: string) => ({ kind: 'unusable', reason }) as const;

/**
 * A value that another parser produced, to compare with the signed arguments. If it holds a number beyond 2^53, it is
 * unusable: the parser may have rounded that number.
 */
export function bodyOfValue(value: unknown): CallBody {
  return holdsInexactNumber(value)
    ? unusable('a number is beyond 2^53: it may have been rounded, so the number that was sent is not known')
    : { kind: 'value', value };
}

/**
 * Whether a value holds a number that parsing may have rounded; the text is no longer there to check. The search
 * stops at the depth that signed arguments can have: a deeper value matches nothing anyway.
 */
function holdsInexactNumber(value: unknown, depth = 0): boolean {
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER;
  if (typeof value !== 'object' || value === null || depth > MAX_JSON_DEPTH) return false;
  return Object.values(value).some((item) => holdsInexactNumber(item, depth + 1));
}

/**
 * Takes a request out of its envelope: the same request with the bundle in `carried`, and with the envelope's body. A
 * request that is not in an envelope stays as it is.
 *
 * Only for requests whose handler unwraps the envelope, or never sees it. The result must not be unwrapped again.
 */
export function unwrap(request: GateRequest): GateRequest | GateFailure {
  const { headers, body } = request;
  if (!isEnvelope(headers)) return request;
  if (body.kind === 'too large') return gateFailure('BODY_TOO_LARGE', 'http', body.reason);
  if (body.kind !== 'unusable' || body.envelope === undefined) {
    const reason = body.kind === 'unusable' ? body.reason : 'it was not read';
    return malformed(`the envelope is not here as text (of a question to /v1/gate: body_text): ${reason}`);
  }
  const { value, defect } = parseStrictJson(body.envelope);
  if (defect !== undefined) return malformed(`the envelope is not strict JSON: ${defect.message}`);
  if (isJsonObject(value) && Object.keys(value).sort().join() === 'body,bundle') {
    const { bundle: carried, body: inner } = value;
    if (typeof carried === 'string') return { ...request, carried, body: { kind: 'value', value: inner } };
  }
  return malformed('the envelope is not an object of a string "bundle" and of "body", and nothing else');
}

const malformed = (message: string) =>
  gateFailure('MALFORMED_BUNDLE', 'http', message, {
    suggestion: `Send ${ENVELOPE_TYPE} as {"bundle": "<what encodeBundle() gives>", "body": <the body that was signed>}.`,
  });
