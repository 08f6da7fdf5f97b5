import { isJsonObject, parseStrictJson, type JsonValue } from '../protocol/json.js';
import { ENVELOPE_TYPE, isEnvelope } from './call-body.js';
import { gateFailure, type GateFailure } from './codes.js';
import type { GateRequest } from './request.js';

/**
 * Takes a request out of its envelope: the same request with the bundle in `carried`, and with the envelope's body. A
 * request that is not in an envelope stays as it is.
 *
 * Only for requests whose handler unwraps the envelope, or never sees it. The result must not be unwrapped again.
 */
export function unwrap(request: GateRequest): GateRequest | GateFailure {
  if (!isEnvelope(request.headers)) return request;
  const opened = openEnvelope(request.body);
  return 'code' in opened
    ? opened
    : { ...request, carried: opened.bundle, body: { kind: 'value', value: opened.body } };
}

function openEnvelope(
  body: GateRequest['body'],
): { readonly bundle: string; readonly body: JsonValue } | GateFailure {
  if (body.kind === 'too large') return gateFailure('BODY_TOO_LARGE', 'http', body.reason);
  if (body.kind !== 'unusable' || body.envelope === undefined) {
    const reason = body.kind === 'unusable' ? body.reason : 'it was not read';
    return malformed(`the envelope is not here as text (of a question to /v1/gate: body_text): ${reason}`);
  }
  const { value, defect } = parseStrictJson(body.envelope);
  if (defect !== undefined) return malformed(`the envelope is not strict JSON: ${defect.message}`);
  if (isJsonObject(value) && Object.keys(value).sort().join() === 'body,bundle') {
    const { bundle, body: inner } = value;
    if (typeof bundle === 'string' && inner !== undefined) return { bundle, body: inner };
  }
  return malformed('the envelope is not an object of a string "bundle" and of "body", and nothing else');
}

const malformed = (message: string) =>
  gateFailure('MALFORMED_BUNDLE', 'http', message, {
    suggestion: `Send ${ENVELOPE_TYPE} as {"bundle": "<what encodeBundle() gives>", "body": <the body that was signed>}.`,
  });
