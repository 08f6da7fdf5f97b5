import { equalsByJcs } from '../protocol/jcs.js';
import {
  hasMoreNodes,
  isJsonObject,
  isPlainlyFaithful,
  type JsonObject,
  type JsonValue,
} from '../protocol/json.js';
import { findJsonDefect, MAX_JSON_DEPTH } from '../protocol/json-defects.js';

/** How the body of a call compares with the signed arguments. */
export type Binding = 'match' | 'mismatch' | 'invalid_body';

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
    findJsonDefect(text, { depth: Infinity, within: 'body' }) !== null
  )
    return 'invalid_body';
  return compare(args, document['body'] as JsonValue);
}

/**
 * Binds a body that is a value in this process. A duplicate member, or digits that rounding dropped, can no longer be
 * seen: if you have the text, {@link bindText} sees them.
 *
 * @returns `invalid_body` if JSON has no such value
 */
export function bindValue(args: JsonObject, body: unknown): Binding {
  return relate(args, body, 0);
}

/** Whether JSON can express a value, as far as it is looked at: see {@link relate}. */
export function denotesJson(value: unknown): boolean {
  return relate(undefined, value, 0) !== 'invalid_body';
}

function compare(args: JsonObject, body: JsonValue): Binding {
  return equalsByJcs(args, body) ? 'match' : 'mismatch';
}

/**
 * Compares a value with a signed one, and looks in the same pass whether JSON can express it: to list the members of a
 * large object twice takes milliseconds. `JSON.stringify` writes `null` for an infinity, for example, which could then
 * equal a signed `null`. What is nested deeper than a payload may be is not looked at: it cannot equal signed arguments,
 * and a value that contains itself has no end.
 *
 * @param signed a value of strict JSON; `undefined` if there is none
 */
function relate(signed: JsonValue | undefined, value: unknown, depth: number): Binding {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) return 'invalid_body';
      break;
    case 'number':
      if (!Number.isFinite(value)) return 'invalid_body';
      break;
    case 'boolean':
      break;
    case 'object':
      if (value === null) break;
      if (depth >= MAX_JSON_DEPTH) return 'mismatch';
      return Array.isArray(value)
        ? relateItems(Array.isArray(signed) ? signed : undefined, value, depth)
        : relateMembers(isJsonObject(signed) ? signed : undefined, value, depth);
    default:
      return 'invalid_body';
  }
  return value === signed ? 'match' : 'mismatch';
}

function relateItems(
  signed: readonly JsonValue[] | undefined,
  items: readonly unknown[],
  depth: number,
): Binding {
  let binding: Binding = signed?.length === items.length ? 'match' : 'mismatch';
  // Unlike every(), this reads a hole as the undefined that it stands for.
  for (let at = 0; at < items.length; at++) {
    const inner = relate(binding === 'match' ? signed?.[at] : undefined, items[at], depth + 1);
    if (inner === 'invalid_body') return inner;
    if (inner === 'mismatch') binding = inner;
  }
  return binding;
}

function relateMembers(signed: JsonObject | undefined, object: object, depth: number): Binding {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) return 'invalid_body';
  const names = Object.keys(object);
  let binding: Binding =
    signed !== undefined && Object.keys(signed).length === names.length ? 'match' : 'mismatch';
  for (const name of names) {
    if (!name.isWellFormed()) return 'invalid_body';
    const other =
      binding === 'match' && signed !== undefined && Object.hasOwn(signed, name) ? signed[name] : undefined;
    const inner = relate(other, (object as Readonly<Record<string, unknown>>)[name], depth + 1);
    if (inner === 'invalid_body') return inner;
    if (inner === 'mismatch') binding = inner;
  }
  return binding;
}
