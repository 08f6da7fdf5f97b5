import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';

const MAX_MEMBERS = 4_096;

/** A body in one of the forms in which it can come. Nothing is said of other kinds. */
export type DescribedBody =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'member'; readonly document: JsonObject }
  | { readonly kind: 'unread' | 'uncompared' | 'unusable' };

/**
 * Says where a body differs from the signed arguments: the first member, and on either side the kind of its value, but
 * no values. Looks no deeper than the arguments are, and at no more than 4,096 members and items.
 *
 * @param body a JSON value; a text that is no JSON, or too long to read again, is not looked at
 * @returns `null` if nothing of what was looked at differs
 * @example describeDifference({ limit: 3 }, { kind: 'text', text: '{"limit":"3"}' });
 * // 'args.limit is a number, the body has a string'
 */
export function describeDifference(args: JsonObject, body: DescribedBody | null): string | null {
  const sent = valueOf(body);
  const search = new Search();
  const found = sent === undefined ? null : search.find(args, sent);
  if (found === null) return null;
  const [kind, other] = [kindOf(found.signed), kindOf(found.sent)];
  const has = kind === other ? other.replace(/^an? /, 'another ') : other === 'missing' ? 'none' : other;
  return `${pathOf(search.steps)} is ${kind}, the body has ${has}`;
}

// Reading a text again takes a tenth of a millisecond for each 10,000 characters.
const MAX_TEXT = 262_144;

function valueOf(body: DescribedBody | null): JsonValue | undefined {
  if (body?.kind === 'value') return body.value as JsonValue;
  if (body?.kind === 'member') return body.document['body'];
  if (body?.kind !== 'text' || body.text.length > MAX_TEXT) return undefined;
  try {
    return JSON.parse(body.text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** Two values, of which `undefined` is a member or item that is missing. */
interface Difference {
  readonly signed: JsonValue | undefined;
  readonly sent: JsonValue | undefined;
}

class Search {
  /** They lead to what is looked at. */
  readonly steps: (string | number)[] = [];
  /** How many members and items may still be looked at. */
  #left = MAX_MEMBERS;

  find(signed: JsonValue | undefined, sent: JsonValue | undefined): Difference | null {
    if (signed === sent) return null;
    if (Array.isArray(signed) && Array.isArray(sent)) {
      const length = Math.max(signed.length, sent.length);
      let found: Difference | null = null;
      for (let at = 0; found === null && at < length && this.#left > 0; at++)
        found = this.#findIn(at, signed[at], sent[at]);
      return found;
    }
    if (!isJsonObject(signed) || !isJsonObject(sent)) return { signed, sent };
    for (const name of Object.keys(signed)) {
      if (this.#left <= 0) return null;
      // Not sent[name]: it may be inherited.
      const found = this.#findIn(name, signed[name], Object.hasOwn(sent, name) ? sent[name] : undefined);
      if (found !== null) return found;
    }
    if (this.#left <= 0) return null;
    const added = Object.keys(sent).find((name) => !Object.hasOwn(signed, name));
    return added === undefined ? null : this.#findIn(added, undefined, sent[added]);
  }

  #findIn(step: string | number, signed: JsonValue | undefined, sent: JsonValue | undefined) {
    this.#left--;
    this.steps.push(step);
    const found = this.find(signed, sent);
    if (found === null) this.steps.pop();
    return found;
  }
}

function kindOf(value: JsonValue | undefined): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

const MAX_NAME = 40;
const MAX_PATH = 160;

function pathOf(steps: readonly (string | number)[]): string {
  let path = 'args';
  for (const step of steps) {
    const name = String(step);
    const short = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
    if (typeof step === 'number') path += `[${short}]`;
    else path += /^[A-Za-z_$][\w$…]*$/.test(short) ? `.${short}` : `[${JSON.stringify(short)}]`;
    if (path.length > MAX_PATH) return `${path.slice(0, MAX_PATH)}…`;
  }
  return path;
}
