import { hasMoreNodes, isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { META_KEYS } from './carriers.js';
import type { GateContext } from './context.js';

/** The member of `params._meta` with the context of an allowed call, for a tool server that gets no headers. */
const CONTEXT_META = 'xyz.okeyamy.drs/context';

/** The member of `params._meta` with the signed context, if the gate signs. */
const CONTEXT_JWT_META = 'xyz.okeyamy.drs/context_jwt';

/** The member of `params._meta` with the code of a call that passes on trial alone. */
const OBSERVED_META = 'xyz.okeyamy.drs/observed';

/** What a tool server gets where there are no headers: of an allowed call, or of one that passes on trial alone. */
export type HandedOn =
  /** `token`: the signed context; `null` if the gate does not sign. */
  { readonly context: GateContext; readonly token: string | null } | { readonly observed: string };

/**
 * The text of an MCP message that a gate sends on, after its decision: without the bundle, and without what only a gate may
 * say. A message with neither stays as it is. Otherwise, and if a name comes twice in it, it is written anew, from the
 * value that the gate has read: then no parser reads another one.
 *
 * @param text a message that passes, or is allowed
 * @param handedOn goes into `params._meta`; `null` if the message passes, or if headers tell the context
 * @param value what was parsed of the text, if it was
 * @returns `null` if it must be written anew, and nests too deep for that
 */
export function forwardMcp(text: string, handedOn: HandedOn | null, value = JSON.parse(text) as JsonValue) {
  if (!isJsonObject(value)) return text;
  const given = Object.hasOwn(value, 'params') ? value['params'] : undefined;
  const params = isJsonObject(given) ? withoutReserved(given) : given;
  if (handedOn === null || !isJsonObject(params))
    return params === given && !hasNameTwice(text, value) ? text : write(value, params);
  const meta = isJsonObject(params['_meta']) ? params['_meta'] : {};
  return write(value, { ...params, _meta: { ...meta, ...toldBy(handedOn) } });
}

function toldBy(handedOn: HandedOn): JsonObject {
  if ('observed' in handedOn) return { [OBSERVED_META]: handedOn.observed };
  const { context, token } = handedOn;
  return {
    [CONTEXT_META]: context as object as JsonObject,
    ...(token !== null && { [CONTEXT_JWT_META]: token }),
  };
}

function write(message: JsonObject, params: unknown): string | null {
  try {
    return JSON.stringify({ ...message, params });
  } catch (error) {
    // Unlike `JSON.parse`, it recurses.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

const RESERVED: ReadonlySet<string> = new Set(
  [...META_KEYS, CONTEXT_META, CONTEXT_JWT_META, OBSERVED_META].map(fold),
);

/** Upper case, then lower case: some parsers take names for equal that differ in case, in any alphabet. */
function fold(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/** The same object if nothing in it is reserved. */
function withoutReserved(params: JsonObject): JsonObject {
  const changes: Record<string, JsonValue> = {};
  for (const name of Object.keys(params)) {
    const meta = params[name];
    // No folded name is shorter than before. There may be 16,000, and their values are not needed.
    if (name.length > '_meta'.length || fold(name) !== '_meta' || !isJsonObject(meta)) continue;
    const kept = Object.entries(meta).filter(([member]) => !RESERVED.has(fold(member)));
    if (kept.length < Object.keys(meta).length) changes[name] = Object.fromEntries(kept);
  }
  return Object.keys(changes).length === 0 ? params : { ...params, ...changes };
}

/** Whether a name comes twice in an object: parsing keeps one of them, so that the text has more members than the value. */
function hasNameTwice(text: string, value: JsonValue): boolean {
  let nodes = 0;
  const open = [value];
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    if (typeof one !== 'object' || one === null) continue;
    const inner = Object.values(one);
    nodes += Array.isArray(one) ? 1 : 1 + inner.length;
    for (const each of inner) if (typeof each === 'object') open.push(each);
  }
  return hasMoreNodes(text, nodes);
}
