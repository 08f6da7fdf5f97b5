import {
  equalsByJcs,
  findValueDefect,
  hasMoreNodes,
  type JsonObject,
  type JsonValue,
  isPlainlyFaithful,
} from '../protocol/json.js';
import { findJsonDefect } from '../protocol/json-defects.js';
import { Failure } from './codes.js';
import { describeDifference } from './difference.js';

/** How the body of a call compares with the signed arguments. */
export type Binding = 'match' | 'mismatch' | 'invalid_body';

/** The body of the call, to compare with the signed arguments. */
export type Body =
  /** A value in this process. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** JSON text. */
  | { readonly kind: 'text'; readonly text: string }
  /** The `body` member of a document, and the JSON text of the whole document. */
  | { readonly kind: 'member'; readonly text: string; readonly document: JsonObject };

/**
 * Compares a body with the signed arguments. In a value of this process, a duplicate member, or digits that rounding dropped,
 * can no longer be seen; a text shows them.
 *
 * @returns `null` if there is no body; `invalid_body` if it is not JSON, has no faithful RFC 8785 form, throws when it is read,
 *   or is a text with more nodes than arguments may have
 * @example bind({ tool: 'a' }, { kind: 'text', text: '{ "tool": "a" }' }); // 'match'
 */
export function bind(args: JsonObject, body: Body | null): Binding | null {
  if (body === null) return null;
  let document: JsonValue;
  try {
    if (body.kind === 'value') {
      const defect = findValueDefect(body.value);
      // Signed arguments are never so large.
      if (defect !== null) return defect === 'size' ? 'mismatch' : 'invalid_body';
      return compare(args, body.value as JsonValue);
    }
    // Signed arguments have no more nodes, so such a body cannot be what was signed.
    if (body.kind === 'text' && hasMoreNodes(body.text)) return 'invalid_body';
    document = body.kind === 'text' ? (JSON.parse(body.text) as JsonValue) : body.document;
  } catch {
    // A text that is not JSON, or a getter or a proxy: no parser makes one.
    return 'invalid_body';
  }
  const scope = body.kind === 'text' ? TEXT : MEMBER;
  if (!isPlainlyFaithful(body.text, document) && findJsonDefect(body.text, scope) !== null)
    return 'invalid_body';
  return compare(args, body.kind === 'text' ? document : (body.document['body'] as JsonValue));
}

const TEXT = { depth: Infinity };
const MEMBER = { ...TEXT, within: ['body'] };

function compare(args: JsonObject, body: JsonValue): Binding {
  return equalsByJcs(args, body) ? 'match' : 'mismatch';
}

/** `REQUIRE_BINDING`: a bundle that does not match the call's body is invalid. */
export function checkBinding(binding: Binding | null, args: JsonObject, body: Body | null): Failure | null {
  if (binding === 'match') return null;
  if (binding === null) {
    const expected = 'the body of the call';
    return new Failure('BINDING_REQUIRED', { subject: 'bundle', member: 'body', expected });
  }
  let reason = 'it is not JSON with one meaning';
  if (binding === 'mismatch') reason = describeDifference(args, body) ?? 'it says something else';
  const expected = 'what the body of the call says';
  return new Failure('BINDING_MISMATCH', { subject: 'invocation', expected, reason });
}
