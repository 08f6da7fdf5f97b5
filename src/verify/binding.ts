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

/** Compares a body with the signed arguments; `null` if there is none. */
export function bind(args: JsonObject, body: Body | null): Binding | null {
  switch (body?.kind) {
    case undefined:
      return null;
    case 'value':
      return bindValue(args, body.value);
    case 'text':
      return bindText(args, body.text);
    case 'member':
      return bindMember(args, body.text, body.document);
  }
}

/** `REQUIRE_BINDING`: a bundle that does not match the call's body is invalid. */
export function checkBinding(binding: Binding | null, args: JsonObject, body: Body | null): Failure | null {
  switch (binding) {
    case 'match':
      return null;
    case null:
      return new Failure('BINDING_REQUIRED', {
        subject: 'bundle',
        member: 'body',
        expected: 'the body of the call',
      });
    default: {
      const reason =
        binding === 'mismatch'
          ? (describeDifference(args, body) ?? 'it says something else')
          : 'it is not JSON with one meaning';
      return new Failure('BINDING_MISMATCH', {
        subject: 'invocation',
        expected: 'what the body of the call says',
        reason,
      });
    }
  }
}

/**
 * Binds a body that is given as JSON text.
 *
 * @returns `invalid_body` if the text is not JSON, has no faithful RFC 8785 form, or has more nodes than arguments may
 * @example bindText({ tool: 'a' }, '{ "tool": "a" }'); // 'match'
 */
export function bindText(args: JsonObject, text: string): Binding {
  // Signed arguments have no more nodes, so such a body cannot be what was signed.
  if (hasMoreNodes(text)) return 'invalid_body';
  let body: JsonValue;
  try {
    body = JSON.parse(text) as JsonValue;
  } catch {
    return 'invalid_body';
  }
  if (!isPlainlyFaithful(text, body) && findJsonDefect(text, { depth: Infinity }) !== null)
    return 'invalid_body';
  return compare(args, body);
}

/**
 * Binds the `body` member of a bundle.
 *
 * @param text the JSON text of a document that has the bundle's body
 * @param document what `JSON.parse` made of it
 */
export function bindMember(args: JsonObject, text: string, document: JsonObject): Binding {
  if (
    !isPlainlyFaithful(text, document) &&
    findJsonDefect(text, { depth: Infinity, within: ['body'] }) !== null
  )
    return 'invalid_body';
  return compare(args, document['body'] as JsonValue);
}

/**
 * Binds a body that is a value in this process. A duplicate member, or digits that rounding dropped, can no longer be
 * seen: if you have the text, {@link bindText} sees them.
 *
 * @returns `invalid_body` if JSON has no such value, or it throws when it is read
 */
export function bindValue(args: JsonObject, body: unknown): Binding {
  try {
    const defect = findValueDefect(body);
    // Signed arguments are never so large.
    if (defect !== null) return defect === 'size' ? 'mismatch' : 'invalid_body';
    return compare(args, body as JsonValue);
  } catch {
    // A getter, or a proxy: no parser makes one.
    return 'invalid_body';
  }
}

function compare(args: JsonObject, body: JsonValue): Binding {
  return equalsByJcs(args, body) ? 'match' : 'mismatch';
}
